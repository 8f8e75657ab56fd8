package engine

import (
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A merge patch replaces the list of conditions. With IfUnchanged, what another writer adds
// between the decision and the patch stays.
func TestAStatusThatHasChangedIsDecidedAgain(t *testing.T) {
	local, remote := mapped(t, localPod("shop", "web"))
	has := func(pod *corev1.Pod, name corev1.PodConditionType) bool {
		return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == name })
	}
	var another sync.Once
	start(t, local, remote, pods{decide: func(in Input) ([]Action, error) {
		pod, ok := in.Local.(*corev1.Pod)
		if !ok || has(pod, "ours") {
			return []Action{Keep{}}, nil
		}
		var err error
		another.Do(func() {
			theirs := pod.DeepCopy()
			theirs.Status.Conditions = append(theirs.Status.Conditions, corev1.PodCondition{Type: "theirs"})
			err = local.WithWatch.Status().Patch(t.Context(), theirs, client.MergeFrom(pod))
		})
		status := pod.Status.DeepCopy()
		status.Conditions = append(status.Conditions, corev1.PodCondition{Type: "ours"})
		return []Action{PatchLocalStatus{Old: &pod.Status, New: status, IfUnchanged: true}}, err
	}})
	var pod *corev1.Pod
	require.Eventually(t, func() bool {
		pod, _ = get(t.Context(), local.WithWatch, "shop", "web", &corev1.Pod{})
		return has(pod, "ours")
	}, soon, tick)
	assert.True(t, has(pod, "theirs"))
}
