package namespaceoffloading

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
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
		"another name is denied": {
			func(n *offloadingv1beta1.NamespaceOffloading) { n.Name = "mine" }, `must be named "offloading"`},
		"a selected name must be given": {
			func(n *offloadingv1beta1.NamespaceOffloading) { n.Spec.NamespaceMappingStrategy = "SelectedName" },
			"spec.remoteNamespaceName is required"},
		"a selected name must be a namespace name": {
			func(n *offloadingv1beta1.NamespaceOffloading) {
				n.Spec.NamespaceMappingStrategy, n.Spec.RemoteNamespaceName = "SelectedName", "Not_One"
			}, "invalid spec.remoteNamespaceName"},
		"a default name that is too long is denied (T67)": {
			func(n *offloadingv1beta1.NamespaceOffloading) { n.Namespace = strings.Repeat("x", 60) }, "longer than 63 characters"},
		"the same long name with EnforceSameName is allowed": {
			change: func(n *offloadingv1beta1.NamespaceOffloading) {
				n.Namespace, n.Spec.NamespaceMappingStrategy = strings.Repeat("x", 60), "EnforceSameName"
			}},
		"a selected name that every provider has itself is denied": {
			func(n *offloadingv1beta1.NamespaceOffloading) {
				n.Spec.NamespaceMappingStrategy, n.Spec.RemoteNamespaceName = "SelectedName", "kube-system"
			}, `spec.remoteNamespaceName results in the remote namespace "kube-system"`},
		"EnforceSameName with such a name is denied": {
			func(n *offloadingv1beta1.NamespaceOffloading) {
				n.Namespace, n.Spec.NamespaceMappingStrategy = "default", "EnforceSameName"
			}, `EnforceSameName results in the remote namespace "default"`},
		"the default namespace with DefaultName is allowed": {
			change: func(n *offloadingv1beta1.NamespaceOffloading) { n.Namespace = "default" }},
		"a selector that parses is allowed": {
			change: func(n *offloadingv1beta1.NamespaceOffloading) {
				n.Spec.ClusterSelector = selector(corev1.NodeSelectorOpIn, "eu")
			}},
		"an unknown operator is denied": {
			func(n *offloadingv1beta1.NamespaceOffloading) { n.Spec.ClusterSelector = selector("Is", "eu") },
			"spec.clusterSelector is invalid"},
		"In without values is denied": {
			func(n *offloadingv1beta1.NamespaceOffloading) {
				n.Spec.ClusterSelector = selector(corev1.NodeSelectorOpIn)
			}, "spec.clusterSelector is invalid"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := validateCreate(offloading(tc.change), environment{clusterID: "rome", ownNamespace: "longshore"})
			if tc.denial == "" {
				assert.Empty(t, got.denial)
				return
			}
			assert.Contains(t, got.denial, tc.denial)
		})
	}
}

func TestValidateNamespace(t *testing.T) {
	for name, tc := range map[string]struct {
		namespace string
		labels    map[string]string
		denial    string
	}{
		"of an application":  {namespace: "shop"},
		"default":            {namespace: "default"},
		"of Longshore":       {"longshore", nil, `namespace "longshore" cannot be offloaded because it contains Longshore itself`},
		"kube-system":        {"kube-system", nil, `namespace "kube-system" cannot be offloaded because it contains the cluster's own components`},
		"kube-public":        {"kube-public", nil, `namespace "kube-public" cannot be offloaded`},
		"kube-node-lease":    {"kube-node-lease", nil, `namespace "kube-node-lease" cannot be offloaded`},
		"a tenant namespace": {"peer", map[string]string{"liqo.io/tenant-namespace": "true"}, "the virtual kubelets of a peer and the credentials for it"},
		"a tenant namespace with another value of its label": {"peer", map[string]string{"liqo.io/tenant-namespace": "yes"}, "the virtual kubelets of a peer and the credentials for it"},
		"one without a value":                                {"peer", map[string]string{"liqo.io/tenant-namespace": ""}, "the virtual kubelets of a peer and the credentials for it"},
		"labeled as not a tenant namespace":                  {namespace: "peer", labels: map[string]string{"liqo.io/tenant-namespace": "false"}},
	} {
		t.Run(name, func(t *testing.T) {
			nso := offloading(func(n *offloadingv1beta1.NamespaceOffloading) { n.Namespace = tc.namespace })
			raw, err := json.Marshal(nso)
			require.NoError(t, err)
			c := fakeclient.Builder(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tc.namespace, Labels: tc.labels}}).Build()
			handler := &Handler{Decoder: admission.NewDecoder(c.Scheme()), ClusterID: "rome", Namespace: "longshore", Reader: c}
			request := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
				Operation: admissionv1.Create, Namespace: tc.namespace, Object: runtime.RawExtension{Raw: raw},
			}}
			response := handler.Handle(t.Context(), request)
			assert.Equal(t, tc.denial == "", response.Allowed)
			assert.Contains(t, response.Result.Message, tc.denial)

			request.Operation, request.OldObject = admissionv1.Update, request.Object
			assert.True(t, handler.Handle(t.Context(), request).Allowed, "what is there can still be written, to be taken away")
		})
	}
}

func TestARemoteNameWithoutEffectCausesAWarning(t *testing.T) {
	for strategy, want := range map[offloadingv1beta1.NamespaceMappingStrategyType][]string{
		offloadingv1beta1.SelectedNameMappingStrategyType: nil,
		offloadingv1beta1.DefaultNameMappingStrategyType:  {`spec.remoteNamespaceName "foo" has no effect without namespaceMappingStrategy SelectedName`},
	} {
		got := validateCreate(offloading(func(n *offloadingv1beta1.NamespaceOffloading) {
			n.Spec.NamespaceMappingStrategy, n.Spec.RemoteNamespaceName = strategy, "foo"
		}), environment{clusterID: "rome"})
		assert.Equal(t, verdict{warnings: want}, got, strategy)
	}
}

func TestUpdateAcceptsAnOldInvalidSelector(t *testing.T) {
	broken := offloading(func(n *offloadingv1beta1.NamespaceOffloading) { n.Spec.ClusterSelector = selector("Is", "eu") })
	labeled := broken.DeepCopy()
	labeled.Finalizers = []string{offloadingv1beta1.NamespaceOffloadingFinalizer}
	assert.Empty(t, validateUpdate(broken, labeled).denial, "otherwise the controller could not write the status")
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
		"an invalid selector is denied": {
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
