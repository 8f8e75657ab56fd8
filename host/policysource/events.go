package policysource

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/policy/chain"
)

// The actions of events: what was being done.
const (
	actionLoad = "Load"
	actionAsk  = "Ask"
)

// event records an event on the OffloadingPolicy.
//
// +kubebuilder:rbac:groups="";events.k8s.io,resources=events,verbs=create;patch
func (s *Source) event(c *candidate, kind, reason, action, note string) {
	if s.options.Events != nil {
		s.options.Events.Eventf(c.object, nil, kind, reason, action, "%s", note)
	}
}

// tellLoading records, when status says so for the first time, that a version is loaded
// or refused. Status is what tells whether it is the first time, so a restart repeats
// nothing; the cache may show it late, so what was told last is remembered.
func (s *Source) tellLoading(c *candidate, before, after *policyv1alpha1.OffloadingPolicyStatus) {
	kind, reason, note := "", "", ""
	switch {
	case c.problem != nil:
		was := meta.FindStatusCondition(before.Conditions, policyv1alpha1.DegradedCondition)
		if c.leaving() {
			return
		}
		if was == nil || was.Reason != c.problem.reason || was.Message != c.problem.Error() {
			kind, reason, note = corev1.EventTypeWarning, c.problem.reason, "Refused: "+c.problem.Error()
		}
	case after.Digest != "" && before.Digest != after.Digest && c.fallenBack() == nil:
		kind, reason = corev1.EventTypeNormal, reasonLoaded
		note = fmt.Sprintf("Module %s %s (%s) is loaded and decides at %v", after.Manifest.Name, after.Manifest.Version, after.ShortDigest, after.Points)
	}
	if text := string(c.object.UID) + note; note != "" && s.announced[c.object.Name] != text {
		s.announced[c.object.Name] = text
		s.event(c, kind, reason, actionLoad, note)
	}
}

// leaving tells whether the policy is about to go: it is kept from a ConfigMap, which is
// gone. That is how such a policy is deleted, and nothing to warn of; should nobody take it
// away, its conditions say what is missing.
func (c *candidate) leaving() bool {
	return c.problem.missing.Name == c.object.Name && c.object.Labels[policyv1alpha1.ManagedByLabel] == policyv1alpha1.ManagedByConfigMap
}

// ailing is what events have told last of how a policy ails.
type ailing struct{ reason, version string }

// tellHealth records the beginning and the end of a quarantine, or of a time in which
// nobody can be asked. Each component tells of its own: not all ask the same policies.
func (s *Source) tellHealth(c *candidate) {
	name := c.object.Name
	reason, text := c.ailment()
	ill := reason == reasonQuarantined || reason == reasonFellBack || reason == reasonUnavailable
	before, told := s.told[name]
	switch {
	case ill && !told:
		s.told[name] = ailing{reason: reason, version: chainVersion(c.choice)}
		s.event(c, corev1.EventTypeWarning, reason, actionAsk, "In "+s.options.Component+": "+text)
	case ill || !told:
	default:
		lifted := before.version != chainVersion(c.choice)
		delete(s.told, name)
		s.event(c, corev1.EventTypeNormal, reasonRecovered, actionAsk, "In "+s.options.Component+": "+c.recovery(before, lifted))
		// What waited for the policy may be decided now.
		if !lifted && s.options.Changed != nil {
			s.options.Changed()
		}
	}
}

// recovery says how what ailed a policy has ended.
func (c *candidate) recovery(before ailing, lifted bool) string {
	ends := "which lifts the quarantine"
	if before.reason == reasonUnavailable {
		ends = "and what waited for it is decided anew"
	}
	switch {
	case c.choice == nil || len(c.choice.bindings) == 0:
		return "the policy is not asked any more, " + ends
	case lifted:
		return "another version has been loaded, " + ends
	default:
		return "version " + chain.ShortDigest(c.digest()) + " gives valid answers again"
	}
}

func chainVersion(b *bound) string {
	if b == nil {
		return ""
	}
	return b.version
}
