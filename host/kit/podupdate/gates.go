package podupdate

import (
	"encoding/json"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/longshore-dev/longshore/host/kit/apitime"
)

// GatesAnnotation on a ShadowPod has the conditions of readiness gates that are set in the
// consumer. The provider's controller writes them to the status of the pod: a ShadowPod has
// no field for conditions, and the consumer has no right on pods/status of the provider.
const GatesAnnotation = "longshore.dev/readiness-gates"

const (
	// maxGates is how many conditions of readiness gates are sent.
	maxGates = 32
	// maxGateText is the longest reason and message of a condition that is sent, in bytes.
	maxGateText = 1024
)

// kubeletConditions are the conditions that Kubernetes itself writes. They are not readiness
// gates, also if a pod names them as such.
var kubeletConditions = []corev1.PodConditionType{
	corev1.PodScheduled, corev1.PodReady, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReadyToStartContainers,
	corev1.DisruptionTarget, corev1.PodResizePending, corev1.PodResizeInProgress,
}

// IsKubeletCondition reports whether Kubernetes itself writes a condition.
func IsKubeletCondition(conditionType corev1.PodConditionType) bool {
	return slices.Contains(kubeletConditions, conditionType)
}

// Gates returns the conditions of a pod's readiness gates, sorted by type. Gates without a
// condition are absent.
func Gates(gates []corev1.PodReadinessGate, conditions []corev1.PodCondition) []corev1.PodCondition {
	var found []corev1.PodCondition
	for i := range conditions {
		named := slices.ContainsFunc(gates, func(g corev1.PodReadinessGate) bool { return g.ConditionType == conditions[i].Type })
		if named && !IsKubeletCondition(conditions[i].Type) {
			found = append(found, conditions[i])
		}
	}
	slices.SortFunc(found, func(a, b corev1.PodCondition) int { return strings.Compare(string(a.Type), string(b.Type)) })
	return found
}

// FindCondition returns the condition of a type, nil if there is none.
func FindCondition(conditions []corev1.PodCondition, conditionType corev1.PodConditionType) *corev1.PodCondition {
	at := slices.IndexFunc(conditions, func(c corev1.PodCondition) bool { return c.Type == conditionType })
	if at < 0 {
		return nil
	}
	return &conditions[at]
}

// EqualGate reports whether two conditions say the same, whenever they began to.
func EqualGate(a, b *corev1.PodCondition) bool {
	return a.Status == b.Status && a.Reason == b.Reason && a.Message == b.Message
}

// EncodeGates returns the text of the annotation; empty for no conditions. Generations are of one
// cluster and are not sent.
func EncodeGates(conditions []corev1.PodCondition) string {
	if len(conditions) == 0 {
		return ""
	}
	conditions = slices.Clone(conditions[:min(len(conditions), maxGates)])
	for i := range conditions {
		conditions[i].ObservedGeneration = 0
		conditions[i].Reason, conditions[i].Message = cut(conditions[i].Reason), cut(conditions[i].Message)
	}
	raw, err := json.Marshal(conditions)
	if err != nil {
		return ""
	}
	return string(raw)
}

// DecodeGates is the inverse of EncodeGates. A text that is not valid has no conditions.
func DecodeGates(text string) []corev1.PodCondition {
	if text == "" {
		return nil
	}
	var conditions []corev1.PodCondition
	if err := json.Unmarshal([]byte(text), &conditions); err != nil {
		return nil
	}
	for i := range conditions {
		c := &conditions[i]
		c.LastTransitionTime, c.LastProbeTime = apitime.Bound(c.LastTransitionTime), apitime.Bound(c.LastProbeTime)
	}
	return conditions
}

// cut shortens a text to maxGateText.
func cut(text string) string {
	if len(text) <= maxGateText {
		return text
	}
	return strings.ToValidUTF8(text[:maxGateText], "")
}
