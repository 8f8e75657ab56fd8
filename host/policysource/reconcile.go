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
	"github.com/longshore-dev/longshore/host/policysource/plan"
	"github.com/longshore-dev/longshore/host/policysource/report"
)

// Reconcile replaces all bindings at once. The chains decide by new bindings before the
// component reports them. While a module is being loaded, the previous version of its policy
// decides. The first reconciliation has no previous versions and waits for all modules.
func (s *Source) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
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
	in := plan.Input{
		Modules: map[string]plan.Module{}, Previous: s.bound, Answered: s.answered(),
		BuiltIn: s.options.BuiltIns[policyv1alpha1.BuiltInDefault], NamespaceLabels: s.namespaceLabels,
	}
	wanted, loadingSince := map[moduleKey]bool{}, map[string]time.Time{}
	for i := range list.Items {
		policy := &list.Items[i]
		if policy.DeletionTimestamp != nil {
			continue
		}
		key, state, began, err := s.moduleOf(ctx, policy)
		if err != nil {
			return false, err
		}
		wanted[key] = true
		in.Policies, in.Modules[policy.Name] = append(in.Policies, policy), state
		if state.Loading {
			loadingSince[policy.Name] = began
		}
	}
	if !s.ready.Load() && len(loadingSince) > 0 {
		s.forget(wanted)
		return false, nil
	}
	outcomes, bindings, err := plan.Make(&in)
	if err != nil {
		return false, fmt.Errorf("planning the bindings of policies: %w", err)
	}
	if err := s.chains.Swap(bindings); err != nil {
		return false, fmt.Errorf("binding policies: %w", err)
	}
	s.settle(outcomes)
	s.loadingSince = loadingSince
	s.forget(wanted)
	return true, nil
}

// settle remembers what the chains have, and calls Changed when they have something else than
// before.
func (s *Source) settle(outcomes []plan.Outcome) {
	now := map[string]plan.Bound{}
	for i := range outcomes {
		if b := outcomes[i].Bound; b != nil {
			now[outcomes[i].Policy.Name] = *b
		}
	}
	isChanged := !maps.EqualFunc(s.bound, now, func(a, b plan.Bound) bool { return a.Version == b.Version })
	s.bound, s.outcomes = now, outcomes
	s.current.Store(&now)
	s.account()
	if isFirst := !s.ready.Swap(true); (isFirst || isChanged) && s.options.Changed != nil {
		s.options.Changed()
	}
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
	health := map[string][]chain.Health{}
	quarantined := map[string]string{}
	for _, h := range s.chains.Health() {
		// A default and a policy in mode Shadow may have the same name.
		if b, ok := s.bound[h.Binding]; ok && b.Shadow == h.Shadow {
			health[h.Binding] = append(health[h.Binding], h)
			if h.Quarantined() && !h.Shadow {
				quarantined[h.Binding] = b.Version
			}
		}
	}
	s.requeueRecovered(quarantined)
	if s.standby.Load() || !s.ready.Load() {
		return nil
	}
	s.differences.Update()
	var observations []policyv1alpha1.PolicyObservation
	for i := range s.outcomes {
		o := &s.outcomes[i]
		observation := report.Observe(o, health[o.Policy.Name])
		observation.Differences = s.differences.Of(o.Policy.Name)
		if wait := loadPatience - s.options.Clock.Since(s.loadingSince[o.Policy.Name]); o.Loading && wait > 0 {
			// A short load is not worth a write of its own.
			s.requeueAfter(reportOnly, wait)
			last := s.writer.Last(o.Policy.Name, o.Policy.UID)
			if last == nil {
				continue
			}
			observation = *last
		}
		observations = append(observations, observation)
	}
	if err := s.writer.Write(ctx, observations); err != nil {
		return fmt.Errorf("reporting the state of policies: %w", err)
	}
	return nil
}

// requeueRecovered calls Changed when a version that is still bound is no longer quarantined:
// objects that wait for it can be decided. The keys are names of policies.
func (s *Source) requeueRecovered(quarantined map[string]string) {
	previous := s.quarantined
	s.quarantined = quarantined
	for name, version := range previous {
		if quarantined[name] == "" && s.bound[name].Version == version && s.options.Changed != nil {
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
