package namespaceoffloading

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

func offloading(change func(*offloadingv1beta1.NamespaceOffloading)) *offloadingv1beta1.NamespaceOffloading {
	nso := &offloadingv1beta1.NamespaceOffloading{
		ObjectMeta: metav1.ObjectMeta{Name: "offloading", Namespace: "shop"},
		Spec: offloadingv1beta1.NamespaceOffloadingSpec{
			NamespaceMappingStrategy: offloadingv1beta1.DefaultNameMappingStrategyType,
			PodOffloadingStrategy:    offloadingv1beta1.LocalAndRemotePodOffloadingStrategyType,
		},
	}
	if change != nil {
		change(nso)
	}
	return nso
}

func selector(operator corev1.NodeSelectorOperator, values ...string) corev1.NodeSelector {
	return corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "region", Operator: operator, Values: values}},
	}}}
}

func TestValidateCreate(t *testing.T) {
	cases := map[string]struct {
		change func(*offloadingv1beta1.NamespaceOffloading)
		denial string
	}{
		"the default is allowed": {},
		"another name is refused": {
			func(n *offloadingv1beta1.NamespaceOffloading) { n.Name = "mine" }, `must be named "offloading"`},
		"a selected name must be given": {
			func(n *offloadingv1beta1.NamespaceOffloading) { n.Spec.NamespaceMappingStrategy = "SelectedName" },
			"spec.remoteNamespaceName is required"},
		"a selected name must be a namespace name": {
			func(n *offloadingv1beta1.NamespaceOffloading) {
				n.Spec.NamespaceMappingStrategy, n.Spec.RemoteNamespaceName = "SelectedName", "Not_One"
			}, "is no namespace name"},
		"a default name that is too long is refused (T67)": {
			func(n *offloadingv1beta1.NamespaceOffloading) { n.Namespace = strings.Repeat("x", 60) }, "longer than 63 characters"},
		"the same long name with EnforceSameName is allowed": {
			change: func(n *offloadingv1beta1.NamespaceOffloading) {
				n.Namespace, n.Spec.NamespaceMappingStrategy = strings.Repeat("x", 60), "EnforceSameName"
			}},
		"a selector that parses is allowed": {
			change: func(n *offloadingv1beta1.NamespaceOffloading) {
				n.Spec.ClusterSelector = selector(corev1.NodeSelectorOpIn, "eu")
			}},
		"an unknown operator is refused": {
			func(n *offloadingv1beta1.NamespaceOffloading) { n.Spec.ClusterSelector = selector("Is", "eu") },
			"spec.clusterSelector is invalid"},
		"In without values is refused": {
			func(n *offloadingv1beta1.NamespaceOffloading) {
				n.Spec.ClusterSelector = selector(corev1.NodeSelectorOpIn)
			}, "spec.clusterSelector is invalid"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := validateCreate(offloading(tc.change), "rome")
			if tc.denial == "" {
				assert.Empty(t, got.denial)
				return
			}
			assert.Contains(t, got.denial, tc.denial)
		})
	}
}

func TestWhatWasThereBeforeTheWebhookCanStillBeWritten(t *testing.T) {
	broken := offloading(func(n *offloadingv1beta1.NamespaceOffloading) { n.Spec.ClusterSelector = selector("Is", "eu") })
	labeled := broken.DeepCopy()
	labeled.Finalizers = []string{offloadingv1beta1.NamespaceOffloadingFinalizer}
	assert.Empty(t, validateUpdate(broken, labeled).denial, "else the controller could not even say what is wrong with it")
}

func TestValidateUpdate(t *testing.T) {
	cases := map[string]struct {
		change  func(*offloadingv1beta1.NamespaceOffloading)
		denial  string
		warning string
	}{
		"no change is allowed": {},
		"the mapping strategy is immutable": {
			change: func(n *offloadingv1beta1.NamespaceOffloading) { n.Spec.NamespaceMappingStrategy = "EnforceSameName" },
			denial: "spec.namespaceMappingStrategy cannot be changed"},
		"the remote name is immutable": {
			change: func(n *offloadingv1beta1.NamespaceOffloading) { n.Spec.RemoteNamespaceName = "other" },
			denial: "spec.remoteNamespaceName cannot be changed"},
		"a tighter pod strategy is allowed with a warning": {
			change:  func(n *offloadingv1beta1.NamespaceOffloading) { n.Spec.PodOffloadingStrategy = "Remote" },
			warning: "may violate podOffloadingStrategy Remote"},
		"a broken selector is refused on update too": {
			change: func(n *offloadingv1beta1.NamespaceOffloading) { n.Spec.ClusterSelector = selector("Is", "eu") },
			denial: "spec.clusterSelector is invalid"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := validateUpdate(offloading(nil), offloading(tc.change))
			if tc.denial != "" {
				assert.Contains(t, got.denial, tc.denial)
				return
			}
			assert.Empty(t, got.denial)
			assert.Contains(t, strings.Join(got.warnings, "\n"), tc.warning)
		})
	}
}
