package policysource

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// VirtualKubelet begins the names of components that are virtual kubelets; that of the
// virtual node follows.
const VirtualKubelet = "virtual-kubelet/"

// Field managers. Each component owns its entry of status.observedBy, one of them the
// rest.
const (
	managerPrefix     = "longshore-policies-"
	conditionsManager = "longshore-policies"
	// maxManager is the API server's bound.
	maxManager = 128
)

// written is what this component has made of the status of an object.
type written struct {
	uid types.UID
	// entry without counters and differences, which are compared elsewhere.
	entry policyv1alpha1.Observation
	// status without entries, when this component writes conditions.
	status *policyv1alpha1.OffloadingPolicyStatus
}

// reportAll reports on the objects of a pass. Of the replicas of a component that share
// its entry, as those of a virtual node do, the one that works reports.
func (s *Source) reportAll(ctx context.Context, candidates []*candidate) error {
	if s.standby.Load() {
		return nil
	}
	components, err := s.components(ctx)
	if err != nil {
		return err
	}
	health := map[string][]chain.Health{}
	for _, h := range s.chains.Health() {
		// A shadow may bear the name of a default that goes on.
		if own, ok := s.bound[h.Binding]; ok && own.shadow == h.Shadow {
			health[h.Binding] = append(health[h.Binding], h)
		}
	}
	due, counted := s.tally.due(), false
	var errs []error
	for _, c := range candidates {
		c.health = health[c.object.Name]
		s.tellHealth(c)
		wrote, err := s.report(ctx, c, due, components)
		counted = counted || wrote
		errs = append(errs, err, s.dismiss(ctx, c, components))
	}
	err = errors.Join(errs...)
	if counted && err == nil { // else counters may be written with the next attempt
		s.tally.wrote()
	}
	return err
}

// components returns who may report, no names when that is anybody, and who writes
// conditions.
func (s *Source) components(ctx context.Context) (Components, error) {
	switch {
	case !s.options.Conditions:
		return Components{}, nil
	case s.options.Components == nil:
		return Components{Speaker: s.options.Component}, nil
	}
	components, err := s.options.Components(ctx)
	if err != nil {
		return Components{}, fmt.Errorf("listing the components that run policies: %w", err)
	}
	return components, nil
}

// dismiss removes what components have reported that are no more.
func (s *Source) dismiss(ctx context.Context, c *candidate, components Components) error {
	if components.Names == nil || components.Speaker != s.options.Component {
		return nil
	}
	var errs []error
	for _, entry := range c.object.Status.ObservedBy {
		if entry.Name == s.options.Component || components.Names[entry.Name] {
			continue
		}
		// Who applies nothing gives up what it owned.
		errs = append(errs, s.apply(ctx, c, map[string]any{}, fieldManager(entry.Name)))
	}
	return errors.Join(errs...)
}

// report writes what has become of an object into its status, if that is news. Counters
// alone are news when they are due; counted tells that they were written so. Of a module
// that is being loaded there is nothing to say yet, unless it takes long.
func (s *Source) report(ctx context.Context, c *candidate, due bool, components Components) (counted bool, err error) {
	soon := c.pending() && s.options.Clock.Since(c.loading) < loadPatience
	if soon && c.choice == nil {
		return false, nil
	}
	before := s.written[c.object.Name]
	if before.uid != c.object.UID {
		before = written{uid: c.object.UID}
	}
	entry, counters, news := s.observation(c, due, before.entry)
	if news {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(entry)
		if err != nil {
			return false, fmt.Errorf("encoding the status of policy %q: %w", c.object.Name, err)
		}
		if entry.Counters != nil {
			content["counters"] = explicit(entry.Counters)
		}
		status := map[string]any{"observedBy": []any{content}}
		if err := s.apply(ctx, c, status, fieldManager(s.options.Component)); err != nil {
			return false, err
		}
		if counters != nil {
			counted = counters.wrote(*entry.Counters) && due
		}
	}
	before.entry = policyv1alpha1.Observation{Name: entry.Name, Generation: entry.Generation, Digest: entry.Digest, Message: entry.Message}
	if components.Speaker == s.options.Component && !soon {
		before.status, err = s.reportConditions(ctx, c, entry, before.status, components)
	}
	if err == nil {
		s.written[c.object.Name] = before
	}
	return counted, err
}

// explicit lists zeros too: an applied object that loses its last member becomes null,
// which the API server then refuses.
func explicit(counters *policyv1alpha1.Counters) map[string]any {
	return map[string]any{
		"calls": counters.Calls, "changes": counters.Changes, "denials": counters.Denials, "errors": counters.Errors,
	}
}

// reportConditions writes the part of the status that belongs to no component, if it is
// news, and returns it.
func (s *Source) reportConditions(ctx context.Context, c *candidate, entry *policyv1alpha1.Observation, before *policyv1alpha1.OffloadingPolicyStatus, components Components) (*policyv1alpha1.OffloadingPolicyStatus, error) {
	status := s.status(c, entry, components)
	current := c.object.Status.DeepCopy()
	current.ObservedBy = nil
	if equality.Semantic.DeepEqual(status, current) && (before == nil || equality.Semantic.DeepEqual(status, before)) {
		return status, nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(status)
	if err != nil {
		return before, fmt.Errorf("encoding the status of policy %q: %w", c.object.Name, err)
	}
	if err := s.apply(ctx, c, content, conditionsManager); err != nil {
		return before, err
	}
	s.tellLoading(c, current, status)
	return status, nil
}

// apply is a server-side apply of the given part of the status. An object that is gone
// needs none.
func (s *Source) apply(ctx context.Context, c *candidate, status map[string]any, manager string) error {
	patch := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": policyv1alpha1.GroupVersion.String(),
		"kind":       "OffloadingPolicy",
		"metadata":   map[string]any{"name": c.object.Name, "uid": string(c.object.UID)},
		"status":     status,
	}}
	if c.object.UID == "" {
		unstructured.RemoveNestedField(patch.Object, "metadata", "uid")
	}
	c.logger(ctx).V(1).Info("Reporting policy", "manager", manager)
	err := s.options.Client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(patch), client.FieldOwner(manager), client.ForceOwnership)
	if err := client.IgnoreNotFound(err); err != nil {
		return fmt.Errorf("reporting on policy %q: %w", c.object.Name, err)
	}
	return nil
}

// observation returns this component's entry, the counters that it holds, and whether it
// differs from the one that stands there, or from what was written before.
func (s *Source) observation(c *candidate, due bool, before policyv1alpha1.Observation) (*policyv1alpha1.Observation, *count, bool) {
	entry := &policyv1alpha1.Observation{Name: s.options.Component, Generation: c.generation(), Message: c.message(), Digest: c.digest()}
	says := func(o *policyv1alpha1.Observation) bool {
		return o.Generation == entry.Generation && o.Digest == entry.Digest && o.Message == entry.Message
	}
	news := true
	at := slices.IndexFunc(c.object.Status.ObservedBy, func(o policyv1alpha1.Observation) bool { return o.Name == entry.Name })
	if at >= 0 {
		now := &c.object.Status.ObservedBy[at]
		news = !says(now) || before.Name != "" && !says(&before)
		entry.Time = now.Time
	}
	if news {
		entry.Time = metav1.NewTime(s.options.Clock.Now().UTC().Truncate(time.Second))
	}
	counts := s.tally.get(c.object.Name)
	if counts != nil {
		counters, differences, changed := counts.now()
		entry.Counters, entry.Differences = &counters, differences
		news = news || (due && changed)
	}
	return entry, counts, news
}

// generation is that of the version that decides.
func (c *candidate) generation() int64 {
	switch {
	case c.choice == nil:
		return 0
	case c.fallenBack() != nil:
		return c.choice.fallbackGeneration
	default:
		return c.choice.generation
	}
}

// digest is that of the version that decides.
func (c *candidate) digest() string {
	if c.choice == nil {
		return ""
	}
	if fallback := c.fallenBack(); fallback != nil {
		return fallback.Fallback
	}
	return c.choice.digest
}

// message says what is wrong, to a component's readers.
func (c *candidate) message() string {
	var parts []string
	if c.problem != nil && !c.isHeld() {
		parts = append(parts, c.problem.Error())
	}
	if _, text := c.ailment(); text != "" {
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

// status is the part of the status that belongs to no component. The entry is what this
// component reports. While a module is being loaded, the generation is not acted upon yet.
func (s *Source) status(c *candidate, own *policyv1alpha1.Observation, components Components) *policyv1alpha1.OffloadingPolicyStatus {
	status := &policyv1alpha1.OffloadingPolicyStatus{
		ObservedGeneration: c.object.Generation,
		Conditions:         slices.Clone(c.object.Status.Conditions),
		Digest:             c.digest(),
		Enforced:           c.enforced(),
	}
	if c.pending() {
		status.ObservedGeneration = c.object.Status.ObservedGeneration
	}
	status.ShortDigest = chain.ShortDigest(status.Digest)
	all := rollOut(c.object.Generation, own, c.object.Status.ObservedBy, components.Names)
	status.RunBy = all.runBy()
	if module, asked := c.described(); module != nil {
		status.Manifest = summary(module.Manifest(), asked)
		for _, point := range status.Manifest.Points {
			status.Points = append(status.Points, point.Point)
		}
		status.Reads, status.Writes = readsColumn(status.Manifest), writesColumn(status.Manifest)
	}
	if c.isHeld() {
		status.Points = nil
		for i := range c.choice.bindings {
			status.Points = append(status.Points, policyv1alpha1.ExtensionPoint(c.choice.bindings[i].Point))
		}
	}
	status.PointList = pointsColumn(status.Points)
	for _, condition := range append(c.conditions(own.Name), all.condition(c)) {
		condition.ObservedGeneration = status.ObservedGeneration
		condition.LastTransitionTime = metav1.NewTime(s.options.Clock.Now())
		meta.SetStatusCondition(&status.Conditions, condition)
	}
	return status
}

// sameSayings tells whether all other components say the same of two states of an object.
func (s *Source) sameSayings(before, after *policyv1alpha1.OffloadingPolicy) bool {
	said := func(policy *policyv1alpha1.OffloadingPolicy) []string {
		var out []string
		for _, o := range policy.Status.ObservedBy {
			if o.Name != s.options.Component {
				out = append(out, fmt.Sprintf("%s\x00%d\x00%s\x00%s", o.Name, o.Generation, o.Digest, o.Message))
			}
		}
		return out
	}
	return slices.Equal(said(before), said(after))
}

// described returns the module that the status tells of, and the bindings that say for
// which points: what is in use, else what was loaded and refused, for all its points.
func (c *candidate) described() (chain.Policy, []chain.Binding) {
	if c.choice != nil && c.choice.held == nil && len(c.choice.bindings) > 0 {
		return c.choice.bindings[0].Policy, c.choice.bindings
	}
	return c.module, nil
}

// summary is the manifest as far as the bindings go; all of it without bindings.
func summary(manifest *contract.Manifest, bindings []chain.Binding) *policyv1alpha1.ManifestSummary {
	out := &policyv1alpha1.ManifestSummary{Name: manifest.Name, Version: manifest.Version}
	for i := range manifest.Points {
		declared := &manifest.Points[i]
		settings := false
		asked := func(b chain.Binding) bool {
			settings = b.Point == declared.Point && len(b.Settings) > 0
			return b.Point == declared.Point
		}
		if len(bindings) > 0 && !slices.ContainsFunc(bindings, asked) {
			continue
		}
		point := policyv1alpha1.PointSummary{Point: policyv1alpha1.ExtensionPoint(declared.Point), Reads: declared.ReadsOf(settings)}
		for _, moment := range declared.Moments {
			point.Moments = append(point.Moments, string(moment))
		}
		for _, rule := range declared.Writes {
			point.Writes = append(point.Writes, writeRule(rule))
		}
		out.Points = append(out.Points, point)
	}
	return out
}

func writeRule(rule contract.WriteRule) policyv1alpha1.WriteRule {
	out := policyv1alpha1.WriteRule{Path: rule.Path, Keys: rule.Keys}
	for _, verb := range rule.Verbs {
		out.Verbs = append(out.Verbs, policyv1alpha1.Verb(verb))
	}
	return out
}

// fieldManager of a component, within the API server's bound.
func fieldManager(component string) string {
	manager := managerPrefix + component
	if len(manager) <= maxManager {
		return manager
	}
	sum := sha256.Sum256([]byte(component))
	return managerPrefix + hex.EncodeToString(sum[:])
}
