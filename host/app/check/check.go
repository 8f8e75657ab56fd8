// Package check verifies an installation from inside its cluster, for `helm test`.
package check

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
)

// Options of a check.
type Options struct {
	// Client acts in the cluster.
	Client client.Client
	// Namespace is Longshore's own.
	Namespace string
	// Timeout is how long a check may fail until it counts, PollInterval the time between attempts.
	Timeout, PollInterval time.Duration
	// Out receives one line for each check.
	Out io.Writer
}

// invalidName is a name that only the webhook refuses for a NamespaceOffloading.
const invalidName = "longshore-check"

// Run checks that the API server reaches the webhook and that all components decide by the current
// versions of the policies. It creates nothing. It returns an error that joins those of all checks.
func Run(ctx context.Context, o Options) error {
	var errs []error
	for _, check := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"the API server reaches the webhook", func(ctx context.Context) error { return Webhook(ctx, o.Client, o.Namespace) }},
		{"every policy is ready", func(ctx context.Context) error { return Policies(ctx, o.Client) }},
	} {
		err := Eventually(ctx, o.PollInterval, o.Timeout, check.run)
		outcome := "ok  "
		if err != nil {
			outcome = "FAIL"
			errs = append(errs, fmt.Errorf("%s: %w", check.name, err))
		}
		if _, err := fmt.Fprintf(o.Out, "%s %s\n", outcome, check.name); err != nil {
			errs = append(errs, fmt.Errorf("printing a result: %w", err))
		}
	}
	return errors.Join(errs...)
}

// Eventually runs a check until it succeeds, and returns its last error after the timeout.
func Eventually(ctx context.Context, pollInterval, timeout time.Duration, check func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, pollInterval, timeout, true, func(ctx context.Context) (bool, error) {
		if err := check(ctx); err != nil && ctx.Err() == nil {
			last = err
		} else if err == nil {
			last = nil
			return true, nil
		}
		return false, nil
	})
	if err != nil && last == nil {
		return fmt.Errorf("waiting for an answer: %w", err)
	}
	return last
}

// Webhook creates, as a dry run in Longshore's own namespace, an object that the webhook refuses.
// It returns an error if the API server does not reach the webhook.
func Webhook(ctx context.Context, c client.Client, namespace string) error {
	nso := &offloadingv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: invalidName}}
	err := c.Create(ctx, nso, client.DryRunAll)
	switch {
	case err == nil:
		return errors.New("the API server does not call the webhook: the ValidatingWebhookConfiguration longshore-webhook is missing or does not select NamespaceOffloadings")
	case strings.Contains(err.Error(), "failed calling webhook"):
		return fmt.Errorf("calling the webhook: %w", err)
	case strings.Contains(err.Error(), "denied the request"):
		return nil
	default:
		return fmt.Errorf("creating NamespaceOffloading %s/%s as a dry run: %w", namespace, invalidName, err)
	}
}

// Policies returns an error that names the policies that are not ready.
func Policies(ctx context.Context, c client.Client) error {
	list := &policyv1alpha1.OffloadingPolicyList{}
	if err := c.List(ctx, list); err != nil {
		return fmt.Errorf("listing OffloadingPolicies: %w", err)
	}
	var errs []error
	for i := range list.Items {
		policy := &list.Items[i]
		if policy.Spec.Mode == policyv1alpha1.ModeDisabled {
			continue
		}
		condition := meta.FindStatusCondition(policy.Status.Conditions, policyv1alpha1.ReadyCondition)
		switch {
		case condition == nil || condition.ObservedGeneration != policy.Generation:
			errs = append(errs, fmt.Errorf("OffloadingPolicy %s has no current status: the manager has not observed it", policy.Name))
		case condition.Status != metav1.ConditionTrue:
			errs = append(errs, fmt.Errorf("OffloadingPolicy %s is not ready: %s: %s", policy.Name, condition.Reason, condition.Message))
		}
	}
	return errors.Join(errs...)
}
