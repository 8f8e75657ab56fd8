package policysource

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// Field managers. Each component owns its entry of status.observedBy, one of them the
// rest.
const (
	managerPrefix     = "longshore-policies-"
	conditionsManager = "longshore-policies"
	// maxManager is the API server's bound.
	maxManager = 128
)

// report writes what has become of an object into its status, if that is news.
func (s *Source) report(ctx context.Context, c *candidate) error {
	if entry, news := s.observation(c); news {
		status := map[string]any{"observedBy": []any{entry}}
		if err := s.apply(ctx, c, status, fieldManager(s.options.Component)); err != nil {
			return err
		}
	}
	if !s.options.Conditions {
		return nil
	}
	status := s.status(c)
	current := c.object.Status.DeepCopy()
	current.ObservedBy = nil
	if equality.Semantic.DeepEqual(status, current) {
		return nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(status)
	if err != nil {
		return fmt.Errorf("encoding the status of policy %q: %w", c.object.Name, err)
	}
	return s.apply(ctx, c, content, conditionsManager)
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

// observation returns this component's entry, and whether it differs from the one
// that stands there.
func (s *Source) observation(c *candidate) (map[string]any, bool) {
	entry := policyv1alpha1.Observation{Name: s.options.Component, Message: c.message()}
	if c.choice != nil {
		entry.Digest = c.choice.digest
	}
	at := slices.IndexFunc(c.object.Status.ObservedBy, func(o policyv1alpha1.Observation) bool { return o.Name == entry.Name })
	if at >= 0 {
		now := c.object.Status.ObservedBy[at]
		if now.Digest == entry.Digest && now.Message == entry.Message {
			return nil, false
		}
	}
	content := map[string]any{"name": entry.Name, "time": s.options.Clock.Now().UTC().Format(time.RFC3339)}
	if entry.Digest != "" {
		content["digest"] = entry.Digest
	}
	if entry.Message != "" {
		content["message"] = entry.Message
	}
	return content, true
}

func (c *candidate) message() string {
	if c.problem == nil {
		return ""
	}
	return c.problem.Error()
}

// status is the part of the status that belongs to no component.
func (s *Source) status(c *candidate) *policyv1alpha1.OffloadingPolicyStatus {
	status := &policyv1alpha1.OffloadingPolicyStatus{
		ObservedGeneration: c.object.Generation,
		Conditions:         slices.Clone(c.object.Status.Conditions),
	}
	if c.choice != nil {
		status.Digest = c.choice.digest
	}
	if module, asked := c.described(); module != nil {
		status.Manifest = summary(module.Manifest(), asked)
		for _, point := range status.Manifest.Points {
			status.Points = append(status.Points, point.Point)
		}
	}
	for _, condition := range c.conditions() {
		condition.ObservedGeneration = c.object.Generation
		condition.LastTransitionTime = metav1.NewTime(s.options.Clock.Now())
		meta.SetStatusCondition(&status.Conditions, condition)
	}
	return status
}

func (c *candidate) conditions() []metav1.Condition {
	loaded := metav1.Condition{Type: policyv1alpha1.LoadedCondition, Status: metav1.ConditionTrue, Reason: reasonLoaded, Message: "The module is loaded."}
	ready := metav1.Condition{Type: policyv1alpha1.ReadyCondition, Status: metav1.ConditionTrue, Reason: reasonBound, Message: "The policy is asked."}
	degraded := metav1.Condition{Type: policyv1alpha1.DegradedCondition, Status: metav1.ConditionFalse, Reason: reasonFine, Message: "Nothing is wrong."}
	if c.problem != nil {
		message := c.problem.Error()
		degraded.Status, degraded.Reason, degraded.Message = metav1.ConditionTrue, c.problem.reason, message
		if !c.problem.loaded {
			loaded.Status, loaded.Reason, loaded.Message = metav1.ConditionFalse, c.problem.reason, message
		}
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, c.problem.reason, message
		if c.choice != nil {
			ready.Status, ready.Reason, ready.Message = metav1.ConditionTrue, reasonPrevious, "The previous version is used, because of this one: "+message
		}
	} else if disabled(c.object) {
		loaded.Status, loaded.Reason, loaded.Message = metav1.ConditionFalse, reasonDisabled, "The policy is disabled, so its module is not loaded."
		ready.Reason, ready.Message = reasonDisabled, "The policy is not asked: spec.mode is Disabled."
	}
	return []metav1.Condition{loaded, ready, degraded}
}

// described returns the module that the status tells of, and the bindings that say for
// which points: what is in use, else what was loaded and refused, for all its points.
func (c *candidate) described() (chain.Policy, []chain.Binding) {
	if c.choice != nil && len(c.choice.bindings) > 0 {
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
