package planner_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/pod"
	"github.com/longshore-dev/longshore/host/planner"
)

// diagnosed is a row: what is observed, and the diagnosis; an empty message for none.
type diagnosed struct {
	observe func(*planner.Observed)
	stage   planner.Stage
	reason  string
	who     string
	message string
}

func conditions(kind corev1.PodConditionType, status corev1.ConditionStatus, reason, message string) []corev1.PodCondition {
	return []corev1.PodCondition{{Type: kind, Status: status, Reason: reason, Message: message}}
}
func waiting(reason, message string) []corev1.ContainerStatus {
	return []corev1.ContainerStatus{{Name: "web", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}}
}

// sent is a pod on a ready virtual node whose remote pod exists.
func sent(o *planner.Observed) {
	o.Pod.Spec.NodeName = "milan"
	o.Node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "milan", Labels: map[string]string{offloadingv1beta1.NodeTypeLabel: offloadingv1beta1.NodeTypeVirtual}}}
	o.Node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	o.KnowsMapping, o.Mapping = true, &offloadingv1beta1.RemoteNamespaceStatus{RemoteNamespace: "shop-rome", Phase: offloadingv1beta1.MappingAccepted}
	o.Provider, o.ShadowPod, o.RemotePod = true, &offloadingv1beta1.ShadowPod{}, &corev1.Pod{}
}

func checkDiagnoses(t *testing.T, rows map[string]diagnosed) {
	t.Helper()
	for name, tc := range rows {
		t.Run(name, func(t *testing.T) {
			o := planner.Observed{Pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Status: corev1.PodStatus{Phase: corev1.PodPending}}, Offloading: &offloadingv1beta1.NamespaceOffloading{}}
			o.Pod.Spec.Containers = []corev1.Container{{Name: "web"}}
			tc.observe(&o)
			found := planner.Diagnose(o)
			if tc.message == "" {
				assert.Nil(t, found)
				return
			}
			require.NotNil(t, found)
			assert.Equal(t, tc.stage, found.Stage)
			assert.Equal(t, tc.reason, found.Reason.Reason)
			assert.Equal(t, tc.who, found.Who)
			assert.Contains(t, found.Message, tc.message)
		})
	}
}

func TestTheFirstThingThatIsWrongBeforeAPodIsSent(t *testing.T) {
	checkDiagnoses(t, map[string]diagnosed{
		"it runs": {observe: func(o *planner.Observed) {
			sent(o)
			o.Pod.Status.Phase, o.Pod.Status.Conditions = corev1.PodRunning, conditions(corev1.PodReady, corev1.ConditionTrue, "", "")
		}},
		"it has ended": {observe: func(o *planner.Observed) { o.Pod.Status.Phase = corev1.PodSucceeded }},
		"it has succeeded, and the provider holds it": {func(o *planner.Observed) {
			o.Pod.Status.Phase = corev1.PodSucceeded
			o.Pod.DeletionTimestamp = &metav1.Time{Time: time.Date(2026, 11, 21, 7, 0, 0, 0, time.UTC)}
			o.ShadowPod = &offloadingv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Name: "web", DeletionTimestamp: o.Pod.DeletionTimestamp, Finalizers: []string{"example.com/backup"}}}
		}, planner.Running, pod.ReasonRemoteFinalizers, planner.ProviderOperator, "example.com/backup"},
		"it is being deleted": {func(o *planner.Observed) {
			sent(o)
			o.Pod.DeletionTimestamp, o.Pod.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Date(2026, 11, 21, 7, 0, 30, 0, time.UTC)}, ptr.To[int64](30)
		}, planner.Running, planner.ReasonDeleting, planner.Owner, "is being deleted since 2026-11-21 07:00:00"},
		"a scheduling gate":      {func(o *planner.Observed) { o.Pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "quota"}} }, planner.Scheduling, "SchedulingGated", planner.Owner, `gate "quota"`},
		"no node, not offloaded": {func(o *planner.Observed) { o.Offloading = nil }, planner.Scheduling, planner.ReasonNamespaceNotOffloaded, planner.Operator, "has no NamespaceOffloading"},
		"no node takes it": {func(o *planner.Observed) {
			o.Pod.Status.Conditions = conditions(corev1.PodScheduled, corev1.ConditionFalse, "Unschedulable", "0/1 nodes are available")
		}, planner.Scheduling, "Unschedulable", planner.Owner, "0/1 nodes are available"},
		"the scheduler has not looked": {func(*planner.Observed) {}, planner.Scheduling, planner.ReasonNotScheduled, planner.Operator, "has not decided"},
		"the virtual node is down": {func(o *planner.Observed) {
			sent(o)
			o.Node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Reason: "NodeStatusUnknown", Message: "Kubelet stopped posting node status."}}
		}, planner.VirtualNode, "NodeStatusUnknown", planner.Operator, "stopped posting"},
		"the provider does not answer": {func(o *planner.Observed) {
			sent(o)
			o.Node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Message: "Kubelet stopped posting node status."}}
			o.Peer = &liqocorev1beta1.ForeignCluster{Spec: liqocorev1beta1.ForeignClusterSpec{ClusterID: "milan"}}
			o.Peer.Status.Conditions = []liqocorev1beta1.Condition{{Type: liqocorev1beta1.APIServerStatusCondition, Status: liqocorev1beta1.ConditionStatusError, Message: "i/o timeout"}}
		}, planner.VirtualNode, planner.ReasonProviderUnreachable, planner.Operator, `The API server of cluster "milan" does not answer, so virtual node "milan" is not ready. i/o timeout`},
		"the namespace is not mapped": {func(o *planner.Observed) { sent(o); o.Mapping = nil }, planner.Mapping, "OffloadingBackOff", planner.Operator, `Namespace "shop" is not offloaded`},
		"the provider creates none": {func(o *planner.Observed) {
			sent(o)
			o.Mapping.Phase, o.Mapping.Message = offloadingv1beta1.MappingCreationLoopBackOff, "it is taken"
		}, planner.Mapping, "CreationLoopBackOff", planner.ProviderOperator, "it is taken"},
		"the provider withdraws the namespace": {func(o *planner.Observed) {
			sent(o)
			o.Mapping.Phase = offloadingv1beta1.MappingTerminating
		}, planner.Mapping, "Terminating", planner.ProviderOperator, `deletes namespace "shop-rome": it does not say what keeps it`},
		"the provider says nothing": {func(o *planner.Observed) {
			sent(o)
			o.Mapping.Phase = offloadingv1beta1.MappingCreationLoopBackOff
		}, planner.Mapping, "CreationLoopBackOff", planner.ProviderOperator, "it gives no reason"},
		"the provider deletes the namespace": {func(o *planner.Observed) {
			sent(o)
			o.Mapping.Message = "Ask for it again."
		}, planner.Mapping, "RemoteNamespaceTerminating", planner.ProviderOperator, `deletes namespace "shop-rome", and all pods in it: Ask for it again.`},
	})
}

func TestTheFirstThingThatIsWrongOnTheWayAndInTheProvider(t *testing.T) {
	checkDiagnoses(t, map[string]diagnosed{
		"a policy denies it": {func(o *planner.Observed) {
			sent(o)
			o.Pod.Status.Reason, o.Pod.Status.Message = "OffloadingDenied", "NotToday"
		}, planner.Forging, "OffloadingDenied", planner.Owner, "NotToday"},
		"a policy fails": {func(o *planner.Observed) { sent(o); o.Pod.Status.Reason, o.Pod.Status.Message = "PolicyFailed", "Trap" }, planner.Forging, "PolicyFailed", "the author of the policy", "Trap"},
		"the provider refuses it": {func(o *planner.Observed) {
			sent(o)
			o.Pod.Status.Reason, o.Pod.Status.Message = "RemotePodRefused", "quota"
		}, planner.Creating, "RemotePodRefused", planner.ProviderOperator, "quota"},
		"it is of a DaemonSet whose namespace is not offloaded": {func(o *planner.Observed) {
			sent(o)
			o.Mapping, o.ShadowPod, o.RemotePod = nil, nil, nil
			o.Pod.Status.Reason, o.Pod.Status.Message = "DaemonSetNotOffloaded", "Add an affinity."
		}, planner.Mapping, "DaemonSetNotOffloaded", planner.Operator, "Add an affinity."},
		"it was not sent": {func(o *planner.Observed) { sent(o); o.ShadowPod, o.RemotePod = nil, nil }, planner.Forging, planner.ReasonNotSent, planner.Operator, "has not sent"},
		"the provider cannot create it": {func(o *planner.Observed) {
			sent(o)
			o.ShadowPod.Status.Reason, o.ShadowPod.Status.Message = "FailedCreatePod", "forbidden"
		}, planner.Creating, "FailedCreatePod", planner.ProviderOperator, "forbidden"},
		"the provider has not created": {func(o *planner.Observed) { sent(o); o.RemotePod = nil }, planner.Creating, planner.ReasonNotCreated, planner.ProviderOperator, "has not created the pod"},
		"the provider has no node, seen from here": {func(o *planner.Observed) {
			sent(o)
			o.Provider, o.ShadowPod, o.RemotePod = false, nil, nil
			o.Pod.Status.Conditions = conditions(corev1.PodScheduled, corev1.ConditionFalse, "Unschedulable", "Insufficient memory")
		}, planner.ProviderScheduling, "Unschedulable", planner.ProviderOperator, "No node of the provider takes the pod: Insufficient memory"},
		"the provider has no node": {func(o *planner.Observed) {
			sent(o)
			o.RemotePod.Status.Conditions = conditions(corev1.PodScheduled, corev1.ConditionFalse, "Unschedulable", "Insufficient memory")
		}, planner.ProviderScheduling, "Unschedulable", planner.ProviderOperator, "Insufficient memory"},
		"the provider lost the volume": {func(o *planner.Observed) {
			sent(o)
			o.Pod.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
			o.ShadowPod.Spec.Pod.Volumes = o.Pod.Spec.Volumes
			o.RemotePod.Status.Conditions = conditions(corev1.PodScheduled, corev1.ConditionFalse, "Unschedulable", `persistentvolumeclaim "data" not found`)
			o.Facts.Inventory = planner.NewInventory(true)
			o.Facts.Inventory.AddClaim(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data", Labels: map[string]string{"storage.longshore.dev/remote-claim": "Lost"}}})
			o.Events = []corev1.Event{{Type: corev1.EventTypeWarning, Reason: "RemoteClaimLost", Message: "Message.", InvolvedObject: corev1.ObjectReference{Kind: "PersistentVolumeClaim", Name: "data"}, Count: 1}}
		}, planner.ProviderScheduling, planner.ReasonVolumeLost, planner.Owner, "kubectl delete -n shop persistentvolumeclaim/data pod/web. The claim says: Warning RemoteClaimLost (1 times"},
		"an image is not pulled": {func(o *planner.Observed) {
			sent(o)
			o.RemotePod.Status.ContainerStatuses = waiting("ImagePullBackOff", "not found")
		}, planner.Running, "ImagePullBackOff", planner.Owner, `Container "web" waits: not found`},
		"the same, seen from here": {func(o *planner.Observed) {
			sent(o)
			o.Provider, o.ShadowPod, o.RemotePod = false, nil, nil
			o.Pod.Status.ContainerStatuses = waiting("CreateContainerConfigError", `configmap "none" not found`)
		}, planner.Running, "CreateContainerConfigError", planner.Owner, `configmap "none" not found`},
		"nothing reports a cause": {sent, planner.Running, planner.ReasonNotReady, planner.Owner, "neither cluster reports a cause"},
		"it has failed": {func(o *planner.Observed) {
			sent(o)
			o.RemotePod.Status.Phase, o.RemotePod.Status.Reason, o.RemotePod.Status.Message = corev1.PodFailed, "Evicted", "low on memory"
		}, planner.Running, "Evicted", planner.Owner, "low on memory"},
		"a container that the provider added has failed": {func(o *planner.Observed) {
			sent(o)
			o.RemotePod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "web"}, {Name: "proxy", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3}}}}
		}, planner.Running, planner.ReasonError, planner.ProviderOperator, `Container "proxy", which is not in the spec of the pod and was added to the remote pod, ended with exit code 3`},
		"a container has failed": {func(o *planner.Observed) {
			sent(o)
			o.RemotePod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "web", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3}}}}
		}, planner.Running, planner.ReasonError, planner.Owner, "exit code 3"},
	})
}
