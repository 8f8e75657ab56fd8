package kubelet_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
)

// testUnmanagedObjects creates objects in the remote namespace, and local objects with the same
// names afterwards.
func (r *rig) testUnmanagedObjects(t *testing.T) {
	const name = "taken"
	in := func(namespace string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: namespace, Name: name} }
	service := func(namespace, app string) *corev1.Service {
		return &corev1.Service{ObjectMeta: in(namespace), Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": app}, Ports: []corev1.ServicePort{{Port: 80}},
		}}
	}
	unmanaged := []client.Object{
		&offloadingv1beta1.ShadowPod{ObjectMeta: in("shop-rome"), Spec: offloadingv1beta1.ShadowPodSpec{Pod: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "unmanaged", Image: "example.com/unmanaged:1"}},
		}}},
		&corev1.Secret{ObjectMeta: in("shop-rome"), StringData: map[string]string{"k": "unmanaged"}},
		service("shop-rome", "unmanaged"),
	}
	r.create(r.milan, unmanaged...)
	uids := map[client.Object]string{}
	for _, object := range unmanaged {
		uids[object] = string(object.GetUID())
	}

	pod := podOn(nodeName, name)
	locals := []client.Object{pod, &corev1.Secret{ObjectMeta: in("shop"), StringData: map[string]string{"k": "local"}}, service("shop", "local")}
	r.create(r.rome, locals...)
	for _, local := range locals {
		planetest.Until(t, func(t planetest.T) bool { return r.hasEvent(t, local, "already exists") }, soon, tick, "an event on %T", local)
	}
	for _, local := range locals {
		require.NoError(t, r.rome.Delete(t.Context(), local))
	}
	r.awaitDeleted(t, r.rome, pod)

	shadow := &offloadingv1beta1.ShadowPod{}
	secret, kept := &corev1.Secret{}, &corev1.Service{}
	for i, object := range []client.Object{shadow, secret, kept} {
		require.NoError(t, r.milan.Get(t.Context(), client.ObjectKeyFromObject(unmanaged[i]), object))
		assert.Equal(t, uids[unmanaged[i]], string(object.GetUID()))
		assert.Empty(t, object.GetLabels(), "%T is not adopted", object)
		assert.Nil(t, object.GetDeletionTimestamp(), "%T is not deleted", object)
	}
	assert.Equal(t, "unmanaged", shadow.Spec.Pod.Containers[0].Name)
	assert.Equal(t, "unmanaged", string(secret.Data["k"]))
	assert.Equal(t, map[string]string{"app": "unmanaged"}, kept.Spec.Selector)
	for _, object := range unmanaged {
		require.NoError(t, r.milan.Delete(t.Context(), object))
	}
}

// hasEvent reports whether an event about a failed reflection of the object contains the words.
func (r *rig) hasEvent(t planetest.T, object client.Object, words string) bool {
	t.Helper()
	events := &corev1.EventList{}
	require.NoError(t, r.rome.List(t.Context(), events, client.InNamespace(object.GetNamespace())))
	for i := range events.Items {
		event := &events.Items[i]
		if event.InvolvedObject.UID == object.GetUID() && event.Reason == engine.ReasonFailedReflection && strings.Contains(event.Message, words) {
			return true
		}
	}
	return false
}
