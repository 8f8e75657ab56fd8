package rig_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	"github.com/longshore-dev/longshore/hack/demo/rig"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/local"
	"github.com/longshore-dev/longshore/host/forge/virtualkubelet"
)

// accesses lists the RoleBindings of virtual kubelets in a namespace, or in all for "".
func accesses(t planetest.T, r *rig.Rig, namespace string) []rbacv1.RoleBinding {
	t.Helper()
	list := &rbacv1.RoleBindingList{}
	require.NoError(t, r.Rome.List(t.Context(), list, client.InNamespace(namespace)))
	var found []rbacv1.RoleBinding
	for _, binding := range list.Items {
		if binding.RoleRef.Name == virtualkubelet.NamespaceRole {
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
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: pod.Namespace}}
	require.NoError(t, r.Rome.Create(t.Context(), namespace))
	createPod(t, r, pod)
	eventually(t, "its status has the reason why it does not run", func(t planetest.T) bool {
		require.NoError(t, r.Rome.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))
		return pod.Status.Reason == offloadingv1beta1.OffloadingBackOffReason
	})
	assert.Contains(t, pod.Status.Message, "Namespace aside is not offloaded to cluster milan")
	assert.Empty(t, accesses(t, r, pod.Namespace), "a pod on the virtual node gives no access")
	require.NoError(t, r.Rome.Delete(t.Context(), pod))
	eventually(t, "the pod is gone", func(t planetest.T) bool { return isGone(t, r, pod) })
	daemonSetKeptOff(t, r, pod.Namespace)
	require.NoError(t, r.Rome.Delete(t.Context(), namespace))
}

// daemonSetKeptOff creates a DaemonSet that tolerates every taint, in a namespace that is not
// offloaded, and then changes it as the status of its pod on the virtual node says.
func daemonSetKeptOff(t *testing.T, r *rig.Rig, namespace string) {
	t.Helper()
	labels := map[string]string{"app": "agent"}
	daemon := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "agent", Namespace: namespace},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				Containers:  []corev1.Container{{Name: "agent", Image: "shop.example/agent:1"}},
				Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
				// The containers of other nodes of rome are processes of known programs.
				NodeSelector: map[string]string{offloadingv1beta1.NodeTypeLabel: offloadingv1beta1.NodeTypeVirtual},
			}},
		},
	}
	require.NoError(t, r.Rome.Create(t.Context(), daemon))
	var first types.UID
	eventually(t, "the status of its pod on the virtual node has the reason why it does not run", func(t planetest.T) bool {
		all := pods(t, r.Rome, namespace, labels)
		if len(all) != 1 || all[0].Status.Reason != local.DaemonSetNotOffloadedReason {
			return false
		}
		first = all[0].UID
		return assert.Equal(t, "DaemonSet agent tolerates the taints of virtual node milan, and namespace "+namespace+" is not offloaded to cluster milan. "+
			"To keep the DaemonSet off virtual nodes, add a required node affinity to its template: key liqo.io/type, operator NotIn, value virtual-node.", all[0].Status.Message)
	})
	eventually(t, "an event has it too", func(t planetest.T) bool {
		list := &eventsv1.EventList{}
		require.NoError(t, r.Rome.List(t.Context(), list, client.InNamespace(namespace)))
		for i := range list.Items {
			if event := &list.Items[i]; event.Regarding.UID == first && strings.Contains(event.Note, "To keep the DaemonSet off virtual nodes") {
				return true
			}
		}
		return false
	})
	all := pods(t, r.Rome, namespace, labels)
	require.Len(t, all, 1)
	assert.Equal(t, first, all[0].UID, "the controller of DaemonSets does not replace the pod")

	before := daemon.DeepCopy()
	daemon.Spec.Template.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{
			Key: offloadingv1beta1.NodeTypeLabel, Operator: corev1.NodeSelectorOpNotIn, Values: []string{offloadingv1beta1.NodeTypeVirtual},
		}}}},
	}}}
	require.NoError(t, r.Rome.Patch(t.Context(), daemon, client.MergeFrom(before)))
	eventually(t, "it has no pod on the virtual node", func(t planetest.T) bool { return len(pods(t, r.Rome, namespace, labels)) == 0 })
	require.NoError(t, r.Rome.Delete(t.Context(), daemon))
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
