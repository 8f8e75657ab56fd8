package virtualnode

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/virtualkubelet"
)

func ownNode(status corev1.ConditionStatus, message string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "mynode", Labels: map[string]string{
		offloadingv1beta1.NodeTypeLabel: offloadingv1beta1.NodeTypeVirtual, liqocorev1beta1.RemoteClusterIDLabel: "milan",
	}}}
	if status != "" {
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, Message: message}}
	}
	return node
}

// neverPublished returns a Node whose status was set by kube-controller-manager only.
func neverPublished() *corev1.Node {
	node := ownNode(corev1.ConditionUnknown, "Kubelet never posted node status.")
	node.Status.Conditions[0].Reason = neverUpdated
	return node
}

func TestReportConditions(t *testing.T) {
	for name, tc := range map[string]struct {
		replicas int32
		node     *corev1.Node
		want     string
	}{
		"no virtual kubelet, a new Node":                      {want: "Creating: no replica of the virtual kubelet is available yet"},
		"a virtual kubelet that has not published the status": {replicas: 1, want: "Creating: the virtual kubelet has not published the Node's status: it waits for the provider, see the events of this VirtualNode"},
		"a Node that is ready":                                {1, ownNode(corev1.ConditionTrue, "Pods are offloaded"), "Running: "},
		"a Node that is not ready":                            {1, ownNode(corev1.ConditionUnknown, "Kubelet stopped posting node status."), "Running: the Node is not ready: Kubelet stopped posting node status."},
		"a Node whose status was never published":             {1, neverPublished(), "Creating: the virtual kubelet has not published the Node's status"},
		"a ready Node without a virtual kubelet":              {0, ownNode(corev1.ConditionTrue, ""), "Running: no replica of the virtual kubelet is available"},
		"an unmanaged Node": {1, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "mynode"}},
			`Creating: Node "mynode" exists and is not a virtual node of cluster "milan": delete this VirtualNode and create it under another name`},
	} {
		t.Run(name, func(t *testing.T) {
			vn := virtualNode(nil)
			deployment, err := virtualkubelet.Deployment(vn)
			require.NoError(t, err)
			deployment.Status.AvailableReplicas = tc.replicas
			existing := append(peered(kubeconfig), deployment)
			if tc.node != nil {
				existing = append(existing, tc.node)
			}
			w := pass(t, vn, existing...)
			if tc.want == "Running: " {
				assert.Equal(t, tc.want, conditions(w.vn)["Node"])
			}
			assert.Contains(t, conditions(w.vn)["Node"], tc.want)
			assert.Equal(t, tc.replicas > 0, conditions(w.vn)["VirtualKubelet"] == "Running: ")
		})
	}
	t.Run("createNode is false", func(t *testing.T) {
		vn := virtualNode(func(vn *offloadingv1beta1.VirtualNode) { vn.Spec.CreateNode = ptr.To(false) })
		assert.Equal(t, "None: ", conditions(pass(t, vn, peered(kubeconfig)...).vn)["Node"])
	})
}

func TestNodeChanges(t *testing.T) {
	ready := ownNode(corev1.ConditionTrue, "")
	for name, tc := range map[string]struct {
		now  *corev1.Node
		want bool
	}{
		"a heartbeat":                      {ownNode(corev1.ConditionTrue, ""), false},
		"not ready":                        {ownNode(corev1.ConditionFalse, ""), true},
		"another message, ready as before": {ownNode(corev1.ConditionTrue, "changed"), false},
		"published for the first time":     {neverPublished(), true},
		"another owner":                    {&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "mynode"}, Status: ready.Status}, true},
	} {
		t.Run(name, func(t *testing.T) {
			tc.now.ResourceVersion = "2"
			assert.Equal(t, tc.want, nodeChanges().Update(event.UpdateEvent{ObjectOld: ready, ObjectNew: tc.now}))
		})
	}
	assert.True(t, nodeChanges().Create(event.CreateEvent{Object: ready}))
	assert.True(t, nodeChanges().Delete(event.DeleteEvent{Object: ready}))

	other := virtualNode(func(vn *offloadingv1beta1.VirtualNode) { vn.Name, vn.UID = "other", "vn-2" })
	w := pass(t, virtualNode(nil), append(peered(kubeconfig), other)...)
	requests := (&Reconciler{Client: w.Client}).requestsForNode(t.Context(), ready)
	require.Len(t, requests, 1)
	assert.Equal(t, client.ObjectKey{Namespace: "liqo-tenant-milan", Name: "mynode"}, requests[0].NamespacedName)
}

func TestClusterChanges(t *testing.T) {
	cluster := func(id string, lost bool, status liqocorev1beta1.ConditionStatusType) *liqocorev1beta1.ForeignCluster {
		fc := &liqocorev1beta1.ForeignCluster{Spec: liqocorev1beta1.ForeignClusterSpec{ClusterID: liqocorev1beta1.ClusterID(id)}}
		if lost {
			fc.Annotations = map[string]string{liqocorev1beta1.PermanentlyUnreachableAnnotation: "true"}
		}
		fc.Status.Conditions = []liqocorev1beta1.Condition{{Type: liqocorev1beta1.APIServerStatusCondition, Status: status}}
		return fc
	}
	const up, down = liqocorev1beta1.ConditionStatusEstablished, liqocorev1beta1.ConditionStatusError
	for name, tc := range map[string]struct {
		before, after *liqocorev1beta1.ForeignCluster
		want          bool
	}{
		"another status":                        {cluster("milan", false, up), cluster("milan", false, down), false},
		"declared lost while it can be reached": {cluster("milan", false, up), cluster("milan", true, up), false},
		"declared lost":                         {cluster("milan", false, down), cluster("milan", true, down), true},
		"lost after it was declared lost":       {cluster("milan", true, up), cluster("milan", true, down), true},
		"its ID is set":                         {cluster("", false, up), cluster("milan", false, up), true},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tc.want, clusterChanges().Update(event.UpdateEvent{ObjectOld: tc.before, ObjectNew: tc.after}))
		})
	}
	assert.True(t, clusterChanges().Create(event.CreateEvent{Object: cluster("milan", false, up)}))
	assert.True(t, clusterChanges().Delete(event.DeleteEvent{Object: cluster("milan", false, up)}))
}
