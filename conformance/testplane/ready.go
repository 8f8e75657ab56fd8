package testplane

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const pollInterval = 25 * time.Millisecond

// waitServing returns when the API server is ready and the controller manager, which it starts if it has a
// process of its own, has made the default service account, without which the API server refuses pods.
func (c *Cluster) waitServing(ctx context.Context, control *process) error {
	config := c.RESTConfig()
	config.Timeout = 2 * time.Second
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	ready := func(ctx context.Context) error {
		if err := client.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error(); err != nil {
			return fmt.Errorf("asking the API server whether it is ready: %w", err)
		}
		return nil
	}
	if err := waitFor(ctx, ready, control); err != nil {
		return err
	}
	hasDefaults := func(ctx context.Context) error {
		_, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("reading the default service account: %w", err)
		}
		return nil
	}
	return waitFor(ctx, hasDefaults, control)
}

// waitFor polls until ready returns nil. The end of a process ends the wait.
func waitFor(ctx context.Context, ready func(context.Context) error, p *process) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	// A question to a process that has ended is not worth its timeout.
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-p.done:
			cancel()
		case <-asking.Done():
		}
	}()
	for {
		err := ready(asking)
		if err == nil {
			return nil
		}
		if p.ended() {
			return errors.New(p.diagnosis(errorLines))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w (last: %w); %s", p.name, context.Cause(ctx), err, p.diagnosis(errorLines))
		case <-tick.C:
		}
	}
}
