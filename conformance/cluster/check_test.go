package cluster

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// verdict compares an error with what is wanted of it; nothing means that there is none.
func verdict(t *testing.T, want string, err error) {
	t.Helper()
	if want == "" {
		require.NoError(t, err)
	} else {
		require.ErrorContains(t, err, want)
	}
}

func TestCheckNode(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*corev1.Node)
		want   string
	}{
		"a ready node":        {func(*corev1.Node) {}, ""},
		"no taint":            {func(n *corev1.Node) { n.Spec.Taints = nil }, "has no taint"},
		"a taint of no force": {func(n *corev1.Node) { n.Spec.Taints[0].Effect = corev1.TaintEffectPreferNoSchedule }, "has no taint"},
		"not ready": {func(n *corev1.Node) {
			n.Status.Conditions[0] = corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Reason: "NodeStatusUnknown"}
		}, "is not ready: NodeStatusUnknown"},
		"no condition": {func(n *corev1.Node) { n.Status.Conditions = nil }, "has no condition Ready"},
	} {
		t.Run(name, func(t *testing.T) {
			node := readyNode()
			tc.change(node)
			verdict(t, tc.want, checkNode(node))
		})
	}
}

func TestCheckPlacement(t *testing.T) {
	requirement := func(key, value string) corev1.NodeSelectorRequirement {
		return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}}
	}
	virtual, milan := requirement("liqo.io/type", "virtual-node"), requirement("liqo.io/remote-cluster-id", "milan")
	for name, tc := range map[string]struct {
		tolerates bool
		terms     [][]corev1.NodeSelectorRequirement
		want      string
	}{
		"placed":                           {true, [][]corev1.NodeSelectorRequirement{{milan, virtual}}, ""},
		"no toleration":                    {false, [][]corev1.NodeSelectorRequirement{{milan, virtual}}, "does not tolerate"},
		"no affinity":                      {true, nil, "no required node affinity"},
		"any node":                         {true, [][]corev1.NodeSelectorRequirement{{milan}}, "admits nodes"},
		"any provider":                     {true, [][]corev1.NodeSelectorRequirement{{virtual}}, "admits nodes"},
		"a second term that admits others": {true, [][]corev1.NodeSelectorRequirement{{milan, virtual}, {virtual}}, "admits nodes"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{}
			if tc.tolerates {
				pod.Spec.Tolerations = []corev1.Toleration{{Key: offloadingv1beta1.VirtualNodeTaintKey}}
			}
			if tc.terms != nil {
				selector := &corev1.NodeSelector{}
				for _, term := range tc.terms {
					selector.NodeSelectorTerms = append(selector.NodeSelectorTerms, corev1.NodeSelectorTerm{MatchExpressions: term})
				}
				pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: selector}}
			}
			verdict(t, tc.want, checkPlacement(pod, "milan"))
		})
	}
}

func TestCheckIsolation(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*corev1.PodSpec)
		want   string
	}{
		"isolated":                  {func(*corev1.PodSpec) {}, ""},
		"network of its host":       {func(s *corev1.PodSpec) { s.HostNetwork = true }, "namespace of its host"},
		"processes of its host":     {func(s *corev1.PodSpec) { s.HostPID = true }, "namespace of its host"},
		"IPC of its host":           {func(s *corev1.PodSpec) { s.HostIPC = true }, "namespace of its host"},
		"a token":                   {func(s *corev1.PodSpec) { s.AutomountServiceAccountToken = ptr.To(true) }, "mounts the token"},
		"a token by default":        {func(s *corev1.PodSpec) { s.AutomountServiceAccountToken = nil }, "mounts the token"},
		"tolerates virtual nodes":   {func(s *corev1.PodSpec) { s.Tolerations[0].Key = offloadingv1beta1.VirtualNodeTaintKey }, "offloaded again"},
		"tolerates everything":      {func(s *corev1.PodSpec) { s.Tolerations[0] = corev1.Toleration{Operator: corev1.TolerationOpExists} }, "offloaded again"},
		"tolerates another problem": {func(s *corev1.PodSpec) { s.Tolerations[0].Key = "disk" }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{AutomountServiceAccountToken: ptr.To(false), Tolerations: []corev1.Toleration{{Key: "x"}}}}
			tc.change(&pod.Spec)
			verdict(t, tc.want, checkIsolation(pod))
		})
	}
}

func TestCheckStatus(t *testing.T) {
	now := metav1.Now()
	running := corev1.PodStatus{
		Phase: corev1.PodRunning, StartTime: &now, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		ContainerStatuses: []corev1.ContainerStatus{{Name: "c", ContainerID: "id", Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}},
	}
	for name, tc := range map[string]struct {
		change func(*corev1.PodStatus)
		want   string
	}{
		"the same":             {func(*corev1.PodStatus) {}, ""},
		"more restarts":        {func(s *corev1.PodStatus) { s.ContainerStatuses[0].RestartCount = 3 }, ""},
		"another address":      {func(s *corev1.PodStatus) { s.PodIP = "203.0.113.1" }, ""},
		"another phase":        {func(s *corev1.PodStatus) { s.Phase = corev1.PodPending }, "the local pod is Pending"},
		"another start":        {func(s *corev1.PodStatus) { s.StartTime = nil }, "started at"},
		"no containers":        {func(s *corev1.PodStatus) { s.ContainerStatuses = nil }, "0 container statuses"},
		"another container ID": {func(s *corev1.PodStatus) { s.ContainerStatuses[0].ContainerID = "other" }, "the local status of container c"},
		"not ready":            {func(s *corev1.PodStatus) { s.Conditions = nil }, "the condition Ready"},
	} {
		t.Run(name, func(t *testing.T) {
			local := running.DeepCopy()
			tc.change(local)
			verdict(t, tc.want, checkStatus(&corev1.Pod{Status: *local}, &corev1.Pod{Status: running}))
		})
	}
}

func TestCheckFiltered(t *testing.T) {
	sent := func(extra string) map[string]string {
		return map[string]string{"conformance/sent": "yes", extra: "kept"}
	}
	for name, tc := range map[string]struct {
		labels, annotations map[string]string
		want                string
	}{
		"filtered":                     {sent("a"), sent("b"), ""},
		"a label was sent":             {sent("secret"), sent("b"), "the label secret was sent"},
		"an annotation was sent":       {sent("a"), sent("private"), "the annotation private was sent"},
		"what may be sent was not":     {nil, sent("b"), "the label conformance/sent was not sent"},
		"the annotations were not all": {sent("a"), nil, "the annotation conformance/sent was not sent"},
	} {
		t.Run(name, func(t *testing.T) {
			object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Labels: tc.labels, Annotations: tc.annotations}}
			verdict(t, tc.want, checkFiltered(object, []string{"secret"}, []string{"private"}))
		})
	}
}

func TestKindsCompareWhatTheySend(t *testing.T) {
	for _, k := range kinds() {
		t.Run(k.id, func(t *testing.T) {
			remote, err := copyOf(k.local)
			require.NoError(t, err)
			switch object := remote.(type) {
			case *corev1.Service:
				object.Spec.ClusterIP = "203.0.113.2"
			default:
				remote.SetLabels(map[string]string{offloadingv1beta1.ManagedByLabel: offloadingv1beta1.ManagedByShadowEndpointSlice})
			}
			assert.NoError(t, k.check(remote))
			empty, ok := reflect.New(reflect.TypeOf(k.local).Elem()).Interface().(client.Object)
			require.True(t, ok)
			assert.Error(t, k.check(empty), "an object without content")
		})
	}
}
