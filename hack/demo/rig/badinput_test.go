package rig_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	"github.com/longshore-dev/longshore/hack/demo/rig"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// refused is what people get wrong, and what they must read.
func refused() map[string]struct{ manifest, want string } {
	return map[string]struct{ manifest, want string }{
		"a NamespaceOffloading with another name": {`
apiVersion: offloading.liqo.io/v1beta1
kind: NamespaceOffloading
metadata: {name: mine, namespace: default}
spec: {}`, `must be named "offloading"`},
		"a selector that cannot parse": {`
apiVersion: offloading.liqo.io/v1beta1
kind: NamespaceOffloading
metadata: {name: offloading, namespace: default}
spec:
  clusterSelector: {nodeSelectorTerms: [{matchExpressions: [{key: region, operator: Is, values: [eu]}]}]}`, "spec.clusterSelector is invalid"},
		"an unknown pod strategy": {`
apiVersion: offloading.liqo.io/v1beta1
kind: NamespaceOffloading
metadata: {name: offloading, namespace: default}
spec: {podOffloadingStrategy: Everywhere}`, `Unsupported value: "Everywhere"`},
		"a selected name that is missing": {`
apiVersion: offloading.liqo.io/v1beta1
kind: NamespaceOffloading
metadata: {name: offloading, namespace: default}
spec: {namespaceMappingStrategy: SelectedName}`, "spec.remoteNamespaceName is required"},
		"an offloading of Longshore's own namespace": {`
apiVersion: offloading.liqo.io/v1beta1
kind: NamespaceOffloading
metadata: {name: offloading, namespace: longshore}
spec: {}`, `namespace "longshore" cannot be offloaded because it contains Longshore itself`},
		"an offloading of a tenant's namespace": {`
apiVersion: offloading.liqo.io/v1beta1
kind: NamespaceOffloading
metadata: {name: offloading, namespace: liqo-tenant-milan}
spec: {}`, `namespace "liqo-tenant-milan" cannot be offloaded because it contains the virtual kubelets of a peer`},
		"a VirtualNode with a label and a taint that no Node can have": {`
apiVersion: offloading.liqo.io/v1beta1
kind: VirtualNode
metadata: {name: other, namespace: liqo-tenant-milan}
spec:
  clusterID: milan
  labels: {"a b": c}
  taints: [{key: gpu, effect: Foo}]`, `spec.taints[0].effect: Unsupported value: "Foo"`},
		"a VirtualNode of an unknown options template": {`
apiVersion: offloading.liqo.io/v1beta1
kind: VirtualNode
metadata: {name: other, namespace: liqo-tenant-milan}
spec: {clusterID: milan, vkOptionsTemplateRef: {name: none, namespace: longshore}}`, "reading VkOptionsTemplate longshore/none"},
		"a VirtualNode with a bad template argument": {`
apiVersion: offloading.liqo.io/v1beta1
kind: VirtualNode
metadata: {name: other, namespace: liqo-tenant-milan}
spec:
  clusterID: milan
  template:
    metadata: {}
    spec:
      selector: {}
      template: {spec: {containers: [{name: c, args: [--client-qps]}]}}`, `argument "--client-qps" has no value`},
		"a VirtualNode that takes a Node's name": {`
apiVersion: offloading.liqo.io/v1beta1
kind: VirtualNode
metadata: {name: rome-processes, namespace: liqo-tenant-milan}
spec: {clusterID: milan}`, `nodes "rome-processes" already exists`},
		"a cluster ID that is none": {`
apiVersion: offloading.liqo.io/v1beta1
kind: VirtualNode
metadata: {name: other, namespace: liqo-tenant-milan}
spec: {clusterID: Not_One}`, "spec.clusterID"},
		"an OffloadingPolicy with an unknown mode": {`
apiVersion: policy.longshore.dev/v1alpha1
kind: OffloadingPolicy
metadata: {name: bad}
spec: {module: {builtIn: default}, mode: Sometimes}`, "spec.mode"},
	}
}

// badInput applies common mistakes to a real API server with the real webhooks: the answer
// must name the mistake.
func badInput(t *testing.T, r *rig.Rig) {
	for name, tc := range refused() {
		t.Run(name, func(t *testing.T) {
			obj := &unstructured.Unstructured{}
			require.NoError(t, yaml.Unmarshal([]byte(tc.manifest), &obj.Object))
			err := r.Rome.Create(t.Context(), obj)
			require.Error(t, err)
			assert.Contains(t, err.Error(), tc.want)
		})
	}
	t.Run("a pod in a labeled namespace without NamespaceOffloading", func(t *testing.T) {
		labels := map[string]string{offloadingv1beta1.SchedulingEnabledLabel: "true"}
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "labeled", Labels: labels}}
		require.NoError(t, r.Rome.Create(t.Context(), namespace))
		eventually(t, "the default service account exists", func(t planetest.T) bool {
			return r.Rome.Get(t.Context(), client.ObjectKey{Namespace: "labeled", Name: "default"}, &corev1.ServiceAccount{}) == nil
		})
		held := pod("held")
		held.Namespace = "labeled"
		assert.ErrorContains(t, r.Rome.Create(t.Context(), held), `no NamespaceOffloading "offloading" yet`)
		require.NoError(t, r.Rome.Delete(t.Context(), namespace))
	})
	conditions := map[string]struct{ secret, content, want string }{
		"a missing kubeconfig Secret": {"nowhere", "", "kubeconfig Secret liqo-tenant-milan/nowhere does not exist"},
		"a broken kubeconfig":         {"broken", "clusters: {", "is not a kubeconfig"},
		"an empty kubeconfig":         {"empty", "{}", `current-context "" does not exist`},
	}
	for name, tc := range conditions {
		t.Run("a VirtualNode with "+name, func(t *testing.T) { brokenKubeconfig(t, r, tc.secret, tc.content, tc.want) })
	}
	t.Run("a VirtualNode whose provider does not answer", func(t *testing.T) { deadProvider(t, r) })
}

// deadProvider is a kubeconfig of a server that does not exist: only the virtual kubelet
// notices.
func deadProvider(t *testing.T, r *rig.Rig) {
	tenant := rig.Pair.ConsumerTenant()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "dead", Namespace: tenant}, Data: map[string][]byte{"kubeconfig": []byte(`
apiVersion: v1
kind: Config
clusters: [{name: milan, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: rome, user: {token: none}}]
contexts: [{name: milan, context: {cluster: milan, user: rome}}]
current-context: milan`)},
	}
	require.NoError(t, r.Rome.Create(t.Context(), secret))
	vn := &offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Name: "dead", Namespace: tenant}}
	vn.Spec.ClusterID, vn.Spec.KubeconfigSecretRef = rig.Provider, &corev1.LocalObjectReference{Name: "dead"}
	require.NoError(t, r.Rome.Create(t.Context(), vn))
	eventually(t, "the condition reports that the Node is not published", func(t planetest.T) bool {
		now := &offloadingv1beta1.VirtualNode{}
		if r.Rome.Get(t.Context(), client.ObjectKeyFromObject(vn), now) != nil {
			return false
		}
		for _, c := range now.Status.Conditions {
			if c.Type == offloadingv1beta1.NodeConditionType && c.Status == offloadingv1beta1.CreatingConditionStatusType {
				return strings.Contains(c.Message, "the virtual kubelet has not published the Node's status")
			}
		}
		return false
	})
	eventually(t, "an event on the VirtualNode has the reason", func(t planetest.T) bool {
		list := &corev1.EventList{}
		if r.Rome.List(t.Context(), list, client.InNamespace(tenant)) != nil {
			return false
		}
		return slices.ContainsFunc(list.Items, func(event corev1.Event) bool {
			return event.InvolvedObject.UID == vn.UID && event.Reason == "ProviderUnreachable" && strings.Contains(event.Message, "connection refused")
		})
	})
	require.NoError(t, r.Rome.Delete(t.Context(), vn))
	eventually(t, "it goes as if nothing had been", func(t planetest.T) bool {
		return apierrors.IsNotFound(r.Rome.Get(t.Context(), client.ObjectKeyFromObject(vn), vn))
	})
	require.NoError(t, r.Rome.Delete(t.Context(), secret))
}

func brokenKubeconfig(t *testing.T, r *rig.Rig, secret, content, want string) {
	t.Helper()
	tenant := rig.Pair.ConsumerTenant()
	kubeconfig := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: secret, Namespace: tenant}, Data: map[string][]byte{"kubeconfig": []byte(content)},
	}
	if content != "" {
		require.NoError(t, r.Rome.Create(t.Context(), kubeconfig))
	}
	vn := &offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Name: "broken-" + secret, Namespace: tenant}}
	vn.Spec.ClusterID, vn.Spec.KubeconfigSecretRef = rig.Provider, &corev1.LocalObjectReference{Name: secret}
	require.NoError(t, r.Rome.Create(t.Context(), vn))
	var message string
	eventually(t, "the condition names the mistake", func(t planetest.T) bool {
		require.NoError(t, r.Rome.Get(t.Context(), client.ObjectKeyFromObject(vn), vn))
		for _, c := range vn.Status.Conditions {
			if c.Type == offloadingv1beta1.VirtualKubeletConditionType {
				message = c.Message
			}
		}
		return message != ""
	})
	assert.Contains(t, message, want)
	require.NoError(t, r.Rome.Delete(t.Context(), vn))
	if content != "" {
		require.NoError(t, r.Rome.Delete(t.Context(), kubeconfig))
	}
}
