package planner_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/planner"
)

// What the API server, the controllers and the scheduler decide, the plan decides likewise.
func TestThePlanJudgesAsKubernetesDoes(t *testing.T) {
	daemons := func(tolerations ...corev1.Toleration) *appsv1.DaemonSet {
		template := corev1.PodTemplateSpec{Spec: web().Spec}
		template.Spec.Tolerations = tolerations
		return &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "logs"}, Spec: appsv1.DaemonSetSpec{Template: template}}
	}
	limits := func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("5k")}
	}
	for name, tc := range map[string]struct {
		object   runtime.Object
		strategy offloadingv1beta1.PodOffloadingStrategyType
		result   planner.Result
		message  string
	}{
		"limits are requests":       {web(limits), "Remote", planner.Pending, "insufficient cpu: 5k requested, 4 left"},
		"requests are not limits":   {web(limits, requests(corev1.ResourceCPU, "1")), "Remote", planner.Offloadable, ""},
		"a DaemonSet stays at home": {daemons(), "LocalAndRemote", planner.Local, "the template of the DaemonSet does not tolerate taint virtual-node.liqo.io/not-allowed"},
		"a DaemonSet has no node":   {daemons(), "Remote", planner.Pending, "so its controller creates no pod for the node"},
		"a DaemonSet for all nodes": {daemons(corev1.Toleration{Operator: corev1.TolerationOpExists}), "Remote", planner.Offloadable, ""},
		"a node of this cluster":    {web(func(p *corev1.Pod) { p.Spec.NodeName = "worker" }), "LocalAndRemote", planner.Local, `spec.nodeName is "worker"`},
		"a node that the scheduler chose": {web(func(p *corev1.Pod) {
			p.Spec.NodeName, p.Status.Conditions = "worker", conditions(corev1.PodScheduled, corev1.ConditionTrue, "", "")
		}), "LocalAndRemote", planner.Offloadable, ""},
		"scheduling gates": {web(func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "a"}, {Name: "b"}} }), "Remote", planner.Pending, `the scheduling gates "a", "b". The controllers`},
		"an ephemeral volume": {web(func(p *corev1.Pod) {
			disk := "disk"
			p.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{
				Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &disk},
			}}}}}
		}, requests(corev1.ResourceCPU, "5k")), "Remote", planner.Pending, "insufficient cpu"},
	} {
		t.Run(name, func(t *testing.T) {
			facts := shop()
			facts.Offloadings["shop"] = offloading(tc.strategy)
			planned := predict(t, facts, tc.object)
			assert.Equal(t, tc.result, planned.Result)
			if tc.message == "" {
				assert.Nil(t, planned.Reason)
				return
			}
			require.NotNil(t, planned.Reason)
			assert.Contains(t, planned.Reason.Message, tc.message)
			if name == "an ephemeral volume" {
				require.Len(t, planned.Follows, 2, "the claim that its controller creates, and the Service")
				assert.Equal(t, "web-scratch", planned.Follows[0].Name)
				assert.Contains(t, planned.Follows[0].Why, `storage class "disk" has volumes in this cluster only`)
			}
		})
	}
}

// The settings of the provider are not known: what it refuses by default is a warning.
func TestWhatAProviderMayRefuseIsAWarning(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*corev1.Pod)
		want   string
	}{
		"nothing": {func(*corev1.Pod) {}, ""},
		"a privileged container": {func(p *corev1.Pod) {
			privileged := true
			p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: &privileged}
		}, `The pod violates the provider's Pod Security level "baseline": privileged`},
		"a device": {func(p *corev1.Pod) { p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}} }, `The resource claim "gpu" of the pod does not follow it`},
	} {
		t.Run(name, func(t *testing.T) {
			planned := predict(t, shop(), web(tc.change))
			assert.Equal(t, planner.Offloadable, planned.Result)
			if tc.want == "" {
				assert.Empty(t, planned.Warnings)
				return
			}
			require.Len(t, planned.Warnings, 1)
			assert.Contains(t, planned.Warnings[0], tc.want)
		})
	}
}
