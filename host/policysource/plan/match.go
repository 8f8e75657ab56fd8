package plan

import (
	"cmp"
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/policy/chain"
)

// NamespaceLabels returns the labels of a namespace. It is called while an object is
// decided, and only if the caller does not supply them.
type NamespaceLabels func(ctx context.Context, namespace string) (map[string]string, error)

// matcher is a compiled spec.match; nil members match everything.
type matcher struct {
	namespaces   labels.Selector
	objects      labels.Selector
	virtualNodes []string
	conditions   []condition
	read         NamespaceLabels
}

// newMatcher compiles spec.match; it returns nil if that matches everything. The matcher
// ignores the parts that do not compile; the first of them is the problem.
func newMatcher(match *policyv1alpha1.Match, read NamespaceLabels) (chain.Matcher, *Problem) {
	if match == nil {
		return nil, nil
	}
	conditions, problem := compileConditions(match.MatchConditions)
	m := &matcher{virtualNodes: match.VirtualNodes, conditions: conditions, read: read}
	for _, source := range []struct {
		field string
		from  *metav1.LabelSelector
		to    *labels.Selector
	}{
		{field: "namespaceSelector", from: match.NamespaceSelector, to: &m.namespaces},
		{field: "objectSelector", from: match.ObjectSelector, to: &m.objects},
	} {
		if source.from == nil {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(source.from)
		if err != nil {
			problem = cmp.Or(problem, Invalid("spec.match.%s is not a valid selector, the operator must correct it: %w", source.field, err))
			continue
		}
		*source.to = selector
	}
	return m, problem
}

// Matches implements chain.Matcher.
func (m *matcher) Matches(ctx context.Context, a chain.Attributes) (bool, error) {
	if len(m.virtualNodes) > 0 && !slices.Contains(m.virtualNodes, a.VirtualNode) {
		return false, nil
	}
	if m.objects != nil && !m.objects.Matches(labels.Set(a.Labels)) {
		return false, nil
	}
	if m.namespaces != nil && !m.namespaces.Empty() {
		set, err := m.namespaceLabels(ctx, a)
		if err != nil || !m.namespaces.Matches(labels.Set(set)) {
			return false, err
		}
	}
	return m.meetsConditions(ctx, a)
}

func (m *matcher) namespaceLabels(ctx context.Context, a chain.Attributes) (map[string]string, error) {
	if a.NamespaceLabels != nil {
		return a.NamespaceLabels, nil
	}
	return m.read(ctx, a.Namespace)
}
