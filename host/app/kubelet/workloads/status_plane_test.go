package workloads_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/internal/testkit/twoclusters"
)

// endOfYears is a time that JSON cannot have in UTC.
const endOfYears = "9999-12-31T23:59:59-23:59"

// hostileStatuses are statuses of a pod that a provider may report, by the name of a pod.
func hostileStatuses() map[string]string {
	statuses := map[string]string{
		"times": fmt.Sprintf(`"startTime":%[1]q,"conditions":[{"type":"Ready","status":"True","lastTransitionTime":%[1]q,"lastProbeTime":%[1]q}],`+
			`"containerStatuses":[{"name":"web","image":"i","imageID":"","ready":true,"restartCount":-1,"state":{"running":{"startedAt":%[1]q}}}]`, endOfYears),
		"a-time-in-lower-case": `"startTime":"2026-11-28t05:00:00z"`,
		"a-container-of-the-provider": `"containerStatuses":[{"name":"web","image":"i","imageID":"","ready":true,"restartCount":0},` +
			`{"name":"sidecar","image":"i","imageID":"","ready":true,"restartCount":0,"allocatedResources":{"cpu":"1000"},"resources":{"requests":{"cpu":"1000"}}}]`,
	}
	for name, amount := range map[string]string{
		"a-large-exponent": "1e30000000", "more-than-the-pod-has": "1000", "a-fraction-in-an-exponent": "1e1.5", "a-negative-amount": "-1", "a-large-number": "9999999999999999999",
		"an-amount-that-is-not-canonical": "0.0500",
	} {
		resources := fmt.Sprintf(`{"requests":{"cpu":%[1]q,"memory":%[1]q,"example.com/gpu":%[1]q},"limits":{"cpu":%[1]q,"memory":%[1]q}}`, amount)
		allocated := fmt.Sprintf(`{"cpu":%[1]q,"memory":%[1]q,"example.com/gpu":%[1]q}`, amount)
		statuses[name] = fmt.Sprintf(`"resources":%[1]s,"allocatedResources":%[2]s,"containerStatuses":[{"name":"web","image":"i","imageID":"","ready":true,"restartCount":0,`+
			`"state":{"running":{}},"resources":%[1]s,"allocatedResources":%[2]s}]`, resources, allocated)
	}
	return statuses
}

// testHostileStatuses has the provider report statuses that would stop components of the consumer, each
// followed by one of a pod of another namespace, which comes home meanwhile.
func (r *gateRig) testHostileStatuses(t *testing.T) {
	r.MapNamespaces("bank")
	r.createsPod(t, "bank", "witness")
	for name, status := range hostileStatuses() {
		t.Run(name, func(t *testing.T) {
			r.createsPod(t, "shop", name)
			isStored := r.reports(t, "shop", name, `"phase":"Running","message":"hostile",`+status)
			require.True(t, r.reports(t, "bank", "witness", `"phase":"Running","message":"`+name+`"`))
			r.awaitMessage(t, "bank", "witness", name)
			if isStored {
				r.awaitMessage(t, "shop", name, "hostile")
				r.isHarmless(t, name)
			}
		})
	}
	t.Run("statuses that do not come home", r.testStatusesThatStay)
	t.Run("events", r.testHostileEvents)
}

// createsPod creates a pod with requests, and waits for its remote pod.
func (r *gateRig) createsPod(t *testing.T, namespace, name string) {
	t.Helper()
	pod := twoclusters.Pod(namespace, name)
	pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("64Mi")},
		Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("200m")},
	}
	r.Create(r.Rome, pod)
	r.awaitRemote(t, namespace, &corev1.Pod{}, name)
}

func (r *gateRig) awaitRemote(t *testing.T, namespace string, object client.Object, name string) {
	t.Helper()
	planetest.Until(t, func(t planetest.T) bool {
		return r.Milan.Get(t.Context(), client.ObjectKey{Namespace: twoclusters.Remote(namespace), Name: name}, object) == nil
	}, soon, tick, "%T %s has a remote one", object, name)
}

// reports patches the status of a remote pod, and returns whether the provider's API server accepted it.
func (r *gateRig) reports(t *testing.T, namespace, name, status string) bool {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: twoclusters.Remote(namespace), Name: name}}
	err := r.Milan.Status().Patch(t.Context(), pod, client.RawPatch(types.MergePatchType, []byte(`{"status":{`+status+`}}`)))
	if err != nil {
		require.True(t, apierrors.IsBadRequest(err) || apierrors.IsInvalid(err) || apierrors.IsInternalError(err), "%v", err)
		t.Logf("the API server of the provider refuses it: %v", err)
	}
	return err == nil
}

func (r *gateRig) awaitMessage(t *testing.T, namespace, name, message string) {
	t.Helper()
	planetest.Until(t, func(t planetest.T) bool {
		return get(t, r.Rome, namespace, name).Status.Message == message
	}, soon, tick, "the status of the pod in %s comes home", namespace)
}

// isHarmless checks the status of the pod in the consumer, as components there read it.
func (r *gateRig) isHarmless(t *testing.T, name string) {
	t.Helper()
	pod := &unstructured.Unstructured{}
	pod.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Pod"})
	require.NoError(t, r.Rome.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: name}, pod))
	status, _, _ := unstructured.NestedMap(pod.Object, "status")
	statuses, _, _ := unstructured.NestedSlice(status, "containerStatuses")
	holders := []any{status}
	for _, holder := range append(holders, statuses...) {
		of, _ := holder.(map[string]any)
		most := corev1.ResourceList{}
		if of["name"] == "web" {
			most = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("64Mi")}
		}
		isWithin(t, of, most, "allocatedResources")
		isWithin(t, of, most, "resources", "requests")
		if limit := (corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("200m")}); of["name"] == "web" {
			most = limit
		}
		isWithin(t, of, most, "resources", "limits")
	}
	raw, err := json.Marshal(status)
	require.NoError(t, err)
	assert.NotContains(t, string(raw), "10000-", "a time that nothing decodes")
	require.NoError(t, json.Unmarshal(raw, &corev1.PodStatus{}))
}

// isWithin checks that amounts are canonical, not negative, and at most some others.
func isWithin(t *testing.T, of map[string]any, most corev1.ResourceList, path ...string) {
	t.Helper()
	amounts, _, _ := unstructured.NestedStringMap(of, path...)
	for name, text := range amounts {
		bound, isKnown := most[corev1.ResourceName(name)]
		require.True(t, isKnown && len(text) < 20 && !strings.ContainsAny(text, "eE"), "%v: %s=%s", path, name, text)
		amount := resource.MustParse(text)
		assert.Equal(t, amount.String(), text, "%v: %s is canonical", path, name)
		assert.LessOrEqual(t, amount.Cmp(bound), 0, "%v: %s=%s", path, name, text)
		assert.GreaterOrEqual(t, amount.Sign(), 0, "%v: %s=%s", path, name, text)
	}
}

// Services, Ingresses and claims take nothing from their remote objects.
func (r *gateRig) testStatusesThatStay(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "shop", Name: "stays"}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: *meta.DeepCopy(), Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}}
	claim.Labels = map[string]string{offloadingv1beta1.StorageClusterLabel: "milan", offloadingv1beta1.RemoteClaimLabel: offloadingv1beta1.RemoteClaimRequested}
	claim.Annotations = map[string]string{"volume.kubernetes.io/selected-node": twoclusters.NodeName}
	backend := networkingv1.IngressServiceBackend{Name: "stays", Port: networkingv1.ServiceBackendPort{Number: 80}}
	balancer := `{"status":{"loadBalancer":{"ingress":[{"ip":"203.0.113.9","hostname":"evil.example"}]}}}`
	amount := `{"storage":"100Pi"}`
	objects := map[client.Object]string{
		&corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}}}: balancer,
		&networkingv1.Ingress{ObjectMeta: meta, Spec: networkingv1.IngressSpec{DefaultBackend: &networkingv1.IngressBackend{Service: &backend}}}:   balancer,
		claim: `{"status":{"phase":"Bound","capacity":` + amount + `,"allocatedResources":` + amount + `}}`,
	}
	for object, patch := range objects {
		remote, _ := object.DeepCopyObject().(client.Object)
		r.Create(r.Rome, object)
		r.awaitRemote(t, "shop", remote, "stays")
		planetest.Until(t, func(t planetest.T) bool {
			require.NoError(t, r.Rome.Get(t.Context(), client.ObjectKeyFromObject(object), object))
			return object.GetLabels()[offloadingv1beta1.RemoteClaimLabel] != offloadingv1beta1.RemoteClaimRequested
		}, soon, tick, "the remote claim is reported")
		before := object.GetResourceVersion()
		require.NoError(t, r.Milan.Status().Patch(t.Context(), remote, client.RawPatch(types.MergePatchType, []byte(patch))), "%T", object)
		// What comes home afterwards came through the same virtual kubelet.
		require.True(t, r.reports(t, "bank", "witness", fmt.Sprintf(`"message":"after %T"`, object)))
		r.awaitMessage(t, "bank", "witness", fmt.Sprintf("after %T", object))
		require.NoError(t, r.Rome.Get(t.Context(), client.ObjectKeyFromObject(object), object))
		assert.Equal(t, before, object.GetResourceVersion(), "%T is as it was", object)
	}
}

// An event whose time nothing decodes holds no other event.
func (r *gateRig) testHostileEvents(t *testing.T) {
	for name, at := range map[string]string{"bad": endOfYears, "good": metav1.Now().UTC().Format("2006-01-02T15:04:05Z")} {
		for namespace, of := range map[string]string{"shop": "web", "bank": "witness"} {
			pod := get(t, r.Milan, twoclusters.Remote(namespace), of)
			event := &unstructured.Unstructured{Object: map[string]any{
				"metadata":       map[string]any{"namespace": pod.Namespace, "name": "hostile." + name},
				"involvedObject": map[string]any{"apiVersion": "v1", "kind": "Pod", "namespace": pod.Namespace, "name": pod.Name, "uid": string(pod.UID)},
				"reason":         "Hostile", "message": name, "type": "Warning", "count": int64(1), "firstTimestamp": at, "lastTimestamp": at,
				"source": map[string]any{"component": "kubelet"},
			}}
			event.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Event"})
			require.NoError(t, r.Milan.Create(t.Context(), event))
		}
	}
	for _, namespace := range []string{"shop", "bank"} {
		planetest.Until(t, func(t planetest.T) bool {
			list := &corev1.EventList{}
			require.NoError(t, r.Rome.List(t.Context(), list, client.InNamespace(namespace)))
			for i := range list.Items {
				if list.Items[i].Reason == "Hostile" && list.Items[i].Message == "good" {
					return true
				}
			}
			return false
		}, soon, tick, "the good event of %s comes home", namespace)
	}
}
