package policysource

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/policy/chain"
)

// matcher is spec.match; nil members match everything.
type matcher struct {
	namespaces   labels.Selector
	objects      labels.Selector
	virtualNodes []string
	conditions   []condition
	// reader reads namespaces whose labels the caller does not know.
	reader client.Reader
}

var _ chain.Matcher = (*matcher)(nil)

// newMatcher compiles spec.match; nil when it matches everything. What does not compile
// is told, and left out: the matcher matches what the rest selects.
func newMatcher(match *policyv1alpha1.Match, reader client.Reader) (*matcher, *problem) {
	if match == nil {
		return nil, nil
	}
	conditions, bad := compileConditions(match.MatchConditions)
	m := &matcher{virtualNodes: match.VirtualNodes, conditions: conditions, reader: reader}
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
			bad = cmp.Or(bad, invalid("spec.match.%s is no selector, the operator must correct it: %w", source.field, err))
			continue
		}
		*source.to = selector
	}
	return m, bad
}

// Matches implements chain.Matcher.
//
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
func (m *matcher) Matches(ctx context.Context, a chain.Attributes) (bool, error) {
	if len(m.virtualNodes) > 0 && !slices.Contains(m.virtualNodes, a.VirtualNode) {
		return false, nil
	}
	if m.objects != nil && !m.objects.Matches(labels.Set(a.Labels)) {
		return false, nil
	}
	if m.namespaces != nil && !m.namespaces.Empty() {
		known, err := m.namespaceLabels(ctx, a)
		if err != nil || !m.namespaces.Matches(labels.Set(known)) {
			return false, err
		}
	}
	return m.meetsConditions(ctx, a)
}

// namespaceLabels returns what the caller knows of them, or reads them.
func (m *matcher) namespaceLabels(ctx context.Context, a chain.Attributes) (map[string]string, error) {
	if a.NamespaceLabels != nil {
		return a.NamespaceLabels, nil
	}
	namespace := &corev1.Namespace{}
	if err := m.reader.Get(ctx, client.ObjectKey{Name: a.Namespace}, namespace); err != nil {
		return nil, fmt.Errorf("reading the labels of namespace %q: %w", a.Namespace, err)
	}
	return namespace.Labels, nil
}
