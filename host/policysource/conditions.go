package policysource

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/kit/events"
	"github.com/longshore-dev/longshore/host/policy/chain"
)

// Who must act when a policy fails.
const remedy = "The module's author must correct it; an operator can load a version that works, or set spec.failurePolicy or spec.mode meanwhile."

// maxCause bounds what a sentence of ours quotes of a cause, in bytes.
const maxCause = 600

// withoutAny says what becomes of objects while no version of a policy is asked that is
// not in force. That is not the spec's failure policy: it would stop a cluster for a typing
// error.
func (c *candidate) withoutAny() string {
	consequence := "objects pass without it"
	if _, isDefault := defaultPoints[c.object.Name]; isDefault {
		consequence = "Longshore's own default decides"
	}
	if shadow(c.object) {
		consequence = "nothing is recorded"
	}
	return fmt.Sprintf(". No version of this policy is in force: %s until generation %d or a later one has been loaded once.",
		consequence, c.object.Generation)
}

// fallenBack returns the point at which the previous version decides, nil when none.
func (c *candidate) fallenBack() *chain.Health {
	for i := range c.health {
		if h := &c.health[i]; h.Quarantined() && h.FallsBack {
			return h
		}
	}
	return nil
}

// ailment says how the bound version fails, if it does, or that none can be bound: a
// reason and a sentence that stays the same while the matter does.
func (c *candidate) ailment() (reason, text string) {
	if c.isHeld() {
		return reasonUnavailable, events.Cut(c.choice.held.cause.Error(), maxCause) + ". " + c.holds()
	}
	for i := range c.health {
		h := &c.health[i]
		if h.Quarantined() {
			reason = reasonQuarantined
			if h.FallsBack {
				reason = reasonFellBack
			}
			return reason, fmt.Sprintf("Quarantined at %s since %s, because it gave no valid answer several times in a row (%s: %s). %s %s It is tried again from time to time.",
				h.Point, h.Since.UTC().Format(time.RFC3339), string(h.Class), h.Last, c.consequence(h), remedy)
		}
	}
	for i := range c.health {
		if h := &c.health[i]; h.Failures > 0 {
			return reasonFailing, fmt.Sprintf("The latest question at %s got no valid answer (%s: %s). %s %s",
				h.Point, string(h.Class), h.Last, c.consequence(h), remedy)
		}
	}
	return "", ""
}

// consequence of a failure for the objects in question.
func (c *candidate) consequence(h *chain.Health) string {
	switch {
	case shadow(c.object):
		return "Nothing else comes of it, since spec.mode is Shadow."
	case h.FallsBack:
		return "The previous version (" + chain.ShortDigest(h.Fallback) + ") answers instead."
	case c.object.Spec.FailurePolicy == policyv1alpha1.FailurePolicyIgnore:
		return "Objects pass without it, since spec.failurePolicy is Ignore."
	case c.object.Spec.FailurePolicy == policyv1alpha1.FailurePolicyLastGood:
		return "Objects that need it are refused, since no version before it has answered since the component started."
	default:
		return "Objects that need it are refused, since spec.failurePolicy is Fail."
	}
}

// elsewhere is what another component has against the version, while this one is content.
func (c *candidate) elsewhere(own string) string {
	for _, o := range c.object.Status.ObservedBy {
		if o.Name != own && o.Message != "" {
			return "Component " + o.Name + " says: " + o.Message
		}
	}
	return ""
}

// withoutElsewhere returns another component that can use no version of a policy that is in
// force, nil when there is none: it holds back what the policy concerns.
func (c *candidate) withoutElsewhere(own string) *policyv1alpha1.Observation {
	if c.enforced() == nil {
		return nil
	}
	for i := range c.object.Status.ObservedBy {
		if o := &c.object.Status.ObservedBy[i]; o.Name != own && o.Generation == 0 && o.Digest == "" && o.Message != "" {
			return o
		}
	}
	return nil
}

// conditions are sentences: what is, by whom, and who must act. A policy is not ready that
// has pods wait anywhere because it cannot be used there.
func (c *candidate) conditions(own string) []metav1.Condition {
	loaded, ready, degraded := c.ownConditions(own)
	if o := c.withoutElsewhere(own); o != nil && ready.Status == metav1.ConditionTrue {
		ready.Status, ready.Reason = metav1.ConditionFalse, reasonUnavailable
		ready.Message = "Component " + o.Name + " says: " + o.Message
	}
	return []metav1.Condition{loaded, ready, degraded}
}

// ownConditions are what this component says, and of others what they have against the
// version.
func (c *candidate) ownConditions(own string) (loaded, ready, degraded metav1.Condition) {
	loaded = metav1.Condition{Type: policyv1alpha1.LoadedCondition, Status: metav1.ConditionTrue, Reason: reasonLoaded, Message: "The module is loaded."}
	ready = metav1.Condition{Type: policyv1alpha1.ReadyCondition, Status: metav1.ConditionTrue, Reason: reasonBound, Message: "The policy is asked."}
	degraded = metav1.Condition{Type: policyv1alpha1.DegradedCondition, Status: metav1.ConditionFalse, Reason: reasonFine, Message: "Nothing is wrong."}
	set := func(condition *metav1.Condition, status metav1.ConditionStatus, reason, message string) {
		condition.Status, condition.Reason, condition.Message = status, reason, message
	}
	switch {
	case c.problem != nil:
		message := c.problem.Error()
		set(&degraded, metav1.ConditionTrue, c.problem.reason, message)
		if !c.problem.loaded {
			set(&loaded, metav1.ConditionFalse, c.problem.reason, message)
		}
		set(&ready, metav1.ConditionFalse, c.problem.reason, message+c.withoutAny())
		if reason, text := c.ailment(); c.isHeld() {
			set(&ready, metav1.ConditionFalse, reason, text)
		} else if c.choice != nil {
			set(&ready, metav1.ConditionTrue, reasonPrevious, "The previous version is used, because of this one: "+message)
		}
		return loaded, ready, degraded
	case c.pending():
		set(&loaded, metav1.ConditionFalse, reasonLoading, "The module is being loaded.")
		set(&ready, metav1.ConditionFalse, reasonLoading, "The policy is not asked until its module is loaded; objects pass without it.")
		if c.choice != nil && !c.isHeld() {
			set(&ready, metav1.ConditionTrue, reasonPrevious, "The previous version is used until the module of this one is loaded.")
		}
	case disabled(c.object):
		set(&loaded, metav1.ConditionFalse, reasonDisabled, "The policy is disabled, so its module is not loaded.")
		set(&ready, metav1.ConditionTrue, reasonDisabled, "The policy is not asked: spec.mode is Disabled.")
	case shadow(c.object):
		set(&ready, metav1.ConditionTrue, reasonShadow, "The policy is asked, and its answers are recorded but not applied: spec.mode is Shadow.")
	}
	reason, text := c.ailment()
	switch reason {
	case "":
		if said := c.elsewhere(own); said != "" {
			set(&degraded, metav1.ConditionTrue, reasonElsewhere, said)
		}
	case reasonQuarantined, reasonUnavailable:
		set(&ready, metav1.ConditionFalse, reason, text)
		set(&degraded, metav1.ConditionTrue, reason, text)
	case reasonFellBack:
		set(&ready, metav1.ConditionTrue, reason, text)
		set(&degraded, metav1.ConditionTrue, reason, text)
	default:
		set(&degraded, metav1.ConditionTrue, reason, text)
	}
	return loaded, ready, degraded
}
