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
	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
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
	awaitProviderPolicy(t, r, guardName, 1)

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
	awaitProviderPolicy(t, r, guardName, 2)
	assert.Equal(t, "200m", remoteRequest(t, r, "unlimited"))
	assert.Equal(t, "100m", remoteRequest(t, r, "limited"), "a pod that runs is not changed")
	for _, name := range []string{"privileged", "unlimited", "limited"} {
		require.NoError(t, r.Rome.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: application.Namespace, Name: name}}))
	}
	eventually(t, "the pods are gone", func(t planetest.T) bool {
		return len(pods(t, r.Rome, application.Namespace, map[string]string{"app": "guarded"}))+len(pods(t, r.Milan, "shop-rome", map[string]string{"app": "guarded"})) == 0
	})
}

// awaitProviderPolicy waits until the component of the provider that calls the policy decides by a
// generation of it.
func awaitProviderPolicy(t *testing.T, r *rig.Rig, name string, generation int64) {
	t.Helper()
	eventually(t, "the policy is ready in the provider", func(t planetest.T) bool {
		policy := &policyv1alpha1.OffloadingPolicy{}
		err := r.Milan.Get(t.Context(), client.ObjectKey{Name: name}, policy)
		if apierrors.IsNotFound(err) {
			return false
		}
		require.NoError(t, err)
		return policy.Status.ObservedGeneration == policy.Generation && policy.Generation == generation &&
			policy.Status.Components == "1/1" && meta.IsStatusConditionTrue(policy.Status.Conditions, policyv1alpha1.ReadyCondition)
	})
}

const capName = "tenant-cap"

// sliceCapped loads plugins/tenantcap into the provider. It grants half of the resource slice,
// denies it, and is deleted; the slice and the Quota follow.
func sliceCapped(t *testing.T, r *rig.Rig) {
	module, err := os.ReadFile("../../../bin/plugins/tenantcap/module.wasm.gz")
	require.NoError(t, err, "the example policy is missing: run make plugins")
	spec := func(settings string) string {
		return "points: [ResourceSliceAdmission]\norder: 10\nsettings: " + settings + "\n"
	}
	limit := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: capName, Namespace: rig.Namespace, Labels: map[string]string{policyv1alpha1.PolicyLabel: "true"}},
		BinaryData: map[string][]byte{"module.wasm.gz": module},
		Data:       map[string]string{"policy.yaml": spec(`{tenants: [{clusterID: rome, resources: {cpu: "320"}}]}`)},
	}
	awaitSlice(t, r, authv1beta1.ResourceSliceConditionAccepted, "640", "The resources are granted.")
	require.NoError(t, r.Milan.Create(t.Context(), limit))
	t.Cleanup(func() {
		assert.NoError(t, client.IgnoreNotFound(r.Milan.Delete(context.WithoutCancel(t.Context()), limit)))
	})
	awaitProviderPolicy(t, r, capName, 1)
	awaitSlice(t, r, authv1beta1.ResourceSliceConditionAccepted, "320", "The resources are granted.")
	awaitQuota(t, r, "320", false)

	limit.Data["policy.yaml"] = spec("{denyOthers: true}")
	require.NoError(t, r.Milan.Update(t.Context(), limit))
	awaitSlice(t, r, authv1beta1.ResourceSliceConditionDenied, "320", "UnknownTenant: cluster rome is not among the tenants of this provider")
	awaitQuota(t, r, "320", true)

	require.NoError(t, r.Milan.Delete(t.Context(), limit))
	awaitSlice(t, r, authv1beta1.ResourceSliceConditionAccepted, "640", "The resources are granted.")
	awaitQuota(t, r, "640", false)
}

// awaitSlice waits until the consumer sees a grant and its condition.
func awaitSlice(t *testing.T, r *rig.Rig, status authv1beta1.ResourceSliceConditionStatus, cpu, message string) {
	t.Helper()
	eventually(t, "the consumer's slice has "+cpu+" cpus and is "+string(status)+": "+message, func(t planetest.T) bool {
		slice := &authv1beta1.ResourceSlice{}
		require.NoError(t, r.Rome.Get(t.Context(), client.ObjectKey{Namespace: tenantInRome, Name: rig.Node}, slice))
		for _, condition := range slice.Status.Conditions {
			if condition.Type == authv1beta1.ResourceSliceConditionTypeResources {
				return condition.Status == status && strings.Contains(condition.Message, message) && slice.Status.Resources.Cpu().String() == cpu
			}
		}
		return false
	})
}

func awaitQuota(t *testing.T, r *rig.Rig, cpu string, cordoned bool) {
	t.Helper()
	eventually(t, "the Quota has "+cpu+" cpus", func(t planetest.T) bool {
		quotas := &offloadingv1beta1.QuotaList{}
		require.NoError(t, r.Milan.List(t.Context(), quotas, client.InNamespace(tenantInMilan)))
		require.Len(t, quotas.Items, 1)
		spec := &quotas.Items[0].Spec
		return spec.Resources.Cpu().String() == cpu && ptr.Deref(spec.Cordoned, false) == cordoned
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
