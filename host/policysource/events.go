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
	// maxNote is the API server's bound of an event's text.
	maxNote = 1024
)

// event records an event on the OffloadingPolicy.
//
// +kubebuilder:rbac:groups="";events.k8s.io,resources=events,verbs=create;patch
func (s *Source) event(c *candidate, kind, reason, action, note string) {
	if s.options.Events != nil {
		s.options.Events.Eventf(c.object, nil, kind, reason, action, "%s", cut(note, maxNote-len("…")))
	}
}

// tellLoading records, when status says so for the first time, that a version is loaded
// or refused. Status is what tells whether it is the first time, so a restart repeats
// nothing.
func (s *Source) tellLoading(c *candidate, before, after *policyv1alpha1.OffloadingPolicyStatus) {
	if c.problem != nil {
		was := meta.FindStatusCondition(before.Conditions, policyv1alpha1.DegradedCondition)
		if was == nil || was.Reason != c.problem.reason || was.Message != c.problem.Error() {
			s.event(c, corev1.EventTypeWarning, c.problem.reason, actionLoad, "Refused: "+c.problem.Error())
		}
		return
	}
	if after.Digest != "" && before.Digest != after.Digest && c.fallenBack() == nil {
		s.event(c, corev1.EventTypeNormal, reasonLoaded, actionLoad, fmt.Sprintf("Module %s %s (%s) is loaded and decides at %v",
			after.Manifest.Name, after.Manifest.Version, after.ShortDigest, after.Points))
	}
}

// tellHealth records the beginning and the end of a quarantine. Each component tells of
// its own: not all ask the same policies.
func (s *Source) tellHealth(c *candidate) {
	name := c.object.Name
	reason, text := c.ailment()
	ill := reason == reasonQuarantined || reason == reasonFellBack
	_, told := s.told[name]
	switch {
	case ill && !told:
		s.told[name] = chainVersion(c.choice)
		s.event(c, corev1.EventTypeWarning, reason, actionAsk, "In "+s.options.Component+": "+text)
	case ill || !told:
	default:
		lifted := s.told[name] != chainVersion(c.choice)
		delete(s.told, name)
		note := fmt.Sprintf("In %s: version %s gives valid answers again", s.options.Component, chain.ShortDigest(c.digest()))
		if lifted {
			note = fmt.Sprintf("In %s: another version has been loaded, which lifts the quarantine", s.options.Component)
		}
		s.event(c, corev1.EventTypeNormal, reasonRecovered, actionAsk, note)
		// What waited for the policy may be decided now.
		if !lifted && s.options.Changed != nil {
			s.options.Changed()
		}
	}
}

func chainVersion(b *bound) string {
	if b == nil {
		return ""
	}
	return b.version
}
