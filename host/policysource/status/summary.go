package status

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policysource/plan"
	"github.com/longshore-dev/longshore/host/policysource/report"
)

// The reasons of the condition Ready, beside those of the components' reports.
const (
	// ReasonBound is set when the policy is enforced.
	ReasonBound = "Bound"
	// ReasonShadow is set when the policy is called and its answers are not applied.
	ReasonShadow = "Shadow"
	// ReasonDisabled is set when the policy is not called, as its spec says.
	ReasonDisabled = "Disabled"
	// ReasonBehind is set when a component has not reported the current version.
	ReasonBehind = "Behind"
	// ReasonNoComponents is set when no component reports.
	ReasonNoComponents = "NoComponents"
)

// maxNamed bounds how many lagging components, or groups with the same message, a message names.
const maxNamed = 3

// observed is what one component reports of a policy.
type observed struct {
	component string
	policyv1alpha1.PolicyObservation
}

// observe returns what each component reports of a policy, sorted by component. One that has
// not reported the policy has an empty observation.
func observe(policy *policyv1alpha1.OffloadingPolicy, components []policyv1alpha1.PolicyComponent) []observed {
	out := make([]observed, len(components))
	for i := range components {
		out[i].component = components[i].Status.Component
		for _, o := range components[i].Status.Policies {
			if o.Name == policy.Name && o.UID == policy.UID {
				out[i].PolicyObservation = o
			}
		}
	}
	slices.SortFunc(out, func(a, b observed) int { return strings.Compare(a.component, b.component) })
	return out
}

// callers returns the observations of the components that call the policy. If none does, such as
// before there is a virtual kubelet, all count.
func callers(policy *policyv1alpha1.OffloadingPolicy, all []observed) []observed {
	calling := slices.DeleteFunc(slices.Clone(all), func(o observed) bool { return o.NotCalled && isCurrent(policy, &o) })
	if len(calling) == 0 {
		return all
	}
	return calling
}

// Summarize returns the status of a policy, apart from the times of its condition.
func Summarize(policy *policyv1alpha1.OffloadingPolicy, components []policyv1alpha1.PolicyComponent) policyv1alpha1.OffloadingPolicyStatus {
	all := callers(policy, observe(policy, components))
	digest := currentDigest(policy, all)
	var current, behind []observed
	for _, o := range all {
		if isCurrent(policy, &o) && o.Digest == digest {
			current = append(current, o)
		} else {
			behind = append(behind, o)
		}
	}
	out := policyv1alpha1.OffloadingPolicyStatus{
		ObservedGeneration: policy.Generation, Digest: digest, ShortDigest: chain.ShortDigest(digest),
		Components: fmt.Sprintf("%d/%d", len(current), len(all)),
	}
	for _, o := range slices.Concat(current, behind) {
		if o.Manifest == nil || o.Digest != digest {
			continue
		}
		out.Manifest = o.Manifest
		for i := range o.Manifest.Points {
			out.Points = append(out.Points, o.Manifest.Points[i].Point)
		}
		out.PointNames = joinPoints(out.Points)
		break
	}
	out.Conditions = []metav1.Condition{ready(policy, len(all), behind)}
	return out
}

func joinPoints(points []policyv1alpha1.ExtensionPoint) string {
	names := make([]string, len(points))
	for i, point := range points {
		names[i] = string(point)
	}
	return strings.Join(names, ",")
}

// isCurrent reports whether a component decides by the current generation without a problem.
func isCurrent(policy *policyv1alpha1.OffloadingPolicy, o *observed) bool {
	return o.Generation == policy.Generation && o.Reason == ""
}

// currentDigest returns the digest by which the components decide. When those that are current
// differ, a module has been replaced under the same generation, or in some components by an upgrade:
// the new digest is the one that was first used last. The previous status is not an input, or two
// digests that last would take turns.
func currentDigest(policy *policyv1alpha1.OffloadingPolicy, all []observed) string {
	current, others := firstUses{}, firstUses{}
	for i := range all {
		switch o := &all[i]; {
		case isCurrent(policy, o):
			current.add(o)
		case o.Generation != 0:
			others.add(o)
		}
	}
	if len(current) > 0 {
		return current.last()
	}
	return others.last()
}

// firstUses has the time of the first use of each digest.
type firstUses map[string]metav1.Time

func (u firstUses) add(o *observed) {
	if first, ok := u[o.Digest]; !ok || o.Since.Before(&first) {
		u[o.Digest] = o.Since
	}
}

// last returns the digest that was first used last; of equal times, the first in order. It is empty
// without any.
func (u firstUses) last() string {
	var found string
	for _, digest := range slices.Sorted(maps.Keys(u)) {
		first, newest := u[digest], u[found]
		if found == "" || newest.Before(&first) {
			found = digest
		}
	}
	return found
}

func ready(policy *policyv1alpha1.OffloadingPolicy, total int, behind []observed) metav1.Condition {
	out := metav1.Condition{Type: policyv1alpha1.ReadyCondition, Status: metav1.ConditionTrue, ObservedGeneration: policy.Generation}
	out.Message = fmt.Sprintf("%d/%d components decide by generation %d.", total-len(behind), total, policy.Generation)
	switch {
	case total == 0:
		out.Status, out.Reason, out.Message = metav1.ConditionFalse, ReasonNoComponents, "No component has registered a PolicyComponent."
	case len(behind) > 0:
		out.Status, out.Reason = metav1.ConditionFalse, worstReason(behind)
		out.Message += " Not current: " + describe(behind)
	case plan.IsDisabled(policy):
		out.Reason = ReasonDisabled
		out.Message += " The policy is not called (mode: Disabled)."
	case plan.IsShadow(policy):
		out.Reason = ReasonShadow
		out.Message += " Its answers are recorded and not applied (mode: Shadow)."
	default:
		out.Reason = ReasonBound
	}
	return out
}

// severity orders reasons. The first three concern objects in the cluster; all other problems
// come between them and the last two, in the order of the components.
var severity = map[string]int{
	report.ReasonUnavailable: -3, report.ReasonQuarantined: -2, report.ReasonFellBack: -1,
	report.ReasonLoading: 1, ReasonBehind: 2,
}

// worstReason returns the most severe reason of the components that are behind.
func worstReason(behind []observed) string {
	reasons := make([]string, len(behind))
	for i, o := range behind {
		reasons[i] = cmp.Or(o.Reason, ReasonBehind)
	}
	slices.SortStableFunc(reasons, func(a, b string) int { return severity[a] - severity[b] })
	return reasons[0]
}

// describe names the components that are behind, those with the same message together.
func describe(behind []observed) string {
	names := map[string][]string{}
	var messages []string
	for i := range behind {
		message := describeOne(&behind[i])
		if names[message] == nil {
			messages = append(messages, message)
		}
		names[message] = append(names[message], behind[i].component)
	}
	groups := make([]string, len(messages))
	for i, message := range messages {
		groups[i] = enumerate(names[message], ", ") + ": " + message
	}
	return enumerate(groups, " ")
}

func describeOne(o *observed) string {
	switch {
	case o.Message != "":
		return o.Message
	case o.Generation == 0:
		return "has not reported the policy."
	case o.Digest == "":
		return fmt.Sprintf("decides by generation %d.", o.Generation)
	default:
		return fmt.Sprintf("decides by generation %d with module %s.", o.Generation, chain.ShortDigest(o.Digest))
	}
}

// enumerate joins the first few items and counts the others.
func enumerate(items []string, separator string) string {
	if more := len(items) - maxNamed; more > 0 {
		items = append(slices.Clone(items[:maxNamed]), fmt.Sprintf("and %d more", more))
	}
	return strings.Join(items, separator)
}

// EnforcedRecord returns the value of the annotation that records the version that was
// enforced last, empty for no annotation. It is kept while the components report nothing
// else, and removed when the policy has another mode.
func EnforcedRecord(policy *policyv1alpha1.OffloadingPolicy, components []policyv1alpha1.PolicyComponent) (string, error) {
	if plan.IsDisabled(policy) || plan.IsShadow(policy) {
		return "", nil
	}
	var latest *policyv1alpha1.PolicyObservation
	all := observe(policy, components)
	for i := range all {
		o := &all[i].PolicyObservation
		isNewer := latest == nil || o.Generation > latest.Generation ||
			o.Generation == latest.Generation && latest.Reason != "" && o.Reason == ""
		if o.Enforced && isNewer {
			latest = o
		}
	}
	if latest == nil {
		return policy.Annotations[policyv1alpha1.EnforcedAnnotation], nil
	}
	record := policyv1alpha1.EnforcedVersion{Generation: latest.Generation, Digest: latest.Digest}
	if latest.Manifest != nil {
		record.Module = latest.Manifest.Name
		for i := range latest.Manifest.Points {
			p := &latest.Manifest.Points[i]
			record.Points = append(record.Points, policyv1alpha1.EnforcedPoint{Point: p.Point, Moments: p.Moments})
		}
	}
	raw, err := json.Marshal(record)
	if err != nil {
		return "", fmt.Errorf("encoding the enforced version of policy %q: %w", policy.Name, err)
	}
	return string(raw), nil
}
