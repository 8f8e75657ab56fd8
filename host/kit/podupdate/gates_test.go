package podupdate_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/longshore-dev/longshore/host/kit/podupdate"
)

func gate(name string, status corev1.ConditionStatus) corev1.PodCondition {
	return corev1.PodCondition{Type: corev1.PodConditionType(name), Status: status}
}

func TestGatesAreTheConditionsThatReadinessGatesName(t *testing.T) {
	gates := []corev1.PodReadinessGate{{ConditionType: "example.com/b"}, {ConditionType: "example.com/a"}, {ConditionType: "example.com/absent"}, {ConditionType: corev1.PodReady}}
	conditions := []corev1.PodCondition{gate("Ready", "True"), gate("example.com/b", "True"), gate("example.com/other", "True"), gate("example.com/a", "False")}
	assert.Equal(t, []corev1.PodCondition{gate("example.com/a", "False"), gate("example.com/b", "True")}, podupdate.Gates(gates, conditions))
	assert.Empty(t, podupdate.Gates(nil, conditions))
}

func TestGatesAreEncodedWithoutWhatTheOtherClusterCannotUse(t *testing.T) {
	long := gate("example.com/a", "True")
	long.Message, long.ObservedGeneration = strings.Repeat("é", 1000), 7
	got := podupdate.DecodeGates(podupdate.EncodeGates([]corev1.PodCondition{long, gate("example.com/b", "False")}))
	long.Message, long.ObservedGeneration = strings.Repeat("é", 512), 0
	assert.Equal(t, []corev1.PodCondition{long, gate("example.com/b", "False")}, got)
	assert.Empty(t, podupdate.EncodeGates(nil))
	assert.Len(t, podupdate.DecodeGates(podupdate.EncodeGates(make([]corev1.PodCondition, 100))), 32)
	for name, text := range map[string]string{"no annotation": "", "not JSON": "{", "not a list": `{"type":"x"}`} {
		assert.Empty(t, podupdate.DecodeGates(text), name)
	}
}

// The other cluster writes the annotation: a date that no API server takes would keep the conditions from being
// written for ever.
func TestDatesOfGatesAreBounded(t *testing.T) {
	const at = `"9999-12-31T23:59:59-23:59"`
	decoded := podupdate.DecodeGates(`[{"type":"example.com/a","status":"True","lastTransitionTime":` + at + `,"lastProbeTime":` + at + `}]`)
	require.Len(t, decoded, 1)
	assert.Len(t, podupdate.DecodeGates(podupdate.EncodeGates(decoded)), 1)
	assert.True(t, decoded[0].LastTransitionTime.IsZero())
	assert.True(t, decoded[0].LastProbeTime.IsZero())
}
