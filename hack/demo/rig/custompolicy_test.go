package rig_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	"github.com/longshore-dev/longshore/hack/demo/application"
	"github.com/longshore-dev/longshore/hack/demo/rig"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/view"
)

const (
	// What `make plugins` puts beside each other is what the README loads.
	plugin     = "../../../bin/plugins/registryrewrite/module.wasm.gz"
	pluginSpec = "../../../bin/plugins/registryrewrite/policy.yaml"
	customName = "registry-rewrite"
)

// customPolicy is docs/tutorials/first-policy.md: a ConfigMap with a module that its
// author built, a label, and the next pods are decided by it.
func customPolicy(t *testing.T, r *rig.Rig) {
	module, err := os.ReadFile(filepath.FromSlash(plugin))
	require.NoError(t, err, "the example policy is missing: run make plugins")
	spec, err := os.ReadFile(filepath.FromSlash(pluginSpec))
	require.NoError(t, err, "the example policy's spec is missing: run make plugins")
	storePolicy(t, r, customName, map[string][]byte{"module.wasm.gz": module}, map[string]string{"policy.yaml": string(spec)})
	policy := awaitReady(t, r, customName)
	require.NotEmpty(t, policy.Status.Digest)
	eventually(t, "the virtual kubelet runs it", func(t planetest.T) bool {
		return getPolicy(t, r, customName).Status.Components == "1/1"
	})
	restarted(t, r, "storefront", "mirror.example/shop/storefront:1.4.0")
	remote := pods(t, r.Milan, "shop-rome", map[string]string{"app": "storefront"})
	decisions, err := view.DecodeDecisions(remote[0].Annotations[policyv1alpha1.DecisionsAnnotation])
	require.NoError(t, err)
	named := false
	for _, d := range decisions {
		named = named || d.Policy == customName && d.Digest == chain.ShortDigest(policy.Status.Digest)
	}
	assert.True(t, named, "the remote pod names the policy that rewrote its image: %v", decisions)
	local := pods(t, r.Rome, application.Namespace, map[string]string{"app": "storefront"})
	assert.Equal(t, "shop.example/storefront:1.4.0", local[0].Spec.Containers[0].Image, "the local pod keeps what its author wrote")

	badPolicies(t, r)
	restarted(t, r, "catalog", "mirror.example/shop/catalog:2.0.1")

	require.NoError(t, r.Rome.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: customName, Namespace: rig.Namespace}}))
	eventually(t, "the policy goes with its ConfigMap", func(t planetest.T) bool {
		return apierrors.IsNotFound(r.Rome.Get(t.Context(), client.ObjectKey{Name: customName}, &policyv1alpha1.OffloadingPolicy{}))
	})
	restarted(t, r, "storefront", "shop.example/storefront:1.4.0")
	restarted(t, r, "catalog", "shop.example/catalog:2.0.1")
}

// badPolicies are refused at the door, in the words that their authors need; what runs
// goes on.
func badPolicies(t *testing.T, r *rig.Rig) {
	t.Helper()
	for name, tc := range map[string]struct {
		binary map[string][]byte
		text   map[string]string
		want   string
	}{
		"not-wasm":             {map[string][]byte{"module.wasm": []byte("\xff\xfe no module")}, nil, "this is not a WebAssembly module"},
		"not-binary":           {nil, map[string]string{"module.wasm": "package main"}, "its author must store a built module in binaryData"},
		"misspelled":           {map[string][]byte{"module.wasm": []byte("\xff")}, map[string]string{"policy.yaml": "ordr: 10"}, `unknown field "ordr"`},
		"default-antiaffinity": {map[string][]byte{"module.wasm": []byte("\xff")}, nil, "is not managed by Longshore"},
	} {
		err := labelPolicy(t, r, name, tc.binary, tc.text)
		assert.ErrorContains(t, err, tc.want, name)
		require.NoError(t, r.Rome.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: rig.Namespace}}))
	}
	assert.Equal(t, policyv1alpha1.BuiltInDefault, getPolicy(t, r, "default-antiaffinity").Spec.Module.BuiltIn, "what others wrote is not touched")
}

// storePolicy stores a policy as a ConfigMap.
func storePolicy(t *testing.T, r *rig.Rig, name string, binary map[string][]byte, text map[string]string) {
	t.Helper()
	require.NoError(t, labelPolicy(t, r, name, binary, text))
}

// labelPolicy does what kubectl does: create the ConfigMap, then label it.
func labelPolicy(t *testing.T, r *rig.Rig, name string, binary map[string][]byte, text map[string]string) error {
	t.Helper()
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: rig.Namespace}, BinaryData: binary, Data: text}
	require.NoError(t, r.Rome.Create(t.Context(), cm))
	label := fmt.Sprintf(`{"metadata":{"labels":{%q:"true"}}}`, policyv1alpha1.PolicyLabel)
	return r.Rome.Patch(t.Context(), cm, client.RawPatch(types.MergePatchType, []byte(label)))
}

func getPolicy(t planetest.T, r *rig.Rig, name string) *policyv1alpha1.OffloadingPolicy {
	t.Helper()
	policy := &policyv1alpha1.OffloadingPolicy{}
	require.NoError(t, client.IgnoreNotFound(r.Rome.Get(t.Context(), client.ObjectKey{Name: name}, policy)))
	return policy
}

// awaitReady waits until the module is loaded: until then the policy reports that it is not
// ready.
func awaitReady(t *testing.T, r *rig.Rig, name string) *policyv1alpha1.OffloadingPolicy {
	t.Helper()
	var policy *policyv1alpha1.OffloadingPolicy
	eventually(t, "policy "+name+" is ready", func(t planetest.T) bool {
		policy = getPolicy(t, r, name)
		return meta.IsStatusConditionTrue(policy.Status.Conditions, policyv1alpha1.ReadyCondition)
	})
	return policy
}

// restarted does what `kubectl rollout restart` does and waits until every remote pod of
// the Deployment is ready with the image. A virtual kubelet hears a moment later that a policy is gone: pods
// that it forged meanwhile are restarted once more.
func restarted(t *testing.T, r *rig.Rig, name, image string) {
	t.Helper()
	labels := map[string]string{"app": name}
	replicas, before := restart(t, r, name)
	eventually(t, "the pods of "+name+" are new and run "+image, func(t planetest.T) bool {
		remote := pods(t, r.Milan, "shop-rome", labels)
		changed := 0
		for i := range remote {
			if before[remote[i].UID] || !ready(&remote[i]) {
				return false
			}
			if remote[i].Spec.Containers[0].Image == image {
				changed++
			}
		}
		if len(remote) != replicas || len(pods(t, r.Rome, application.Namespace, labels)) != replicas {
			return false
		}
		if changed < replicas {
			_, before = restart(t, r, name)
		}
		return changed == replicas
	})
}

// restart restarts a Deployment, and returns its replicas and the remote pods that it has before.
func restart(t planetest.T, r *rig.Rig, name string) (int, map[types.UID]bool) {
	t.Helper()
	before := map[types.UID]bool{}
	for _, p := range pods(t, r.Milan, "shop-rome", map[string]string{"app": name}) {
		before[p.UID] = true
	}
	deployment := &appsv1.Deployment{}
	require.NoError(t, r.Rome.Get(t.Context(), client.ObjectKey{Namespace: application.Namespace, Name: name}, deployment))
	patch := fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"revision after %d"}}}}}`, deployment.Generation)
	require.NoError(t, r.Rome.Patch(t.Context(), deployment, client.RawPatch(types.MergePatchType, []byte(patch))))
	return int(*deployment.Spec.Replicas), before
}
