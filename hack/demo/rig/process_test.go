package rig_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/virtualkubelet"
)

// processLines moves an existing virtual node to a shared process and back, with the rights of the
// chart. The remote pod stays.
func processLines(t *testing.T, s *shell) {
	const name = "moved"
	rome, milan := s.rig.Rome, s.rig.Milan
	require.NoError(t, rome.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	s.ok(t, "offload namespace "+name+" --pod-offloading-strategy Remote --kubeconfig @rome --timeout 4m")
	web := pod("web")
	web.Namespace = name
	require.NoError(t, rome.Create(t.Context(), web))
	var uid types.UID
	eventually(t, "the pod runs in milan", func(t planetest.T) bool {
		all := pods(t, milan, name+"-rome", nil)
		if len(all) != 1 || all[0].Status.Phase != corev1.PodRunning {
			return false
		}
		uid = all[0].UID
		return true
	})
	reader := startHowTos(t, s.rig)
	for _, process := range []string{offloadingv1beta1.ProcessShared, offloadingv1beta1.ProcessOwn} {
		isShared := process == offloadingv1beta1.ProcessShared
		if isShared {
			reader.follows(t, "docs/howto/share-a-process.md", "## Move existing virtual nodes")
		} else {
			reader.follows(t, "docs/howto/share-a-process.md", "## Move one back")
		}
		vn := &offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: tenantInRome, Name: "milan"}}
		eventually(t, "the only virtual kubelet is a process of the kind "+process+" and is available", func(t planetest.T) bool {
			list := &appsv1.DeploymentList{}
			require.NoError(t, rome.List(t.Context(), list, client.InNamespace(tenantInRome)))
			return len(list.Items) == 1 && list.Items[0].Status.AvailableReplicas > 0 && strings.HasPrefix(list.Items[0].Name, virtualkubelet.SharedPrefix) == isShared
		})
		eventually(t, "the VirtualNode reports that it runs", func(t planetest.T) bool {
			require.NoError(t, rome.Get(t.Context(), client.ObjectKeyFromObject(vn), vn))
			for _, condition := range vn.Status.Conditions {
				if condition.Status != offloadingv1beta1.RunningConditionStatusType || condition.Message != "" {
					return false
				}
			}
			return len(vn.Status.Conditions) > 0 && (vn.Annotations[offloadingv1beta1.SharedProcessKey] != "") == isShared
		})
		require.NoError(t, rome.WaitForNode(t.Context(), "milan", quiet))
		// A change that the new process reflects.
		eventually(t, "the pod's labels are reflected by the process of the kind "+process, func(t planetest.T) bool {
			patch := `{"metadata":{"labels":{"process":"` + process + `"}}}`
			require.NoError(t, rome.Patch(t.Context(), web, client.RawPatch(types.MergePatchType, []byte(patch))))
			all := pods(t, milan, name+"-rome", map[string]string{"process": process})
			return len(all) == 1 && all[0].UID == uid
		})
	}
	s.ok(t, "unoffload namespace "+name+" --kubeconfig @rome --skip-confirm")
	require.NoError(t, rome.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
}
