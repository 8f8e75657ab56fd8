package rig_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	"github.com/longshore-dev/longshore/hack/demo/rig"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/virtualnode"
)

// accesses lists the RoleBindings of virtual kubelets in a namespace, or in all for "".
func accesses(t planetest.T, r *rig.Rig, namespace string) []rbacv1.RoleBinding {
	t.Helper()
	list := &rbacv1.RoleBindingList{}
	require.NoError(t, r.Rome.List(t.Context(), list, client.InNamespace(namespace)))
	var found []rbacv1.RoleBinding
	for _, binding := range list.Items {
		if binding.RoleRef.Name == virtualnode.NamespaceRole {
			found = append(found, binding)
		}
	}
	return found
}

// podOn is a pod that was bound to the virtual node by its author, or a DaemonSet.
func podOn(namespace string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "bound", Namespace: namespace},
		Spec: corev1.PodSpec{
			NodeName: rig.Node, Containers: []corev1.Container{{Name: "c", Image: "pause"}},
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		},
	}
}

func createPod(t *testing.T, r *rig.Rig, pod *corev1.Pod) {
	t.Helper()
	// The service account of a new namespace takes a moment.
	eventually(t, "the pod can be created", func(t planetest.T) bool {
		return client.IgnoreAlreadyExists(r.Rome.Create(t.Context(), pod.DeepCopy())) == nil
	})
}

func isGone(t planetest.T, r *rig.Rig, object client.Object) bool {
	t.Helper()
	return apierrors.IsNotFound(r.Rome.Get(t.Context(), client.ObjectKeyFromObject(object), object))
}

// podsElsewhere are on the virtual node in a namespace that was never offloaded, where the
// virtual kubelet has no rights.
func podsElsewhere(t *testing.T, r *rig.Rig) {
	pod := podOn("aside")
	require.NoError(t, r.Rome.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: pod.Namespace}}))
	createPod(t, r, pod)
	eventually(t, "its status has the reason why it does not run", func(t planetest.T) bool {
		require.NoError(t, r.Rome.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))
		return pod.Status.Reason == offloadingv1beta1.OffloadingBackOffReason
	})
	assert.Contains(t, pod.Status.Message, "Namespace aside is not offloaded to cluster milan")
	assert.Empty(t, accesses(t, r, pod.Namespace), "a pod on the virtual node gives no access")
	require.NoError(t, r.Rome.Delete(t.Context(), pod))
	eventually(t, "the pod is gone", func(t planetest.T) bool { return isGone(t, r, pod) })
}

// namespaceGoes deletes an offloaded namespace with a running pod: RoleBindings go before
// pods, and the virtual kubelet still has to confirm the pod's end.
func namespaceGoes(t *testing.T, r *rig.Rig) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	pod := podOn("bazaar")
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: pod.Namespace}}
	require.NoError(t, r.Rome.Create(ctx, namespace))
	require.NoError(t, r.Rome.Offload(ctx, pod.Namespace, offloadingv1beta1.LocalAndRemotePodOffloadingStrategyType, quiet))
	require.Len(t, accesses(t, r, pod.Namespace), 1)
	createPod(t, r, pod)
	eventually(t, "the pod runs", func(t planetest.T) bool {
		require.NoError(t, r.Rome.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))
		return pod.Status.Phase == corev1.PodRunning
	})
	require.NoError(t, r.Rome.Delete(ctx, namespace))
	eventually(t, "the namespace is gone", func(t planetest.T) bool { return isGone(t, r, namespace) })
	eventually(t, "the remote namespace is gone", func(t planetest.T) bool {
		return apierrors.IsNotFound(r.Milan.Get(t.Context(), client.ObjectKey{Name: "bazaar-rome"}, &corev1.Namespace{}))
	})
}
