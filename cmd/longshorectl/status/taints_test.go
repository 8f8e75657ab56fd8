package status

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

func TestWhatKeepsPodsAwayFromANodeIsAProblem(t *testing.T) {
	taint := func(key string, effect corev1.TaintEffect) func(*corev1.Node) {
		return func(node *corev1.Node) { node.Spec.Taints = []corev1.Taint{{Key: key, Effect: effect}} }
	}
	for name, tc := range map[string]struct {
		change func(*corev1.Node)
		want   string
	}{
		"a cloud's route controller": {
			taint("node.kubernetes.io/network-unavailable", corev1.TaintEffectNoSchedule),
			"Its Node has the taint node.kubernetes.io/network-unavailable:NoSchedule, which keeps pods away.",
		},
		"a taint of an administrator":     {taint("example.com/gpu", corev1.TaintEffectNoSchedule), ""},
		"the taint of every virtual node": {taint(offloadingv1beta1.VirtualNodeTaintKey, corev1.TaintEffectNoExecute), ""},
		"a cordon":                        {func(node *corev1.Node) { node.Spec.Unschedulable = true }, "Its Node is cordoned: no pod is scheduled to it."},
	} {
		t.Run(name, func(t *testing.T) {
			s := healthyCluster()
			tc.change(&s.nodes.Items[0])
			var messages []string
			for _, problem := range build(s).Problems {
				messages = append(messages, problem.Message)
				assert.Equal(t, "rome", problem.Actor)
				assert.NotEmpty(t, problem.Action)
			}
			if tc.want == "" {
				assert.Empty(t, messages)
				return
			}
			assert.Equal(t, []string{tc.want}, messages)
		})
	}
}
