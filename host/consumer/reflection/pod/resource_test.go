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

// resources returns policies that answer at ResourceMutation only.
func resources(t *testing.T, skip bool, answer ...contract.Operation) *policies {
	return &policies{answer: func(in chain.Input) (*chain.Result, error) {
		if in.Point != contract.ResourceMutation {
			return &chain.Result{Object: in.Object}, nil
		}
		if skip {
			return &chain.Result{Object: in.Object, Denial: &chain.Denied{Policy: "site", Module: "m", Digest: "sha256:0123", Reason: "HomeOnly", Message: "stays in the consumer", Skip: true}}, nil
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

func TestPolicySkipsNewPod(t *testing.T) {
	actions, err := decide(t.Context(), definition(resources(t, true)), input(localPod(), nil, nil))
	require.NoError(t, err)
	assert.Equal(t, "status Pending ReflectionDisabled, event ReflectionDisabled", summary(actions))
	event, ok := actions[1].(engine.RecordEvent)
	require.True(t, ok)
	assert.Equal(t, engine.EventNormal, event.Type)
	assert.Contains(t, event.Message, "HomeOnly: stays in the consumer")
	waiting := localPod()
	waiting.Status = *patchedStatus(actions)
	assert.Equal(t, event.Message, waiting.Status.Message)

	actions, err = decide(t.Context(), definition(resources(t, true)), input(waiting, nil, nil))
	require.NoError(t, err)
	assert.Equal(t, "keep StatusUnchanged, event ReflectionDisabled", summary(actions))
	actions, err = decide(t.Context(), definition(resources(t, false)), input(waiting, nil, nil))
	require.NoError(t, err)
	assert.Equal(t, "first serviceaccount, create, wait StatusForLabel", summary(actions), "the policy no longer skips the pod")
}

// A policy that skips a pod later does not end the pod.
func TestPolicySkipsRunningPod(t *testing.T) {
	in := input(localPod(running, label(offloadingv1beta1.LocalPodLabel, "true")), shadowPod(shadowLabel("app", "before")), remotePod(phase(corev1.PodRunning)))
	actions, err := decide(t.Context(), definition(resources(t, true)), in)
	require.NoError(t, err)
	var events []engine.RecordEvent
	for _, action := range actions {
		switch a := action.(type) {
		case engine.DeleteRemote, engine.PatchRemote, engine.DeleteLocal:
			t.Fatalf("unexpected action %T", action)
		case engine.RecordEvent:
			events = append(events, a)
		case engine.Remember:
			in.Memory = a.Value
		}
	}
	require.Len(t, events, 1)
	assert.Equal(t, engine.ReasonReflectionDisabled, events[0].Reason)
	assert.Contains(t, events[0].Message, "HomeOnly: stays in the consumer")

	again := resources(t, true)
	_, err = decide(t.Context(), definition(again), in)
	require.NoError(t, err)
	assert.Zero(t, again.calls, "no input of a policy has changed")
}

// What a policy sets at the creation stays when labels and annotations are decided again.
func TestLabelsOfPolicyStay(t *testing.T) {
	site := resources(t, false, contract.Merge("/metadata/labels", contract.StringMap{"site": "a"}), contract.Set("/spec/schedulerName", contract.String("s")))
	actions, err := decide(t.Context(), definition(site), input(localPod(), nil, nil))
	require.NoError(t, err)
	create, ok := actions[1].(engine.Create)
	require.True(t, ok)
	shadow, ok := create.Object.(*offloadingv1beta1.ShadowPod)
	require.True(t, ok)
	assert.Equal(t, "a", shadow.Labels["site"])
	assert.Equal(t, "s", shadow.Spec.Pod.SchedulerName)

	shadow.UID = "shadow-1"
	actions, err = decide(t.Context(), definition(site), input(localPod(label("team", "b")), shadow, nil))
	require.NoError(t, err)
	next := patchedShadowPod(shadow, actions)
	assert.Equal(t, "a", next.Labels["site"])
	assert.Equal(t, "b", next.Labels["team"])
}

// The invariants hold for policies of ResourceMutation too.
func TestResourceMutationThatViolatesAnInvariant(t *testing.T) {
	actions, err := decide(t.Context(), definition(resources(t, false, contract.Set("/spec/hostPID", contract.Bool(true)))), input(localPod(), nil, nil))
	require.NoError(t, err)
	assert.Equal(t, "status Pending OffloadingDenied, event OffloadingDenied", summary(actions))
	assert.Contains(t, actions[1].(engine.RecordEvent).Message, `policy "site" (module m, 0123) violated an invariant: /spec/pod/hostPID: set to true`)
}
