package policysource

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// bound is what an object has in the chains.
type bound struct {
	version string
	// generation of the object that it is.
	generation int64
	digest     string
	settings   string
	bindings   []chain.Binding
	// shadow tells that the bindings have no effect.
	shadow bool
	// fallback are the bindings of the version before that had answered, for failure
	// policy LastGood, and fallbackGeneration that of the object then.
	fallback           []chain.Binding
	fallbackGeneration int64
	// held is set when the bindings stand in for a policy that nobody can ask.
	held *held
}

// candidate is an object on its way into the chains.
type candidate struct {
	object *policyv1alpha1.OffloadingPolicy
	// next is what the object asks for, unless there is a problem.
	next    bound
	problem *problem
	// module that the object asks for, when it is loaded.
	module chain.Policy
	// loading is since when that is being loaded, the zero time when it is not.
	loading time.Time
	// previous is what the chains have of it.
	previous *bound
	// choice is what is proposed to the chains: next, previous, that nobody can be asked, or
	// nothing.
	choice *bound
	// health of what is bound, at each of its points.
	health []chain.Health
}

// changed tells whether the proposal differs from what the chains have.
func (c *candidate) changed() bool {
	return c.choice != nil && (c.previous == nil || c.previous.version != c.choice.version)
}

// Reconcile makes one pass over all objects. The new bindings decide before their
// digests are reported: whoever reads a digest in status is asked for by no older
// version. A policy whose module is still being loaded is decided by its previous version
// meanwhile, if there is one; before the first decision there is none, so that waits for
// all of them.
func (s *Source) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	list := &policyv1alpha1.OffloadingPolicyList{}
	if err := s.options.Client.List(ctx, list); err != nil {
		return ctrl.Result{}, fmt.Errorf("listing OffloadingPolicies: %w", err)
	}
	if request == reporting {
		return ctrl.Result{}, s.reportAll(ctx, s.known(list.Items))
	}
	candidates, wanted, err := s.candidates(ctx, list.Items)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !s.ready.Load() && slices.ContainsFunc(candidates, (*candidate).pending) {
		s.forget(wanted)
		return ctrl.Result{}, nil
	}
	if err := s.swap(candidates); err != nil {
		return ctrl.Result{}, fmt.Errorf("binding policies: %w", err)
	}
	s.forget(wanted)
	s.latest = map[string]*candidate{}
	for _, c := range candidates {
		s.latest[c.object.Name] = c
	}
	return ctrl.Result{}, s.reportAll(ctx, candidates)
}

// known returns what the last pass made of these objects; those that have changed since
// wait for the next pass.
func (s *Source) known(objects []policyv1alpha1.OffloadingPolicy) []*candidate {
	var candidates []*candidate
	for i := range objects {
		c := s.latest[objects[i].Name]
		if c == nil || c.object.UID != objects[i].UID || c.object.Generation != objects[i].Generation {
			continue
		}
		c.object = &objects[i]
		candidates = append(candidates, c)
	}
	return candidates
}

// candidates looks at every object, eldest first, and loads what it asks for.
func (s *Source) candidates(ctx context.Context, objects []policyv1alpha1.OffloadingPolicy) ([]*candidate, map[moduleKey]bool, error) {
	slices.SortFunc(objects, func(a, b policyv1alpha1.OffloadingPolicy) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	wanted := map[moduleKey]bool{}
	var candidates []*candidate
	for i := range objects {
		if objects[i].DeletionTimestamp != nil {
			continue
		}
		c := &candidate{object: &objects[i]}
		if b, ok := s.bound[c.object.Name]; ok {
			c.previous = &b
		}
		key, err := s.prepare(ctx, c)
		if err != nil {
			return nil, nil, err
		}
		wanted[key] = true
		c.choice = s.choose(c)
		candidates = append(candidates, c)
	}
	return candidates, wanted, nil
}

// prepare finds out what an object asks for, or what is wrong with it.
func (s *Source) prepare(ctx context.Context, c *candidate) (moduleKey, error) {
	if c.problem = s.check(c.object); c.problem != nil {
		return moduleKey{}, nil
	}
	if disabled(c.object) {
		c.next = bound{version: c.version(moduleKey{}), generation: c.object.Generation}
		return moduleKey{}, nil
	}
	key, module, raw, bad, err := s.find(ctx, c.object, nil)
	if err != nil {
		return key, err
	}
	if bad == nil && module == nil {
		module, c.loading, bad = s.keep(ctx, c.object.Name, key, raw)
	}
	if c.problem = bad; bad != nil || c.pending() {
		return key, nil
	}
	c.module = module
	version := c.version(key)
	if c.previous != nil && c.previous.version == version {
		c.next = *c.previous
		return key, nil
	}
	bindings, bad := s.bindingsOf(c.object, module)
	if bad == nil {
		bad = validate(ctx, c.object, module, pointsIn(bindings))
	}
	if bad != nil {
		bad.loaded = true
		c.problem = bad
		return key, nil
	}
	c.next = bound{version: version, generation: c.object.Generation, digest: module.Digest(), bindings: bindings, shadow: shadow(c.object)}
	if c.object.Spec.Settings != nil {
		c.next.settings = string(c.object.Spec.Settings.Raw)
	}
	s.keepLastGood(c)
	return key, nil
}

// pending tells whether the module is being loaded.
func (c *candidate) pending() bool { return !c.loading.IsZero() }

// keepLastGood puts the version before behind the new one, if it had answered, else
// what was behind that.
func (s *Source) keepLastGood(c *candidate) {
	if c.object.Spec.FailurePolicy != policyv1alpha1.FailurePolicyLastGood || c.previous == nil {
		return
	}
	c.next.fallback, c.next.fallbackGeneration = c.previous.fallback, c.previous.fallbackGeneration
	same := c.previous.digest == c.next.digest && c.previous.settings == c.next.settings
	if !same && c.previous.enforces() && s.answered(c.object.Name) {
		c.next.fallback, c.next.fallbackGeneration = c.previous.bindings, c.previous.generation
	}
	for i := range c.next.bindings {
		for j := range c.next.fallback {
			if c.next.fallback[j].Point == c.next.bindings[i].Point {
				c.next.bindings[i].Fallback = &c.next.fallback[j]
			}
		}
	}
}

// answered tells whether the version that is bound has given a valid answer.
func (s *Source) answered(name string) bool {
	return slices.ContainsFunc(s.chains.Health(), func(h chain.Health) bool { return h.Binding == name && h.Answered && !h.Shadow })
}

func (c *candidate) version(key moduleKey) string {
	return fmt.Sprintf("%s %d %s", c.object.UID, c.object.Generation, key.content)
}

// validate lets a module check its settings, if it can, for the points that it is bound to.
func validate(ctx context.Context, policy *policyv1alpha1.OffloadingPolicy, module chain.Policy, points []contract.Point) *problem {
	validator, ok := module.(settingsValidator)
	if !ok || policy.Spec.Settings == nil {
		return nil
	}
	if err := validator.ValidateSettings(ctx, policy.Spec.Settings.Raw, points...); err != nil {
		return &problem{reason: reasonSettings, err: fmt.Errorf("spec.settings: %w", err)}
	}
	return nil
}

func pointsIn(bindings []chain.Binding) []contract.Point {
	points := make([]contract.Point, len(bindings))
	for i := range bindings {
		points[i] = bindings[i].Point
	}
	return points
}

// swap proposes bindings to the chains until they are taken. A binding that is refused
// makes room for its previous version, else for that nobody can be asked, else for none;
// what the chains have already is favored over what is new.
func (s *Source) swap(candidates []*candidate) error {
	// Each attempt that fails takes something back; there are three steps per object.
	for range 3*len(candidates) + 1 {
		err := s.chains.Swap(s.proposal(candidates))
		if err == nil {
			s.settle(candidates)
			return nil
		}
		blamed, bad := blame(candidates, err)
		if blamed == nil {
			return err
		}
		if blamed.problem == nil {
			blamed.problem = bad
		}
		s.retreat(blamed)
	}
	return errors.New("the chains refuse every choice of bindings: this is a bug of Longshore")
}

// proposal lists the bindings: defaults, then what is unchanged, then what is new, so
// that the chains find fault with the new.
func (s *Source) proposal(candidates []*candidate) []chain.Binding {
	replaced := map[string]bool{}
	var kept, changed []chain.Binding
	for _, c := range candidates {
		switch {
		case c.choice == nil:
			continue
		case c.changed():
			changed = append(changed, c.choice.bindings...)
		default:
			kept = append(kept, c.choice.bindings...)
		}
		// A shadow replaces nothing: the default that it stands in for goes on.
		replaced[c.object.Name] = !c.choice.shadow
	}
	return slices.Concat(s.implicit(replaced), kept, changed)
}

// blame finds the object that an error of the chains is about; nil when it is none.
func blame(candidates []*candidate, err error) (*candidate, *problem) {
	find := func(name string) *candidate {
		for _, c := range candidates {
			if c.object.Name == name && c.choice != nil {
				return c
			}
		}
		return nil
	}
	var conflict *chain.ConflictError
	if errors.As(err, &conflict) {
		blamed := find(conflict.Second)
		if other := find(conflict.First); other != nil && (blamed == nil || (other.changed() && !blamed.changed())) {
			blamed = other
		}
		return blamed, &problem{reason: reasonConflict, err: err, loaded: true}
	}
	var refused *chain.BindingError
	if errors.As(err, &refused) {
		return find(refused.Binding), &problem{reason: reasonRefused, err: err, loaded: true}
	}
	return nil, nil
}

// settle remembers what the chains have, and tells when that is news.
func (s *Source) settle(candidates []*candidate) {
	now := map[string]bound{}
	for _, c := range candidates {
		if c.choice != nil {
			now[c.object.Name] = *c.choice
		}
	}
	news := !maps.EqualFunc(s.bound, now, func(a, b bound) bool { return a.version == b.version })
	s.bound = now
	s.current.Store(&now)
	s.account(candidates)
	if first := !s.ready.Swap(true); (first || news) && s.options.Changed != nil {
		s.options.Changed()
	}
}

// logger names the policy.
func (c *candidate) logger(ctx context.Context) logr.Logger {
	return log.FromContext(ctx).WithValues("policy", c.object.Name)
}
