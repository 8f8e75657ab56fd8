package kubelet_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// sliceOfWeb returns an EndpointSlice of Service "web" with an endpoint on each kind of node.
func sliceOfWeb() *discoveryv1.EndpointSlice {
	endpoint := func(address string, node *string) discoveryv1.Endpoint {
		return discoveryv1.Endpoint{
			Addresses: []string{address}, NodeName: node, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true), Serving: ptr.To(true)},
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: "web-" + address},
		}
	}
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "shop", Name: "web-1", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To("http"), Port: ptr.To[int32](8080)}},
		Endpoints: []discoveryv1.Endpoint{
			endpoint("10.1.0.1", ptr.To("rome-worker")), endpoint("10.1.0.2", ptr.To(nodeName)),
			endpoint("10.1.0.3", ptr.To("late-worker")), endpoint("203.0.113.1", nil),
		},
	}
}

// An EndpointSlice of the consumer becomes an EndpointSlice in the provider and follows its
// source.
func TestEndpointsOfTheConsumerAreInTheProvider(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.runManager()
	node := func(name string) *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}} }
	// Without selector, so that no controller of the consumer makes EndpointSlices.
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}
	r.create(r.rome, virtualNode(), r.secret(r.kubeconfig), node("rome-worker"), service, sliceOfWeb())
	r.mapNamespace()
	r.runKubelet(r.options())

	key := client.ObjectKey{Namespace: "shop-rome", Name: "web-1"}
	slice := &discoveryv1.EndpointSlice{}
	await := func(what string, addresses ...string) {
		t.Helper()
		planetest.Until(t, func(t planetest.T) bool {
			if err := r.milan.Get(t.Context(), key, slice); err != nil {
				require.True(t, apierrors.IsNotFound(err), "%v", err)
				return false
			}
			var got []string
			for i := range slice.Endpoints {
				got = append(got, slice.Endpoints[i].Addresses...)
			}
			return assert.ObjectsAreEqual(addresses, got)
		}, soon, tick, what)
	}
	await("endpoints of the provider and of unknown nodes are left out", "10.1.0.1", "203.0.113.1")
	assert.Equal(t, map[string]string{
		discoveryv1.LabelServiceName: "web", discoveryv1.LabelManagedBy: "endpointslice.reflection.liqo.io",
		offloadingv1beta1.OriginLabel: "rome", offloadingv1beta1.DestinationLabel: "milan",
		offloadingv1beta1.ManagedByLabel: offloadingv1beta1.ManagedByShadowEndpointSlice,
	}, slice.Labels)
	assert.Equal(t, discoveryv1.Endpoint{
		Addresses: []string{"10.1.0.1"}, NodeName: ptr.To("rome"), Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true), Serving: ptr.To(true)},
		TargetRef: &corev1.ObjectReference{Kind: "RemotePod", Namespace: "shop", Name: "web-10.1.0.1"},
	}, slice.Endpoints[0])

	r.create(r.rome, node("late-worker"))
	await("a node that appears brings its endpoints", "10.1.0.1", "10.1.0.3", "203.0.113.1")

	terminating := sliceOfWeb()
	terminating.Endpoints = terminating.Endpoints[:1]
	terminating.Endpoints[0].Conditions = discoveryv1.EndpointConditions{Ready: ptr.To(false), Serving: ptr.To(true), Terminating: ptr.To(true)}
	require.NoError(t, r.rome.Update(t.Context(), terminating))
	await("removed endpoints are removed", "10.1.0.1")
	assert.Equal(t, terminating.Endpoints[0].Conditions, slice.Endpoints[0].Conditions, "T44")

	t.Run("the reflection policy is that of the Service", func(t *testing.T) { r.testSliceFollowsService(t, key, service) })

	require.NoError(t, r.rome.Delete(t.Context(), sliceOfWeb()))
	planetest.Until(t, func(t planetest.T) bool { return !r.hasShadow(t, key) }, soon, tick, "a deleted slice is withdrawn")
}

func (r *rig) hasShadow(t planetest.T, key client.ObjectKey) bool {
	t.Helper()
	err := r.milan.Get(t.Context(), key, &offloadingv1beta1.ShadowEndpointSlice{})
	if !apierrors.IsNotFound(err) {
		require.NoError(t, err)
	}
	return err == nil
}

func (r *rig) testSliceFollowsService(t *testing.T, key client.ObjectKey, service *corev1.Service) {
	annotate := func(object client.Object, annotation, value string) {
		t.Helper()
		patch := `{"metadata":{"annotations":{"` + annotation + `":` + value + `}}}`
		require.NoError(t, r.rome.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, []byte(patch))))
	}
	annotate(service, offloadingv1beta1.SkipReflectionAnnotation, `"true"`)
	planetest.Until(t, func(t planetest.T) bool { return !r.hasShadow(t, key) }, soon, tick, "the slice of a skipped Service is withdrawn")
	annotate(sliceOfWeb(), offloadingv1beta1.AllowReflectionAnnotation, `"true"`)
	planetest.Until(t, func(t planetest.T) bool { return r.hasShadow(t, key) }, soon, tick, "a slice that is allowed is sent")
	annotate(sliceOfWeb(), offloadingv1beta1.AllowReflectionAnnotation, `null`)
	planetest.Until(t, func(t planetest.T) bool { return !r.hasShadow(t, key) }, soon, tick, "without the annotation it is withdrawn again")
	annotate(service, offloadingv1beta1.SkipReflectionAnnotation, `null`)
	planetest.Until(t, func(t planetest.T) bool { return r.hasShadow(t, key) }, soon, tick, "the slice of a reflected Service is sent")
}
