package policysource

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/policy/chain"
)

// maxNamed is how many components are named in one line.
const maxNamed = 3

// rollout says which of the components decide by the current version.
type rollout struct {
	generation int64
	// digest of the module that the component has that writes conditions.
	digest string
	// current and behind are what the components report, that component's first.
	current, behind []policyv1alpha1.Observation
}

// rollOut compares what all components report with what this one does. A component is
// current that decides by the object's generation, and by the same module as this one. One
// that is known and has not reported is not.
func rollOut(generation int64, own *policyv1alpha1.Observation, entries []policyv1alpha1.Observation, known map[string]bool) *rollout {
	r := &rollout{generation: generation, digest: own.Digest}
	all := []policyv1alpha1.Observation{*own}
	reported := map[string]bool{own.Name: true}
	for i := range entries {
		if !reported[entries[i].Name] {
			all = append(all, entries[i])
			reported[entries[i].Name] = true
		}
	}
	for name := range known {
		if !reported[name] {
			all = append(all, policyv1alpha1.Observation{Name: name})
		}
	}
	slices.SortFunc(all[1:], func(a, b policyv1alpha1.Observation) int { return strings.Compare(a.Name, b.Name) })
	for _, o := range all {
		if o.Generation == generation && o.Digest == own.Digest {
			r.current = append(r.current, o)
		} else {
			r.behind = append(r.behind, o)
		}
	}
	return r
}

// runBy says it in a word for a column: "3/4 webhook×2,virtual-kubelet/milan". Nobody
// runs what is switched off or was never loaded.
func (r *rollout) runBy() string {
	if r.digest == "" {
		return ""
	}
	var kinds []string
	replicas := map[string]int{}
	for _, o := range r.current {
		kind := o.Name
		if !strings.HasPrefix(kind, VirtualKubelet) {
			kind, _, _ = strings.Cut(kind, "/")
		}
		if replicas[kind]++; replicas[kind] == 1 {
			kinds = append(kinds, kind)
		}
	}
	for i, kind := range kinds {
		if replicas[kind] > 1 {
			kinds[i] = fmt.Sprintf("%s×%d", kind, replicas[kind])
		}
	}
	return strings.TrimSpace(fmt.Sprintf("%d/%d %s", len(r.current), len(r.current)+len(r.behind), enumerate(kinds, ",")))
}

// condition RolledOut is what to wait for after a change. A version that this component
// does not use itself is not rolled out, whatever others make of it.
func (r *rollout) condition(c *candidate) metav1.Condition {
	all := len(r.current) + len(r.behind)
	switch {
	case c.problem != nil:
		return metav1.Condition{
			Type: policyv1alpha1.RolledOutCondition, Status: metav1.ConditionFalse, Reason: c.problem.reason,
			Message: "The latest version is not used: " + c.problem.Error(),
		}
	case c.pending():
		return metav1.Condition{
			Type: policyv1alpha1.RolledOutCondition, Status: metav1.ConditionFalse, Reason: reasonLoading,
			Message: "The module of the latest version is being loaded.",
		}
	case len(r.behind) == 0:
		return metav1.Condition{
			Type: policyv1alpha1.RolledOutCondition, Status: metav1.ConditionTrue, Reason: reasonCurrent,
			Message: fmt.Sprintf("All components decide by generation %d: %d of %d.", r.generation, all, all),
		}
	}
	behind := make([]string, len(r.behind))
	for i, o := range r.behind {
		switch {
		case o.Generation == 0:
			behind[i] = o.Name + " (by none)"
		case o.Digest == "":
			behind[i] = fmt.Sprintf("%s (by generation %d)", o.Name, o.Generation)
		default:
			behind[i] = fmt.Sprintf("%s (by generation %d with module %s)", o.Name, o.Generation, chain.ShortDigest(o.Digest))
		}
	}
	return metav1.Condition{
		Type: policyv1alpha1.RolledOutCondition, Status: metav1.ConditionFalse, Reason: reasonBehind,
		Message: fmt.Sprintf("%d of %d components do not decide by generation %d: %s", len(behind), all, r.generation, enumerate(behind, ", ")),
	}
}

// enumerate names the first few.
func enumerate(names []string, separator string) string {
	if len(names) > maxNamed {
		names = append(slices.Clone(names[:maxNamed]), "…")
	}
	return strings.Join(names, separator)
}
