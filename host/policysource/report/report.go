// Package report writes the PolicyComponent of one component: by which version of each
// policy it decides, and what is wrong. What is reported is computed by pure functions;
// [Writer] sends it when it has changed.
package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/kit/events"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policysource/plan"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// The reasons of a report, beside those of a [plan.Problem].
const (
	ReasonUnavailable = "Unavailable"
	ReasonQuarantined = "Quarantined"
	ReasonFellBack    = "FellBack"
	ReasonLoading     = "Loading"
)

// maxCause bounds a quoted cause, in bytes.
const maxCause = 600

// workaround says what an operator can do until a failing policy is corrected.
const workaround = "Meanwhile, an operator can load another version, or change spec.failurePolicy or spec.mode."

// Observe describes an outcome and the health of its bindings.
func Observe(o *plan.Outcome, health []chain.Health) policyv1alpha1.PolicyObservation {
	out := policyv1alpha1.PolicyObservation{Name: o.Policy.Name, UID: o.Policy.UID}
	if b := o.Bound; b != nil {
		bindings := b.Bindings
		out.Enforced = b.Enforces()
		out.Generation, out.Digest = b.Generation, b.Digest
		if fallback := fallenBack(health); fallback != nil {
			out.Generation, out.Digest, bindings = b.FallbackGeneration, fallback.Fallback, b.Fallback
		}
		if len(bindings) > 0 {
			out.Manifest = summarize(bindings)
		}
	}
	out.Reason, out.Message = diagnose(o, health)
	return out
}

// diagnose returns the reason and the message of a report, both empty when nothing is wrong.
func diagnose(o *plan.Outcome, health []chain.Health) (reason, message string) {
	if o.IsHeld() {
		return ReasonUnavailable, events.Cut(o.Bound.Held.Cause.Error(), maxCause) + ". " + describeHold(o)
	}
	var messages []string
	if h := quarantined(health); h != nil {
		reason = ReasonQuarantined
		if h.FallsBack {
			reason = ReasonFellBack
		}
		messages = append(messages, fmt.Sprintf("Quarantined at %s since %s, after several calls in a row without a valid answer (%s: %s). %s %s It is probed from time to time.",
			h.Point, h.Since.UTC().Format(time.RFC3339), string(h.Class), h.Last, consequence(o.Policy, h), sentence(h.Remedy)+" "+workaround))
	}
	switch {
	case o.Problem != nil:
		if reason == "" {
			reason = o.Problem.Reason
		}
		messages = append(messages, o.Problem.Error()+". "+decides(o))
	case o.IsLoading():
		if reason == "" {
			reason = ReasonLoading
		}
		messages = append(messages, "The module is being loaded. "+decides(o))
	}
	return reason, strings.Join(messages, " ")
}

// sentence makes a sentence of a clause.
func sentence(clause string) string {
	if clause == "" {
		return ""
	}
	return strings.ToUpper(clause[:1]) + clause[1:] + "."
}

// decides says what decides while the current version is not used.
func decides(o *plan.Outcome) string {
	switch {
	case o.Bound != nil && o.Bound.Enforces():
		return "The previous version decides."
	case o.Bound != nil && o.Bound.Shadow, plan.IsShadow(o.Policy):
		return "Differences of this version are not recorded."
	case plan.IsDefault(o.Policy.Name):
		return "The built-in default decides until this policy has been loaded once."
	default:
		return "The policy was not enforced before, so objects pass without it until it has been loaded once."
	}
}

func describeHold(o *plan.Outcome) string {
	version := o.Bound.Held.Version
	points := make([]string, len(o.Bound.Bindings))
	for i := range o.Bound.Bindings {
		points[i] = string(o.Bound.Bindings[i].Point)
	}
	effect := "objects that it matches wait at %s (failurePolicy: Fail): pods are refused at admission or stay Pending, and reflected objects are not updated; running pods are not changed"
	if plan.Ignores(o.Policy) {
		effect = "objects pass without it at %s (failurePolicy: Ignore)"
	}
	return fmt.Sprintf("The policy was enforced before (generation %d, module %s, %s) and has no usable version: "+effect+". An operator must correct the cause, or change spec.failurePolicy or spec.mode.",
		version.Generation, version.Module, chain.ShortDigest(version.Digest), strings.Join(points, ", "))
}

// quarantined returns the first point at which a policy is quarantined, nil if none.
func quarantined(health []chain.Health) *chain.Health {
	for i := range health {
		if health[i].Quarantined() {
			return &health[i]
		}
	}
	return nil
}

// fallenBack returns the first point at which the previous version decides, nil if none.
func fallenBack(health []chain.Health) *chain.Health {
	for i := range health {
		if health[i].Quarantined() && health[i].FallsBack {
			return &health[i]
		}
	}
	return nil
}

// consequence says what a quarantine means for the objects that the policy matches.
func consequence(policy *policyv1alpha1.OffloadingPolicy, h *chain.Health) string {
	switch {
	case plan.IsShadow(policy):
		return "Objects are not affected (mode: Shadow)."
	case h.FallsBack:
		return "The previous version (" + chain.ShortDigest(h.Fallback) + ") decides."
	case plan.Ignores(policy):
		return "Objects pass without it (failurePolicy: Ignore)."
	case policy.Spec.FailurePolicy == policyv1alpha1.FailurePolicyLastGood:
		return "Objects that it matches are refused: no previous version has answered since the component started (failurePolicy: LastGood)."
	default:
		return "Objects that it matches are refused (failurePolicy: Fail)."
	}
}

// summarize returns the manifest of the bindings' module, limited to their points.
func summarize(bindings []chain.Binding) *policyv1alpha1.ManifestSummary {
	manifest := bindings[0].Policy.Manifest()
	out := &policyv1alpha1.ManifestSummary{Name: manifest.Name, Version: manifest.Version}
	for i := range manifest.Points {
		declared := &manifest.Points[i]
		at := slices.IndexFunc(bindings, func(b chain.Binding) bool { return b.Point == declared.Point })
		if at < 0 {
			continue
		}
		point := policyv1alpha1.PointSummary{
			Point: policyv1alpha1.ExtensionPoint(declared.Point), Reads: declared.ReadsOf(len(bindings[at].Settings) > 0),
		}
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
