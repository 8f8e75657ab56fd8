package pod

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/kit/podupdate"
)

const gateType = "example.com/registered"

func gated(pod *corev1.Pod) {
	pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: gateType}}
}

// gateCondition is a condition with its transition some minutes from now.
func gateCondition(status corev1.ConditionStatus, minutes int) corev1.PodCondition {
	at := metav1.NewTime(now.Add(time.Duration(minutes) * time.Minute))
	return corev1.PodCondition{Type: gateType, Status: status, LastTransitionTime: at}
}

func withGate(status corev1.ConditionStatus, minutes int) podOption {
	return func(pod *corev1.Pod) {
		pod.Status.Conditions = append(pod.Status.Conditions, gateCondition(status, minutes))
	}
}

func createdAt(minutes int) podOption {
	return func(pod *corev1.Pod) {
		pod.CreationTimestamp = metav1.NewTime(now.Add(time.Duration(minutes) * time.Minute))
	}
}

func gateSent(status corev1.ConditionStatus, minutes int) shadowOption {
	return func(s *offloadingv1beta1.ShadowPod) {
		s.Annotations[podupdate.GatesAnnotation] = podupdate.EncodeGates([]corev1.PodCondition{gateCondition(status, minutes)})
	}
}

// gateActions returns the conditions that are sent to the provider, nil if the annotation stays,
// and the status of the condition in the local pod afterwards.
func gateActions(t *testing.T, in engine.Input) (sent []corev1.PodCondition, local corev1.ConditionStatus) {
	t.Helper()
	actions, err := decide(t.Context(), definition(&policies{}), in)
	require.NoError(t, err)
	status := &in.Local.(*corev1.Pod).Status
	for _, action := range actions {
		switch a := action.(type) {
		case engine.PatchLocalStatus:
			status, _ = a.New.(*corev1.PodStatus)
			assert.True(t, a.IfUnchanged, "another writer may set a condition meanwhile")
		case engine.PatchRemote:
			if text := a.Annotations[podupdate.GatesAnnotation]; text != nil {
				sent = podupdate.DecodeGates(*text)
			}
		}
	}
	if condition := podupdate.FindCondition(status.Conditions, gateType); condition != nil {
		local = condition.Status
	}
	return sent, local
}

func TestConditionsOfReadinessGatesHaveOneOwner(t *testing.T) {
	const yes, no = corev1.ConditionTrue, corev1.ConditionFalse
	mirrored := memory{localUID: "local-1", knowsGates: true, gates: podupdate.EncodeGates([]corev1.PodCondition{gateCondition(yes, 0)})}
	nothing := memory{localUID: "local-1", knowsGates: true}
	frozen := annotation(podupdate.OptOutAnnotation, "false")
	for name, tc := range map[string]struct {
		local, remote []podOption
		shadow        []shadowOption
		memory        any
		sent, want    corev1.ConditionStatus // "": nothing is sent, no condition
	}{
		"the provider sets it":                            {nil, []podOption{withGate(yes, 0)}, nil, nothing, "", yes},
		"the provider changes it":                         {[]podOption{withGate(yes, 0)}, []podOption{withGate(no, 1)}, nil, mirrored, "", no},
		"the provider changes it while the clock is late": {[]podOption{withGate(yes, 0)}, []podOption{withGate(no, -1)}, nil, mirrored, "", no},
		"a new remote pod does not have it yet":           {[]podOption{withGate(yes, 0)}, nil, nil, mirrored, "", ""},
		"the consumer sets it":                            {[]podOption{withGate(yes, 1)}, nil, nil, nothing, yes, yes},
		"the consumer sets it while its clock is late":    {[]podOption{withGate(yes, -60)}, []podOption{createdAt(0)}, nil, nothing, yes, yes},
		"the consumer changes that of the provider":       {[]podOption{withGate(no, -1)}, []podOption{withGate(yes, 0)}, nil, mirrored, no, no},
		"the consumer changes its own":                    {[]podOption{withGate(no, 1)}, []podOption{withGate(yes, 0)}, []shadowOption{gateSent(yes, 0)}, nothing, no, no},
		"the provider changes that of the consumer":       {[]podOption{withGate(yes, 0)}, []podOption{withGate(no, 1)}, []shadowOption{gateSent(yes, 0)}, nothing, "", yes},
		"the consumer removes its own":                    {nil, []podOption{withGate(yes, 0)}, []shadowOption{gateSent(yes, 0)}, nothing, no, ""},
		"both agree":                                      {[]podOption{withGate(yes, 1)}, []podOption{withGate(yes, 0)}, nil, nothing, "", yes},
		"after a restart, the consumer's is later":        {[]podOption{withGate(no, 1)}, []podOption{withGate(yes, 0)}, nil, nil, no, no},
		"after a restart, the provider's is later":        {[]podOption{withGate(no, 0)}, []podOption{withGate(yes, 1)}, nil, nil, "", yes},
		"after a restart, set since the remote pod":       {[]podOption{withGate(yes, 1)}, []podOption{createdAt(0)}, nil, nil, yes, yes},
		"after a restart, set before the remote pod":      {[]podOption{withGate(yes, 0)}, []podOption{createdAt(1)}, nil, nil, "", ""},
		"a pod without live updates follows the provider": {[]podOption{frozen, withGate(yes, 1)}, []podOption{withGate(no, 0)}, nil, nothing, "", no},
	} {
		t.Run(name, func(t *testing.T) {
			local := localPod(append([]podOption{gated, running, ready}, tc.local...)...)
			remote := remotePod(append([]podOption{running, ready}, tc.remote...)...)
			in := input(local, shadowPod(tc.shadow...), remote)
			in.Memory = tc.memory
			sent, have := gateActions(t, in)
			if tc.sent == "" {
				assert.Empty(t, sent)
			} else {
				require.Len(t, sent, 1)
				assert.Equal(t, tc.sent, sent[0].Status)
			}
			assert.Equal(t, tc.want, have)
		})
	}
}

func TestGatesThatAreSetBeforeThePodIsOffloadedAreSentWithIt(t *testing.T) {
	in := input(localPod(gated, withGate(corev1.ConditionTrue, 0)), nil, nil)
	actions, err := decide(t.Context(), definition(&policies{}), in)
	require.NoError(t, err)
	create, ok := actions[1].(engine.Create)
	require.True(t, ok)
	sent := podupdate.DecodeGates(create.Object.GetAnnotations()[podupdate.GatesAnnotation])
	require.Len(t, sent, 1)
	assert.Equal(t, corev1.ConditionTrue, sent[0].Status)
}

func TestARemovedGateIsSentOnce(t *testing.T) {
	in := input(localPod(gated, running), shadowPod(gateSent(corev1.ConditionTrue, 0)), remotePod(running))
	sent, _ := gateActions(t, in)
	require.Len(t, sent, 1)
	assert.Equal(t, "ConditionRemoved", sent[0].Reason)
	in.Remote.GetAnnotations()[podupdate.GatesAnnotation] = podupdate.EncodeGates(sent)
	in.Facts.Now = now.Add(time.Hour)
	sent, _ = gateActions(t, in)
	assert.Empty(t, sent)
}

// What is mirrored is remembered after it was written: a patch that fails is not.
func TestMirroredGatesAreRememberedAfterTheyAreWritten(t *testing.T) {
	in := input(localPod(gated, running), shadowPod(), remotePod(running, ready, withGate(corev1.ConditionTrue, 0)))
	actions, err := decide(t.Context(), definition(&policies{}), in)
	require.NoError(t, err)
	written, stored := false, memory{}
	for _, action := range actions {
		switch a := action.(type) {
		case engine.PatchLocalStatus:
			written = true
			assert.Empty(t, stored.gates)
		case engine.Remember:
			stored, _ = a.Value.(memory)
		}
	}
	assert.True(t, written)
	assert.True(t, stored.knowsGates)
	require.Len(t, podupdate.DecodeGates(stored.gates), 1)
}

func TestObservedGenerationFollowsTheSpec(t *testing.T) {
	const other = "image/web=2"
	fields := podupdate.FieldsOf(&localPod().Spec).Encode()
	for name, tc := range map[string]struct {
		sent, applied string
		local         podOption
		observed      int64
		want          int64
	}{
		"the remote pod has the spec":             {fields, "", nil, 7, 3},
		"the ShadowPod does not have it":          {other, "", nil, 7, 2},
		"the remote pod does not have it":         {fields, other, nil, 7, 2},
		"the provider has not observed it":        {fields, "", nil, 6, 2},
		"the deletion has not reached the remote": {fields, "", deleting, 7, 2},
		"nothing was recorded":                    {"", "", nil, 7, 2},
	} {
		t.Run(name, func(t *testing.T) {
			local, remote := localPod(running), remotePod(running, ready)
			if tc.local != nil {
				tc.local(local)
			}
			local.Generation, local.Status.ObservedGeneration = 3, 2
			remote.Generation, remote.Status.ObservedGeneration = 7, tc.observed
			shadow := shadowPod(func(s *offloadingv1beta1.ShadowPod) {
				s.Spec.Pod.Containers = []corev1.Container{{Name: "web", Image: "web:1"}}
				if tc.sent != "" {
					s.Annotations[podupdate.SentAnnotation] = tc.sent
				}
			})
			remote.Annotations[podupdate.AppliedAnnotation] = podupdate.FieldsOf(&shadow.Spec.Pod).Encode() + tc.applied
			actions, err := decide(t.Context(), definition(&policies{}), input(local, shadow, remote))
			require.NoError(t, err)
			status := patchedStatus(actions)
			require.NotNil(t, status)
			assert.Equal(t, tc.want, status.ObservedGeneration)
		})
	}
}
