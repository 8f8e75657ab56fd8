package engine

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

func TestSkip(t *testing.T) {
	const (
		deny  = offloadingv1beta1.SkipReflectionAnnotation
		allow = offloadingv1beta1.AllowReflectionAnnotation
	)
	tests := map[string]struct {
		policy        offloadingv1beta1.ReflectionType
		annotations   map[string]string
		want          bool
		wantAnnotated bool
		wantErr       string
	}{
		"deny list, nothing set":               {policy: offloadingv1beta1.DenyList},
		"deny list, skip empty":                {policy: offloadingv1beta1.DenyList, annotations: map[string]string{deny: ""}, want: true, wantAnnotated: true},
		"deny list, skip False":                {policy: offloadingv1beta1.DenyList, annotations: map[string]string{deny: "False"}},
		"deny list ignores allow":              {policy: offloadingv1beta1.DenyList, annotations: map[string]string{deny: "x", allow: "true"}, want: true, wantAnnotated: true},
		"allow list, nothing set":              {policy: offloadingv1beta1.AllowList, want: true},
		"allow list, allow set":                {policy: offloadingv1beta1.AllowList, annotations: map[string]string{allow: ""}},
		"allow list, allow false":              {policy: offloadingv1beta1.AllowList, annotations: map[string]string{allow: "false"}, want: true},
		"allow list ignores skip":              {policy: offloadingv1beta1.AllowList, annotations: map[string]string{deny: "", allow: ""}},
		"explicit, nothing set":                {policy: Explicit},
		"explicit, skip":                       {policy: Explicit, annotations: map[string]string{deny: ""}, want: true, wantAnnotated: true},
		"explicit, allow":                      {policy: Explicit, annotations: map[string]string{allow: ""}},
		"explicit, both":                       {policy: Explicit, annotations: map[string]string{deny: "", allow: ""}, wantErr: "both set"},
		"a resource without lists":             {policy: offloadingv1beta1.CustomLiqo, annotations: map[string]string{deny: ""}},
		"an unknown policy is not a silent no": {policy: "denylist", wantErr: "unknown reflection policy"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, annotated, err := skip(tc.policy, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Annotations: tc.annotations}})
			if tc.wantErr != "" {
				require.ErrorContains(t, err, tc.wantErr)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tc.want, got)
			assert.Equal(t, tc.wantAnnotated, annotated)
		})
	}
}

func TestStatusPatch(t *testing.T) {
	running := corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: "10.1.2.3",
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}, {Type: "Mine", Status: corev1.ConditionTrue}},
	}
	failed := corev1.PodStatus{
		Phase: corev1.PodFailed, Reason: "Evicted",
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}},
	}
	same, err := statusPatch(&running, running.DeepCopy())
	require.NoError(t, err)
	assert.Empty(t, same, "no request for the same status")

	patch, err := statusPatch(&running, &failed)
	require.NoError(t, err)
	assert.Equal(t, "Failed", patch["phase"])
	assert.Equal(t, "Evicted", patch["reason"])
	assert.Contains(t, patch, "podIP")
	assert.Nil(t, patch["podIP"], "what vanished is removed")
	assert.Len(t, patch["conditions"], 1, "lists are replaced, no stale condition stays (T18)")
}
