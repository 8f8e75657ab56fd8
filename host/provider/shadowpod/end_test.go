package shadowpod

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

type shadowOption func(*offloadingv1beta1.ShadowPod)

// deleted is the deletion of a ShadowPod that some finalizers hold.
func deleted(finalizers ...string) shadowOption {
	return func(s *offloadingv1beta1.ShadowPod) {
		at := metav1.NewTime(noon)
		s.DeletionTimestamp, s.Finalizers = &at, finalizers
	}
}

// asked is a consumer's word about the grace period.
func asked(seconds string) shadowOption {
	return func(s *offloadingv1beta1.ShadowPod) {
		s.Annotations[offloadingv1beta1.DeletionGracePeriodAnnotation] = seconds
	}
}

func shadowWith(options ...shadowOption) *offloadingv1beta1.ShadowPod {
	return shadow(func(s *offloadingv1beta1.ShadowPod) {
		for _, option := range options {
			option(s)
		}
	})
}

// podOf is the ShadowPod's pod with a grace period of its own; it is being deleted with
// some seconds when that is no less than 0.
func podOf(own, deleting int64) *corev1.Pod {
	pod := ownPod(shadow(nil), corev1.PodRunning, 0)
	pod.Spec.TerminationGracePeriodSeconds = &own
	if deleting >= 0 {
		at := metav1.NewTime(noon)
		pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds, pod.Finalizers = &at, &deleting, []string{"example.com/kept"}
	}
	return pod
}

const foreground, orphan = metav1.FinalizerDeleteDependents, metav1.FinalizerOrphanDependents

func TestDecideEnd(t *testing.T) {
	ownPeriod := ending{deletePod: true}
	with := func(seconds int64) ending { return ending{deletePod: true, period: &seconds} }
	tests := map[string]struct {
		shadow *offloadingv1beta1.ShadowPod
		pod    *corev1.Pod
		want   ending
	}{
		"deleted: the pod gets its own period":                       {shadow: shadowWith(deleted(foreground)), pod: podOf(60, -1), want: ownPeriod},
		"deleted, and a period was asked for":                        {shadow: shadowWith(deleted(foreground), asked("5")), pod: podOf(60, -1), want: with(5)},
		"a longer one than its own":                                  {shadow: shadowWith(deleted(foreground), asked("120")), pod: podOf(60, -1), want: with(120)},
		"asked for, before it is deleted":                            {shadow: shadowWith(asked("5")), pod: podOf(60, -1), want: with(5)},
		"none at all: the kubelet confirms the end":                  {shadow: shadowWith(asked("0")), pod: podOf(60, -1), want: with(1)},
		"none at all, as the pod itself wants it":                    {shadow: shadowWith(asked("0")), pod: podOf(0, -1), want: with(0)},
		"none at all, and a negative period of its own":              {shadow: shadowWith(asked("0")), pod: podOf(-5, -1), want: with(0)},
		"the pod goes: its own period goes on":                       {shadow: shadowWith(deleted(foreground)), pod: podOf(60, 60)},
		"the pod goes, and has less time now":                        {shadow: shadowWith(deleted(foreground), asked("5")), pod: podOf(60, 60), want: with(5)},
		"the pod goes, and has none left":                            {shadow: shadowWith(deleted(foreground), asked("0")), pod: podOf(60, 60), want: with(1)},
		"the pod goes with as much as was asked for":                 {shadow: shadowWith(deleted(foreground), asked("5")), pod: podOf(60, 5)},
		"the pod goes, and cannot get more time":                     {shadow: shadowWith(asked("90")), pod: podOf(60, 60)},
		"the shortest end is not asked for twice":                    {shadow: shadowWith(asked("0")), pod: podOf(60, 1)},
		"a node's end: an evicted pod goes with what is asked for":   {shadow: shadowWith(asked("5")), pod: podOf(60, 30), want: with(5)},
		"the pod is gone: the ShadowPod may go":                      {shadow: shadowWith(deleted(foreground)), want: ending{release: true}},
		"the pod is gone, but others hold the ShadowPod, too":        {shadow: shadowWith(deleted("example.com/x", foreground)), want: ending{release: true}},
		"the pod is gone, and only others hold the ShadowPod":        {shadow: shadowWith(deleted("example.com/x"))},
		"the pod is gone before the ShadowPod is deleted":            {shadow: shadowWith(asked("5"))},
		"finalizers of others do not hold the pod":                   {shadow: shadowWith(deleted("example.com/x")), pod: podOf(60, -1), want: ownPeriod},
		"whoever orphans the pod wants to keep it":                   {shadow: shadowWith(deleted(orphan)), pod: podOf(60, -1)},
		"a period that is no number: the pod gets its own":           {shadow: shadowWith(deleted(foreground), asked("5s")), pod: podOf(60, -1), want: ownPeriod},
		"a finished pod goes as well":                                {shadow: shadowWith(deleted(foreground), func(s *offloadingv1beta1.ShadowPod) { s.Status.Phase = corev1.PodSucceeded }), pod: podOf(60, -1), want: ownPeriod},
		"a pod that was deleted by force a moment ago has gone home": {shadow: shadowWith(deleted(foreground), asked("5")), pod: podOf(60, 0)},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tc.want, decideEnd(tc.shadow, tc.pod))
		})
	}
}

func TestEnds(t *testing.T) {
	tests := map[string]struct {
		shadow *offloadingv1beta1.ShadowPod
		period *int64
		ends   bool
		err    string
	}{
		"it lives":                          {shadow: shadow(nil)},
		"it is deleted":                     {shadow: shadowWith(deleted(foreground)), ends: true},
		"its consumer gives it time":        {shadow: shadowWith(asked("30")), period: ptr.To[int64](30), ends: true},
		"its consumer gives it none":        {shadow: shadowWith(asked("0")), period: ptr.To[int64](0), ends: true},
		"a negative number is no reason":    {shadow: shadowWith(asked("-1")), err: `longshore.dev/deletion-grace-period-seconds="-1" is no number of seconds`},
		"nor is a number beyond reason":     {shadow: shadowWith(asked("9999999999")), err: "is no number of seconds"},
		"nor is an empty one":               {shadow: shadowWith(asked("")), err: "is no number of seconds"},
		"a bad number holds no deletion up": {shadow: shadowWith(asked("x"), deleted(foreground)), ends: true, err: "is no number of seconds"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			period, err := GracePeriod(tc.shadow)
			assert.Equal(t, tc.period, period)
			assert.Equal(t, tc.ends, Ends(tc.shadow))
			if tc.err == "" {
				assert.NoError(t, err)
				return
			}
			assert.ErrorContains(t, err, tc.err)
		})
	}
}
