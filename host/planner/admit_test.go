package planner

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// The cases are those of the plugin DefaultTolerationSeconds of kube-apiserver.
func TestDefaultTolerations(t *testing.T) {
	added := func(key string) corev1.Toleration {
		return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr.To[int64](300)}
	}
	notReady, unreachable := added(corev1.TaintNodeNotReady), added(corev1.TaintNodeUnreachable)
	gpu := corev1.Toleration{Key: "gpu", Operator: corev1.TolerationOpExists}
	short := corev1.Toleration{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr.To[int64](5)}
	anyEffect := corev1.Toleration{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists}
	noSchedule := corev1.Toleration{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}
	everything := corev1.Toleration{Operator: corev1.TolerationOpExists}
	for name, tc := range map[string]struct{ has, want []corev1.Toleration }{
		"none":               {nil, []corev1.Toleration{notReady, unreachable}},
		"another taint":      {[]corev1.Toleration{gpu}, []corev1.Toleration{gpu, notReady, unreachable}},
		"a time of its own":  {[]corev1.Toleration{short}, []corev1.Toleration{short, unreachable}},
		"each effect":        {[]corev1.Toleration{anyEffect}, []corev1.Toleration{anyEffect, notReady}},
		"another effect":     {[]corev1.Toleration{noSchedule}, []corev1.Toleration{noSchedule, notReady, unreachable}},
		"each taint at once": {[]corev1.Toleration{everything}, []corev1.Toleration{everything}},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{Tolerations: tc.has}}
			before := pod.DeepCopy()
			assert.Equal(t, tc.want, withDefaultTolerations(pod).Spec.Tolerations)
			assert.Equal(t, before, pod, "the given pod is not changed")
		})
	}
}
