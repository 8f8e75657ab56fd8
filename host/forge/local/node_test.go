package local_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/local"
	"github.com/longshore-dev/longshore/host/internal/testkit/hostile"
)

func virtualNode(hard corev1.ResourceList) *offloadingv1beta1.VirtualNode {
	return &offloadingv1beta1.VirtualNode{
		ObjectMeta: metav1.ObjectMeta{Name: "milan-1", Namespace: "liqo-tenant-milan"},
		Spec: offloadingv1beta1.VirtualNodeSpec{
			ClusterID: "milan", ResourceQuota: corev1.ResourceQuotaSpec{Hard: hard},
		},
	}
}

func capacity() corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi")}
}

func TestNodeOfAPlainVirtualNode(t *testing.T) {
	node := local.Node(local.NodeInput{
		VirtualNode: virtualNode(capacity()), NodeIP: "127.0.0.9", KubeletPort: 10250, KubeletVersion: "v1.37.0", Now: now,
	})
	assert.Equal(t, map[string]string{
		"kubernetes.io/hostname": "milan-1", "kubernetes.io/role": "agent", "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
		"liqo.io/type": "virtual-node", "type": "virtual-kubelet", "liqo.io/remote-cluster-id": "milan",
		"node.kubernetes.io/exclude-from-external-load-balancers": "true",
		"alpha.service-controller.kubernetes.io/exclude-balancer": "true", "storage.liqo.io/available": "false",
	}, node.Labels)
	assert.Equal(t, []corev1.Taint{{Key: "virtual-node.liqo.io/not-allowed", Value: "true", Effect: corev1.TaintEffectNoExecute}}, node.Spec.Taints)
	assert.Equal(t, capacity(), node.Status.Capacity)
	assert.Equal(t, capacity(), node.Status.Allocatable)
	assert.Equal(t, []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.9"}}, node.Status.Addresses)
	assert.Equal(t, int32(10250), node.Status.DaemonEndpoints.KubeletEndpoint.Port)
	assert.Equal(t, corev1.NodeSystemInfo{KubeletVersion: "v1.37.0", OperatingSystem: "Linux", Architecture: "amd64"}, node.Status.NodeInfo)
	assert.Empty(t, node.Spec.ProviderID)
}

func TestANodeHasNoHostileCapacity(t *testing.T) {
	amounts := hostile.Quantities()
	amounts["9Ei"] = resource.MustParse("9Ei") // The scheduler's numbers overflow.
	for text, amount := range amounts {
		hard := capacity()
		hard["example.com/gpu"] = amount
		node := local.Node(local.NodeInput{VirtualNode: virtualNode(hard), Now: now})
		assert.Equal(t, capacity(), node.Status.Capacity, "%.30s", text)
		assert.Equal(t, capacity(), node.Status.Allocatable, "%.30s", text)
	}
}

func TestNodeMetadata(t *testing.T) {
	vn := virtualNode(capacity())
	vn.Spec.Labels = map[string]string{
		"zone": "vn", "kubernetes.io/arch": "arm64", "liqo.io/type": "mine", "kubernetes.io/hostname": "mine",
		"type": "mine", "liqo.io/remote-cluster-id": "mine",
	}
	vn.Spec.Annotations = map[string]string{"a": "vn"}
	vn.Spec.Taints = []corev1.Taint{
		{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}, {Key: "gpu", Value: "again", Effect: corev1.TaintEffectNoSchedule},
		{Key: "gpu", Effect: corev1.TaintEffectNoExecute},
		{Key: "virtual-node.liqo.io/not-allowed", Value: "no", Effect: corev1.TaintEffectNoExecute},
	}
	vn.Spec.StorageClasses = []authv1beta1.StorageType{{StorageClassName: "fast"}}
	node := local.Node(local.NodeInput{
		VirtualNode: vn, Now: now,
		ExtraLabels: map[string]string{"zone": "flag", "tier": "flag"}, ExtraAnnotations: map[string]string{"a": "flag", "b": "flag"},
	})
	for key, want := range map[string]string{
		"zone": "vn", "tier": "flag", "kubernetes.io/arch": "arm64", "liqo.io/type": "virtual-node", "type": "virtual-kubelet",
		"kubernetes.io/hostname": "milan-1", "liqo.io/remote-cluster-id": "milan", "storage.liqo.io/available": "true",
	} {
		assert.Equal(t, want, node.Labels[key], key)
	}
	assert.Equal(t, "arm64", node.Status.NodeInfo.Architecture, "T28")
	assert.Equal(t, map[string]string{"a": "vn", "b": "flag"}, node.Annotations)
	require.Len(t, node.Spec.Taints, 3, "one per key and effect, as the API server asks")
	assert.Equal(t, "true", node.Spec.Taints[0].Value)
}

// Cluster autoscalers and cloud controllers read it; a Node that is created again has it at once.
func TestProviderID(t *testing.T) {
	withArgs := func(vn *offloadingv1beta1.VirtualNode, args ...string) *offloadingv1beta1.VirtualNode {
		vn.Spec.Template = &offloadingv1beta1.DeploymentTemplate{}
		vn.Spec.Template.Spec.Template.Spec.Containers = []corev1.Container{{Args: args}}
		return vn
	}
	annotated := func(value string) *offloadingv1beta1.VirtualNode {
		vn := virtualNode(capacity())
		vn.Spec.Annotations = map[string]string{local.ProviderIDAnnotation: value}
		return vn
	}
	const ofTemplate = "--node-extra-annotations=a=b,longshore.dev/provider-id=longshore://{cluster}/{node}"
	for name, tc := range map[string]struct {
		vn    *offloadingv1beta1.VirtualNode
		extra map[string]string
		want  string
	}{
		"none is given":               {virtualNode(capacity()), nil, ""},
		"of the VirtualNode":          {annotated("kwok://milan"), nil, "kwok://milan"},
		"of the VkOptionsTemplate":    {withArgs(virtualNode(capacity()), ofTemplate), map[string]string{local.ProviderIDAnnotation: "longshore://{cluster}/{node}"}, "longshore://milan/milan-1"},
		"the VirtualNode comes first": {withArgs(annotated("kwok://milan"), ofTemplate), map[string]string{local.ProviderIDAnnotation: "longshore://{cluster}/{node}"}, "kwok://milan"},
		"the VirtualNode wants none":  {withArgs(annotated(""), ofTemplate), map[string]string{local.ProviderIDAnnotation: "longshore://{cluster}/{node}"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tc.want, local.Node(local.NodeInput{VirtualNode: tc.vn, ExtraAnnotations: tc.extra, Now: now}).Spec.ProviderID)
			assert.Equal(t, tc.want, local.InitialNode(tc.vn).Spec.ProviderID, "as the manager creates it")
		})
	}
}

func network(status corev1.ConditionStatus, reason string) []corev1.NodeCondition {
	return []corev1.NodeCondition{{Type: corev1.NodeNetworkUnavailable, Status: status, Reason: reason}}
}

func TestNodeConditions(t *testing.T) {
	none := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
	healthy := func(network string) map[corev1.NodeConditionType]string {
		want := map[corev1.NodeConditionType]string{
			"Ready": "True KubeletReady", "MemoryPressure": "False RemoteClusterHasSufficientMemory",
			"DiskPressure": "False RemoteClusterHasNoDiskPressure", "PIDPressure": "False RemoteClusterHasNoPIDPressure",
		}
		if network != "" {
			want["NetworkUnavailable"] = network
		}
		return want
	}
	for name, tc := range map[string]struct {
		hard    corev1.ResourceList
		network local.Network
		current []corev1.NodeCondition
		want    map[corev1.NodeConditionType]string
	}{
		"capable, network not checked": {capacity(), local.NetworkUnchecked, nil, healthy("")},
		"capable, network up":          {capacity(), local.NetworkUp, nil, healthy("False LiqoNetworkingUp")},
		"capable, network down": {capacity(), local.NetworkDown, nil, map[corev1.NodeConditionType]string{
			"Ready": "False KubeletNotReady", "MemoryPressure": "False RemoteClusterHasSufficientMemory",
			"DiskPressure": "False RemoteClusterHasNoDiskPressure", "PIDPressure": "False RemoteClusterHasNoPIDPressure",
			"NetworkUnavailable": "True LiqoNetworkingDown",
		}},
		"not checked, and another client reports no network":  {capacity(), local.NetworkUnchecked, network(corev1.ConditionTrue, "NoRouteCreated"), healthy("False NetworkUnchecked")},
		"not checked, and the virtual kubelet took its place": {capacity(), local.NetworkUnchecked, network(corev1.ConditionFalse, "NetworkUnchecked"), healthy("False NetworkUnchecked")},
		"not checked, and another client reports a network":   {capacity(), local.NetworkUnchecked, network(corev1.ConditionFalse, "CiliumIsUp"), healthy("")},
		"up, and another client reports no network":           {capacity(), local.NetworkUp, network(corev1.ConditionTrue, "NoRouteCreated"), healthy("False LiqoNetworkingUp")},
		"without memory": {none, local.NetworkUnchecked, nil, map[corev1.NodeConditionType]string{
			"Ready": "False KubeletNotReady", "MemoryPressure": "True RemoteClusterHasMemoryPressure",
			"DiskPressure": "True RemoteClusterHasDiskPressure", "PIDPressure": "True RemoteClusterHasPIDPressure",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			node := local.Node(local.NodeInput{VirtualNode: virtualNode(tc.hard), Network: tc.network, Current: tc.current, Now: now})
			got := map[corev1.NodeConditionType]string{}
			for _, condition := range node.Status.Conditions {
				got[condition.Type] = string(condition.Status) + " " + condition.Reason
				assert.Equal(t, nowSec, condition.LastHeartbeatTime)
			}
			assert.Equal(t, tc.want, got)
		})
	}
}

func TestForeignConditions(t *testing.T) {
	desired := local.Node(local.NodeInput{VirtualNode: virtualNode(capacity()), Network: local.NetworkUp, Now: now}).Status.Conditions
	incapable := local.Node(local.NodeInput{VirtualNode: virtualNode(nil), Network: local.NetworkDown, Now: now}).Status.Conditions
	for name, tc := range map[string]struct {
		current []corev1.NodeCondition
		want    bool
	}{
		"a cloud's route controller":                {network(corev1.ConditionTrue, "NoRouteCreated"), true},
		"the virtual kubelet, a moment ago":         {incapable, false},
		"no difference":                             {desired, false},
		"the node lifecycle controller":             {network(corev1.ConditionUnknown, "NodeStatusUnknown"), false},
		"a condition that keeps no pods away":       {[]corev1.NodeCondition{{Type: "KernelDeadlock", Status: corev1.ConditionTrue}}, false},
		"pressure that the provider has not":        {[]corev1.NodeCondition{{Type: corev1.NodeDiskPressure, Status: corev1.ConditionTrue, Reason: "Chaos"}}, true},
		"a Node without conditions (created again)": {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			foreign := local.ForeignConditions(tc.current, desired)
			if !tc.want {
				assert.Empty(t, foreign)
				return
			}
			assert.Equal(t, tc.current, foreign)
		})
	}
}

func TestConditionsKeepTheirTransitionTimeWhileTheirStatusStays(t *testing.T) {
	first := local.Node(local.NodeInput{VirtualNode: virtualNode(capacity()), Network: local.NetworkUp, Now: earlier})
	second := local.Node(local.NodeInput{
		VirtualNode: virtualNode(capacity()), Network: local.NetworkDown, Now: now, Previous: first.Status.Conditions,
	})
	for _, condition := range second.Status.Conditions {
		want := metav1.NewTime(earlier)
		if condition.Type == corev1.NodeReady || condition.Type == corev1.NodeNetworkUnavailable {
			want = nowSec
		}
		assert.Equal(t, want, condition.LastTransitionTime, condition.Type)
	}
}
