package cluster

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/app/check"
)

// sides are both clusters.
func (s *session) sides() map[string]client.Client {
	return map[string]client.Client{"consumer": s.Consumer, "provider": s.Provider}
}

// isLongshore skips a check in a cluster without policies: they are Longshore's own.
func isLongshore(ctx context.Context, role string, c client.Client) error {
	err := c.List(ctx, &policyv1alpha1.OffloadingPolicyList{}, client.Limit(1))
	if meta.IsNoMatchError(err) {
		return skip("the " + role + " does not serve OffloadingPolicies: it runs another implementation")
	}
	if err != nil {
		return fmt.Errorf("listing the OffloadingPolicies of the %s: %w", role, err)
	}
	return nil
}

// onLongshore runs a check until it passes in both clusters; clusters of another implementation are skipped.
func (s *session) onLongshore(ctx context.Context, run func(ctx context.Context, role string, c client.Client) error) error {
	var errs []error
	for role, c := range s.sides() {
		if err := isLongshore(ctx, role, c); err != nil {
			return err
		}
		if err := s.until(ctx, func(ctx context.Context) error { return run(ctx, role, c) }); err != nil {
			errs = append(errs, fmt.Errorf("the %s: %w", role, err))
		}
	}
	return errors.Join(errs...)
}

func (s *session) longshoreWebhook(ctx context.Context) error {
	return s.onLongshore(ctx, func(ctx context.Context, role string, c client.Client) error {
		namespace := s.consumerHome
		if role == "provider" {
			namespace = s.providerHome
		}
		return check.Webhook(ctx, c, namespace)
	})
}

func (s *session) longshorePolicies(ctx context.Context) error {
	return s.onLongshore(ctx, func(ctx context.Context, _ string, c client.Client) error { return check.Policies(ctx, c) })
}

func (s *session) longshoreDecisions(ctx context.Context) error {
	if err := isLongshore(ctx, "consumer", s.Consumer); err != nil {
		return err
	}
	_, remote, err := s.pods(ctx)
	if err != nil {
		return err
	}
	if remote.Annotations[policyv1alpha1.DecisionsAnnotation] == "" {
		return fmt.Errorf("the remote pod has no annotation %s", policyv1alpha1.DecisionsAnnotation)
	}
	return nil
}

func (s *session) longshoreQuota(ctx context.Context) error {
	if err := isLongshore(ctx, "provider", s.Provider); err != nil {
		return err
	}
	identities, err := s.identities(ctx)
	if err != nil {
		return err
	}
	return s.until(ctx, func(ctx context.Context) error {
		quotas := 0
		for _, identity := range identities {
			quota, err := s.quotaOf(ctx, identity.user)
			if err != nil {
				return err
			}
			if quota == nil {
				continue
			}
			quotas++
			if used := quota.Status.Used[corev1.ResourceCPU]; !used.IsZero() {
				return nil
			}
		}
		if quotas == 0 {
			return skip("the provider has no Quota for the consumer")
		}
		return errors.New("status.used of no Quota counts cpu although a pod runs")
	})
}
