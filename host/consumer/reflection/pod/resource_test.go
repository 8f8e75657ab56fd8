package pod

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/operation"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// resources are policies of ResourceMutation that give this answer; the other points have none.
func resources(t *testing.T, skip bool, answer ...contract.Operation) *policies {
	return &policies{answer: func(in chain.Input) (*chain.Result, error) {
		if in.Point != contract.ResourceMutation {
			return &chain.Result{Object: in.Object}, nil
		}
		if skip {
			return &chain.Result{Object: in.Object, Denial: &chain.Denied{Policy: "site", Module: "m", Digest: "sha256:0123", Reason: "HomeOnly", Message: "it stays", Skip: true}}, nil
		}
		operations, err := operation.Compile(answer)
		require.NoError(t, err)
		object, effects, err := operation.Apply(in.Object, operations)
		require.NoError(t, err)
		return &chain.Result{Object: object, Changed: len(effects) > 0, Decisions: []chain.Decision{
			{Point: in.Point, Binding: "site", Module: "m", Digest: "sha256:0123", Effects: effects},
		}}, nil
	}}
}

func TestAPolicyKeepsANewPodAtHome(t *testing.T) {
	actions, err := decide(t.Context(), definition(resources(t, true)), input(localPod(), nil, nil))
	require.NoError(t, err)
	assert.Equal(t, "status Pending ReflectionDisabled, tell ReflectionDisabled", summary(actions))
	told, ok := actions[1].(engine.RecordEvent)
	require.True(t, ok)
	assert.Equal(t, engine.EventNormal, told.Type)
	assert.Equal(t, `Not reflected to cluster milan: policy "site" (module m, 0123) skips the object: HomeOnly: it stays`, told.Message)
	waiting := localPod()
	waiting.Status = *actions[0].(engine.PatchLocalStatus).New.(*corev1.PodStatus)
	assert.Equal(t, told.Message, waiting.Status.Message)

	actions, err = decide(t.Context(), definition(resources(t, true)), input(waiting, nil, nil))
	require.NoError(t, err)
	assert.Equal(t, "tell ReflectionDisabled", summary(actions), "no second write; the engine tells once")
	actions, err = decide(t.Context(), definition(resources(t, false)), input(waiting, nil, nil))
	require.NoError(t, err)
	assert.Equal(t, "create, wait", summary(actions), "when the policy lets it go")
}

// No policy ends a pod that was offloaded, be it by leaving it out.
func TestAPolicyDoesNotWithdrawAPodThatRuns(t *testing.T) {
	in := input(localPod(running, label(offloadingv1beta1.LocalPodLabel, "true")), shadowPod(shadowLabel("app", "before")), remotePod(phase(corev1.PodRunning)))
	actions, err := decide(t.Context(), definition(resources(t, true)), in)
	require.NoError(t, err)
	var told []engine.RecordEvent
	for _, action := range actions {
		switch a := action.(type) {
		case engine.DeleteRemote, engine.PatchRemote, engine.DeleteLocal:
			t.Fatalf("%T: the pod and its labels stay", action)
		case engine.RecordEvent:
			told = append(told, a)
		case engine.Remember:
			in.Memory = a.Value
		}
	}
	require.Len(t, told, 1)
	assert.Equal(t, engine.ReasonReflectionDisabled, told[0].Reason)
	assert.Equal(t, `Stays in cluster milan, since no policy ends a pod that was offloaded: policy "site" (module m, 0123) skips the object: HomeOnly: it stays`, told[0].Message)

	asked := resources(t, true)
	answer := asked.answer
	asked.answer = func(in chain.Input) (*chain.Result, error) {
		t.Errorf("asked again at %s, though nothing changed", in.Point)
		return answer(in)
	}
	_, err = decide(t.Context(), definition(asked), in)
	require.NoError(t, err)
}

// What it sets at the creation stays when labels and annotations are decided again.
func TestWhatAPolicySetsOfAPodConverges(t *testing.T) {
	site := resources(t, false, contract.Merge("/metadata/labels", contract.StringMap{"site": "a"}), contract.Set("/spec/schedulerName", contract.String("s")))
	actions, err := decide(t.Context(), definition(site), input(localPod(), nil, nil))
	require.NoError(t, err)
	create, ok := actions[0].(engine.Create)
	require.True(t, ok)
	shadow, ok := create.Object.(*offloadingv1beta1.ShadowPod)
	require.True(t, ok)
	assert.Equal(t, "a", shadow.Labels["site"])
	assert.Equal(t, "s", shadow.Spec.Pod.SchedulerName)

	shadow.UID = "shadow-1"
	actions, err = decide(t.Context(), definition(site), input(localPod(label("team", "b")), shadow, nil))
	require.NoError(t, err)
	next := patched(shadow, actions)
	assert.Equal(t, "a", next.Labels["site"])
	assert.Equal(t, "b", next.Labels["team"])
}

// The host's invariants are checked after it, too.
func TestAResourceMutationPolicyCannotWeakenAPod(t *testing.T) {
	actions, err := decide(t.Context(), definition(resources(t, false, contract.Set("/spec/hostPID", contract.Bool(true)))), input(localPod(), nil, nil))
	require.NoError(t, err)
	assert.Equal(t, "status Pending OffloadingDenied, tell OffloadingDenied", summary(actions))
	assert.Contains(t, actions[1].(engine.RecordEvent).Message, `policy "site" (module m, 0123) broke what no policy may change: /spec/pod/hostPID: set to true`)
}
