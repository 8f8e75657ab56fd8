package rig_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	"github.com/longshore-dev/longshore/hack/demo/application"
	"github.com/longshore-dev/longshore/hack/demo/rig"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
)

const guardName = "provider-guard"

// providerPolicy loads plugins/providerguard into the provider as its README does. It denies a pod
// of the consumer, gives another one a request, and follows its settings.
func providerPolicy(t *testing.T, r *rig.Rig) {
	module, err := os.ReadFile("../../../bin/plugins/providerguard/module.wasm.gz")
	require.NoError(t, err, "the example policy is missing: run make plugins")
	spec, err := os.ReadFile("../../../plugins/providerguard/policy.yaml")
	require.NoError(t, err)
	guard := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: guardName, Namespace: rig.Namespace, Labels: map[string]string{policyv1alpha1.PolicyLabel: "true"}},
		BinaryData: map[string][]byte{"module.wasm.gz": module}, Data: map[string]string{"policy.yaml": string(spec)},
	}
	require.NoError(t, r.Milan.Create(t.Context(), guard))
	t.Cleanup(func() {
		assert.NoError(t, client.IgnoreNotFound(r.Milan.Delete(context.WithoutCancel(t.Context()), guard)))
	})
	awaitGuard(t, r, 1)

	limited := corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}}
	createGuarded(t, r, "privileged", limited, &corev1.SecurityContext{Privileged: ptr.To(true)})
	awaitPodEvent(t, r, "privileged", `policy "provider-guard" of the provider denied the pod: Privileged: container c is privileged`)
	createGuarded(t, r, "unlimited", corev1.ResourceRequirements{}, nil)
	awaitPodEvent(t, r, "unlimited", "LimitRequired: container c has no limit of memory")
	createGuarded(t, r, "limited", limited, nil)
	assert.Equal(t, "100m", remoteRequest(t, r, "limited"))

	// Changes apply live: the pod that was denied comes to run.
	patch := `[{"op":"replace","path":"/data/policy.yaml","value":"points: [ShadowPodAdmission]\nsettings: {defaultRequests: {cpu: 200m}}\n"}]`
	require.NoError(t, r.Milan.Patch(t.Context(), guard, client.RawPatch(types.JSONPatchType, []byte(patch))))
	awaitGuard(t, r, 2)
	assert.Equal(t, "200m", remoteRequest(t, r, "unlimited"))
	assert.Equal(t, "100m", remoteRequest(t, r, "limited"), "a pod that runs is not changed")
	for _, name := range []string{"privileged", "unlimited", "limited"} {
		require.NoError(t, r.Rome.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: application.Namespace, Name: name}}))
	}
	eventually(t, "the pods are gone", func(t planetest.T) bool {
		return len(pods(t, r.Rome, application.Namespace, map[string]string{"app": "guarded"}))+len(pods(t, r.Milan, "shop-rome", map[string]string{"app": "guarded"})) == 0
	})
}

// awaitGuard waits until the webhook of the provider decides by a generation of the policy.
func awaitGuard(t *testing.T, r *rig.Rig, generation int64) {
	t.Helper()
	eventually(t, "the policy is ready in the provider", func(t planetest.T) bool {
		policy := &policyv1alpha1.OffloadingPolicy{}
		err := r.Milan.Get(t.Context(), client.ObjectKey{Name: guardName}, policy)
		if apierrors.IsNotFound(err) {
			return false
		}
		require.NoError(t, err)
		return policy.Status.ObservedGeneration == policy.Generation && policy.Generation == generation &&
			meta.IsStatusConditionTrue(policy.Status.Conditions, policyv1alpha1.ReadyCondition)
	})
}

func createGuarded(t *testing.T, r *rig.Rig, name string, resources corev1.ResourceRequirements, security *corev1.SecurityContext) {
	t.Helper()
	require.NoError(t, r.Rome.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: application.Namespace, Name: name, Labels: map[string]string{"app": "guarded"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "shop.example/guarded:1", Resources: resources, SecurityContext: security}}},
	}))
}

func awaitPodEvent(t *testing.T, r *rig.Rig, name, message string) {
	t.Helper()
	eventually(t, "pod "+name+" has an event: "+message, func(t planetest.T) bool {
		events := &corev1.EventList{}
		require.NoError(t, r.Rome.List(t.Context(), events, client.InNamespace(application.Namespace)))
		for i := range events.Items {
			if e := &events.Items[i]; e.InvolvedObject.Name == name && e.Type == corev1.EventTypeWarning && strings.Contains(e.Message, message) {
				return true
			}
		}
		return false
	})
}

// remoteRequest returns the request of cpu of a pod in the provider, once it exists.
func remoteRequest(t *testing.T, r *rig.Rig, name string) string {
	t.Helper()
	pod := &corev1.Pod{}
	eventually(t, "pod "+name+" exists in the provider", func(t planetest.T) bool {
		err := r.Milan.Get(t.Context(), client.ObjectKey{Namespace: "shop-rome", Name: name}, pod)
		return err == nil
	})
	return pod.Spec.Containers[0].Resources.Requests.Cpu().String()
}
