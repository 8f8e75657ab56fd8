package policysource

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policysource/modules"
	"github.com/longshore-dev/longshore/host/policysource/plan"
	"github.com/longshore-dev/longshore/host/policysource/report"
)

// loadPatience is how long a load takes before it is reported.
const loadPatience = time.Second

// Reconcile replaces all bindings at once. The chains decide by new bindings before the
// component reports them. While a module is being loaded, the previous version of its policy
// decides. The first reconciliation has no previous versions and waits for all modules.
func (s *Source) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	if s.ownerReplaced.Swap(false) {
		s.writer.OwnerReplaced()
	}
	var registered error
	if !s.standby.Load() {
		// Decisions do not depend on reports: a failure is returned at the end.
		registered = s.writer.Register(ctx)
	}
	if request != reportOnly {
		if done, err := s.bind(ctx); err != nil || !done {
			return ctrl.Result{}, errors.Join(err, registered)
		}
	}
	return ctrl.Result{}, errors.Join(registered, s.report(ctx))
}

// bind brings the chains in line with the policies. It is not done while the first decision
// waits for modules.
func (s *Source) bind(ctx context.Context) (done bool, err error) {
	list := &policyv1alpha1.OffloadingPolicyList{}
	if err := s.options.Client.List(ctx, list); err != nil {
		return false, fmt.Errorf("listing OffloadingPolicies: %w", err)
	}
	bound := s.bound()
	in := plan.Input{
		Modules: map[string]plan.Module{}, Previous: bound, Answered: s.answered(),
		BuiltIn: s.options.BuiltIn, NamespaceLabels: s.namespaceLabels,
	}
	named, isLoading := map[modules.Key]bool{}, false
	for i := range list.Items {
		policy := &list.Items[i]
		if policy.DeletionTimestamp != nil {
			continue
		}
		key, module, err := s.modules.Get(ctx, policy)
		if err != nil {
			return false, err
		}
		named[key] = true
		in.Policies, in.Modules[policy.Name] = append(in.Policies, policy), module
		isLoading = isLoading || !module.LoadingSince.IsZero()
	}
	if !s.ready.Load() && isLoading {
		s.modules.Keep(named, nil)
		return false, nil
	}
	outcomes, bindings, err := plan.Make(&in)
	if err != nil {
		return false, fmt.Errorf("planning the bindings of policies: %w", err)
	}
	if err := s.chains.Swap(bindings); err != nil {
		return false, fmt.Errorf("binding policies: %w", err)
	}
	s.modules.Keep(named, plan.PoliciesOf(outcomes))
	s.deleteSeries(*s.planned.Swap(&outcomes), outcomes)
	s.differences.Keep(outcomes)
	isSame := maps.EqualFunc(bound, s.bound(), func(a, b plan.Bound) bool { return a.Version == b.Version })
	if isFirst := !s.ready.Swap(true); isFirst || !isSame {
		s.options.Changed()
	}
	return true, nil
}

// bound returns what the chains have, by the name of the policy.
func (s *Source) bound() map[string]plan.Bound {
	out := map[string]plan.Bound{}
	for _, o := range *s.planned.Load() {
		if o.Bound != nil {
			out[o.Policy.Name] = *o.Bound
		}
	}
	return out
}

// answered returns the names of the policies whose bound version has given a valid answer.
func (s *Source) answered() map[string]bool {
	names := map[string]bool{}
	for _, h := range s.chains.Health() {
		if h.Answered && !h.Shadow {
			names[h.Binding] = true
		}
	}
	return names
}

// report writes the outcomes and the health of the bindings, and calls Changed after the end of
// a quarantine.
func (s *Source) report(ctx context.Context) error {
	health, quarantined := map[string][]chain.Health{}, map[string]string{}
	bound := s.bound()
	for _, h := range s.chains.Health() {
		// A default and a policy in mode Shadow may have the same name.
		if b, ok := bound[h.Binding]; ok && b.Shadow == h.Shadow {
			health[h.Binding] = append(health[h.Binding], h)
			if h.Quarantined() && !h.Shadow {
				quarantined[h.Binding] = b.Version
			}
		}
	}
	s.requeueRecovered(bound, quarantined)
	if s.standby.Load() || !s.ready.Load() {
		return nil
	}
	differences, again := s.differences.Latest()
	if again > 0 {
		s.requeueAfter(reportOnly, again)
	}
	outcomes := *s.planned.Load()
	observations := make([]policyv1alpha1.PolicyObservation, len(outcomes))
	for i := range outcomes {
		o := &outcomes[i]
		if wait := loadPatience - s.options.Clock.Since(o.LoadingSince); o.IsLoading() && wait > 0 {
			// A short load is not worth a write of its own.
			s.requeueAfter(reportOnly, wait)
			return nil
		}
		observations[i] = report.Observe(o, health[o.Policy.Name])
		observations[i].Differences = differences[o.Policy.Name]
		observations[i].NotCalled = s.isNotCalled(o)
	}
	if err := s.writer.Write(ctx, observations); err != nil {
		return fmt.Errorf("reporting the state of policies: %w", err)
	}
	return nil
}

// requeueRecovered calls Changed when a version that is still bound is no longer quarantined:
// objects that wait for it can be decided. The keys are names of policies.
func (s *Source) requeueRecovered(bound map[string]plan.Bound, quarantined map[string]string) {
	previous := s.quarantined
	s.quarantined = quarantined
	for name, version := range previous {
		if quarantined[name] == "" && bound[name].Version == version {
			s.options.Changed()
			return
		}
	}
}

func (s *Source) namespaceLabels(ctx context.Context, name string) (map[string]string, error) {
	namespace := &corev1.Namespace{}
	if err := s.options.Client.Get(ctx, client.ObjectKey{Name: name}, namespace); err != nil {
		return nil, fmt.Errorf("reading the labels of namespace %q: %w", name, err)
	}
	return namespace.Labels, nil
}
