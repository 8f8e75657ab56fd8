package admin

import (
	"context"
	"fmt"
	"os"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/cmd/longshorectl/console"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/retry"
)

const poll = 200 * time.Millisecond

// Step is one part of a command. Every step may be repeated: it takes up what an earlier run
// left.
type Step struct {
	// Title says what is done.
	Title string
	// Run does it.
	Run func(context.Context, Waiting) error
}

// Waiting reports what a step waits for, as a phrase.
type Waiting func(string)

// RunSteps runs the steps one after the other with progress on a file, and stops at the
// first error or after the timeout.
func RunSteps(ctx context.Context, progress *os.File, timeout time.Duration, steps []Step) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("not done after --timeout %s; the command can be repeated", timeout))
	defer cancel()
	c := console.New(progress)
	for _, step := range steps {
		if err := c.Step(step.Title, func(detail func(string)) error { return step.Run(ctx, detail) }); err != nil {
			return err
		}
	}
	return nil
}

// Until reads an object until it is as wanted. The condition returns what is missing, or "".
func (c *Cluster) Until(ctx context.Context, object client.Object, waiting Waiting, condition func() string) error {
	missing := "it to exist"
	for {
		err := c.Get(ctx, client.ObjectKeyFromObject(object), object)
		switch {
		case err == nil:
			if missing = condition(); missing == "" {
				return nil
			}
		case meta.IsNoMatchError(err) || !apierrors.IsNotFound(err) && ctx.Err() == nil && !isTransient(err):
			return fmt.Errorf("reading %s in the %s: %w", Describe(object), c.Role, err)
		}
		waiting(fmt.Sprintf("waiting for %s in the %s: %s", Describe(object), c.Role, missing))
		if !retry.Pause(ctx, poll) {
			return fmt.Errorf("waiting for %s in the %s (%s): %w", Describe(object), c.Role, missing, context.Cause(ctx))
		}
	}
}

// UntilGone reads an object until it does not exist.
func (c *Cluster) UntilGone(ctx context.Context, object client.Object, waiting Waiting) error {
	for {
		err := c.Get(ctx, client.ObjectKeyFromObject(object), object)
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil && ctx.Err() == nil && !isTransient(err):
			return fmt.Errorf("reading %s in the %s: %w", Describe(object), c.Role, err)
		}
		waiting(fmt.Sprintf("waiting until %s is deleted from the %s; %s", Describe(object), c.Role, blockers(object)))
		if !retry.Pause(ctx, poll) {
			return fmt.Errorf("waiting until %s is deleted from the %s (%s): %w", Describe(object), c.Role, blockers(object), context.Cause(ctx))
		}
	}
}

// blockers says what an object that is being deleted waits for: its finalizers, and what its
// conditions report.
func blockers(object client.Object) string {
	text := fmt.Sprintf("finalizers: %v", object.GetFinalizers())
	if vn, ok := object.(*offloadingv1beta1.VirtualNode); ok {
		for _, condition := range vn.Status.Conditions {
			if condition.Message != "" {
				text += fmt.Sprintf("; %s %s: %s", condition.Type, condition.Status, condition.Message)
			}
		}
	}
	return text
}

// Poll calls a condition until it returns "". It returns what is missing, or an error, which
// ends the wait.
func Poll(ctx context.Context, waiting Waiting, condition func() (string, error)) error {
	for {
		missing, err := condition()
		if err != nil || missing == "" {
			return err
		}
		waiting("waiting for " + missing)
		if !retry.Pause(ctx, poll) {
			return fmt.Errorf("waiting for %s: %w", missing, context.Cause(ctx))
		}
	}
}

// DeleteAll deletes objects and waits until they do not exist.
func (c *Cluster) DeleteAll(ctx context.Context, objects []client.Object, waiting Waiting) error {
	for _, object := range objects {
		if err := c.Delete(ctx, object, client.PropagationPolicy(metav1.DeletePropagationBackground)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting %s in the %s: %w", Describe(object), c.Role, err)
		}
	}
	for _, object := range objects {
		if err := c.UntilGone(ctx, object, waiting); err != nil {
			return err
		}
	}
	return nil
}

func isTransient(err error) bool {
	return apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsTimeout(err)
}
