package pod

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/forge/remote"
	"github.com/longshore-dev/longshore/host/policy/chain"
	policyengine "github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/host/policy/operation"
	"github.com/longshore-dev/longshore/sdk/contract"
)

var running = phase(corev1.PodRunning)

// decideTests are the rows of wire 3.6, and what became of T25.
var decideTests = map[string]struct {
	local  *corev1.Pod
	shadow *offloadingv1beta1.ShadowPod
	pod    *corev1.Pod
	want   string
}{
	"row 1: a ShadowPod that is not ours stops everything": {
		local: localPod(), shadow: shadowPod(shadowLabel(offloadingv1beta1.OriginLabel, "paris")), want: "tell FailedReflection",
	},
	"row 1: a remote pod that is not ours stops everything": {
		local: localPod(), shadow: shadowPod(), pod: remotePod(label(offloadingv1beta1.DestinationLabel, "")), want: "tell FailedReflection",
	},
	"row 1: without a local pod nobody is told": {
		shadow: shadowPod(shadowLabel(offloadingv1beta1.OriginLabel, "paris")), want: "",
	},
	"row 2: the local pod is gone": {
		shadow: shadowPod(), pod: remotePod(), want: "delete remote",
	},
	"row 2: the local pod is gone and the ShadowPod on its way": {
		shadow: shadowPod(shadowDeleting), pod: remotePod(), want: "",
	},
	"row 2: only the remote pod is left, which the provider collects": {
		pod: remotePod(), want: "",
	},
	"row 3: terminating and nothing remote": {
		local: localPod(deleting), want: "delete local",
	},
	"row 4: terminating": {
		local: localPod(deleting, running), shadow: shadowPod(), pod: remotePod(running), want: "delete remote, status Running",
	},
	"row 5: terminating, and the ShadowPod too": {
		local: localPod(deleting, running), shadow: shadowPod(shadowDeleting), pod: remotePod(phase(corev1.PodFailed)), want: "status Failed",
	},
	"row 5: terminating, only the remote pod is left (T17)": {
		local: localPod(deleting, running), pod: remotePod(phase(corev1.PodSucceeded)), want: "status Succeeded",
	},
	"row 6: aborted": {
		local: localPod(phase(corev1.PodFailed, offloadingv1beta1.OffloadingAbortedReason)), shadow: shadowPod(), pod: remotePod(), want: "delete remote",
	},
	"row 6: aborted, nothing left": {
		local: localPod(phase(corev1.PodFailed, offloadingv1beta1.OffloadingAbortedReason)), want: "",
	},
	"row 7: finished, nothing remote": {
		local: localPod(phase(corev1.PodSucceeded)), want: "",
	},
	"row 7: finished on both sides": {
		local: localPod(phase(corev1.PodSucceeded)), shadow: shadowPod(), pod: remotePod(phase(corev1.PodSucceeded)), want: "",
	},
	"row 7: finished here only": {
		local: localPod(phase(corev1.PodFailed)), shadow: shadowPod(), pod: remotePod(running), want: "status Running",
	},
	"row 8: the label goes with the status": {
		local: localPod(label(offloadingv1beta1.LocalPodLabel, "")), shadow: shadowPod(), pod: remotePod(running), want: "status Running with label",
	},
	"row 8: the label waits for a status": {
		local: localPod(label(offloadingv1beta1.LocalPodLabel, "")), shadow: shadowPod(created(now)), pod: remotePod(), want: "wait",
	},
	"row 8: the label goes alone when there is no status for a while": {
		local: localPod(label(offloadingv1beta1.LocalPodLabel, "")), shadow: shadowPod(created(now.Add(-time.Minute))), want: "label",
	},
	"rows 8 and 10: a new pod": {
		local: localPod(label(offloadingv1beta1.LocalPodLabel, "")), want: "create, wait",
	},
	"row 10: the ShadowPod vanished while the pod runs": {
		local: localPod(running), want: "create, wait",
	},
	"row 11: the provider is unreachable": {
		local: localPod(label("new", "label"), label(offloadingv1beta1.RemoteUnavailableLabel, "true")), shadow: shadowPod(), want: "",
	},
	"row 12: a label was added": {
		local: localPod(label("new", "label")), shadow: shadowPod(), want: "patch +new",
	},
	"row 12: a label was removed, an annotation added": {
		local: localPod(annotation("note", "x")), shadow: shadowPod(shadowLabel("old", "label")), want: "patch -old +note",
	},
	"row 12: what the provider adds is not ours (T21)": {
		local: localPod(), shadow: shadowPod(shadowLabel(offloadingv1beta1.CreatorUserLabel, "rome"), shadowLabel(offloadingv1beta1.ManagedByLabel, "shadowpod")), want: "",
	},
	"row 12: the decisions of the creation stay": {
		local: localPod(), shadow: shadowPod(shadowAnnotation(remote.DecisionsAnnotation, `[{"point":"PodMutation","policy":"p","ops":["set /spec/hostname"]}]`)), want: "",
	},
	"row 12: not while the ShadowPod is going": {
		local: localPod(label("new", "label")), shadow: shadowPod(shadowDeleting), want: "",
	},
	"row 13: the remote pod runs": {
		local: localPod(), shadow: shadowPod(), pod: remotePod(running), want: "status Running",
	},
	"row 13: the remote pod has nothing to report yet": {
		local: localPod(), shadow: shadowPod(), pod: remotePod(), want: "",
	},
	"row 13: the remote pod cannot be scheduled": {
		local: localPod(), shadow: shadowPod(), pod: remotePod(func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable"}}
		}), want: "status Pending",
	},
	"row 13: a pod that waited for its namespace is no longer told so": {
		local: localPod(phase(corev1.PodPending, offloadingv1beta1.OffloadingBackOffReason)), shadow: shadowPod(), pod: remotePod(), want: "status Pending",
	},
	"row 13: a remote pod that is evicted takes only the readiness away": {
		local: localPod(running, ready), shadow: shadowPod(), pod: remotePod(phase(corev1.PodFailed), deleting), want: "status Running",
	},
	"row 13: nor does one more whose ShadowPod is deleted in the provider: the local pod gets another": {
		local: localPod(running, ready), shadow: shadowPod(shadowDeleting), pod: remotePod(phase(corev1.PodFailed), deleting), want: "status Running",
	},
	"row 13: no remote pod yet": {
		local: localPod(running), shadow: shadowPod(), want: "",
	},
	"row 13: the remote pod is gone for good": {
		local: localPod(running), shadow: shadowPod(shadowPhase(corev1.PodFailed)), want: "status Failed RemotePodTerminated",
	},
	"T25: the ShadowPod of an earlier pod goes first": {
		local: localPod(uid("local-2")), shadow: shadowPod(), pod: remotePod(running), want: "delete remote",
	},
	"T25: the ShadowPod of an earlier pod is going": {
		local: localPod(uid("local-2")), shadow: shadowPod(shadowDeleting), pod: remotePod(running), want: "",
	},
	"T25: the remote pod of an earlier pod is waited for": {
		local: localPod(uid("local-2")), pod: remotePod(running), want: "wait",
	},
	"T25: its status is not the new pod's": {
		local: localPod(uid("local-2")), shadow: shadowPod(shadowAnnotation(remote.LocalPodUIDAnnotation, "local-2")), pod: remotePod(running), want: "",
	},
	"T25: what the reference system made names no pod and is adopted": {
		local: localPod(), shadow: shadowPod(func(s *offloadingv1beta1.ShadowPod) { s.Annotations = nil }),
		pod: remotePod(running, func(p *corev1.Pod) { p.Annotations = nil }), want: "status Running, patch +" + remote.LocalPodUIDAnnotation,
	},
}

func TestDecide(t *testing.T) {
	for name, tc := range decideTests {
		t.Run(name, func(t *testing.T) {
			in := input(tc.local, tc.shadow, tc.pod)
			actions, err := decide(t.Context(), definition(&policies{}), in)
			require.NoError(t, err)
			require.NotEmpty(t, actions, "every decision says something")
			assert.Equal(t, tc.want, summary(actions))
		})
	}
}

func TestDecideDoesNotAlterItsInput(t *testing.T) {
	local, shadow, pod := localPod(label("new", "x")), shadowPod(), remotePod(phase(corev1.PodRunning), container("web", 3))
	in := input(local.DeepCopy(), shadow.DeepCopy(), pod.DeepCopy())
	_, err := decide(t.Context(), definition(&policies{}), in)
	require.NoError(t, err)
	assert.Equal(t, client.Object(local), in.Local)
	assert.Equal(t, client.Object(shadow), in.Remote)
	assert.Equal(t, client.Object(pod), in.Dependent)
}

func TestPoliciesThatDoNotAgree(t *testing.T) {
	deny := func(in chain.Input) (*chain.Result, error) {
		return &chain.Result{Object: in.Object, Denial: &chain.Denied{Policy: "frugal", Reason: "TooExpensive", Message: "GPU pods stay at home"}}, nil
	}
	trap := func(chain.Input) (*chain.Result, error) { return nil, errors.New("trapped") }

	t.Run("a new pod that is refused stays pending and is told why", func(t *testing.T) {
		in := input(localPod(), nil, nil)
		actions, err := decide(t.Context(), definition(&policies{answer: deny}), in)
		require.NoError(t, err)
		assert.Equal(t, "status Pending OffloadingDenied, tell OffloadingDenied", summary(actions))
		assert.Contains(t, actions[1].(engine.RecordEvent).Message, "GPU pods stay at home")

		// Decided again, with the status that it now has: nothing more to write.
		refused := localPod()
		refused.Status = *actions[0].(engine.PatchLocalStatus).New.(*corev1.PodStatus)
		in = input(refused, nil, nil)
		in.Facts.Now = now.Add(time.Hour)
		actions, err = decide(t.Context(), definition(&policies{answer: deny}), in)
		require.NoError(t, err)
		assert.Equal(t, "tell OffloadingDenied", summary(actions))
	})
	t.Run("a new pod about which no policy answers is tried again", func(t *testing.T) {
		_, err := decide(t.Context(), definition(&policies{answer: trap}), input(localPod(), nil, nil))
		require.ErrorContains(t, err, "trapped")
	})
	t.Run("a new pod that goes without a policy is told", func(t *testing.T) {
		skips := func(in chain.Input) (*chain.Result, error) {
			result := &chain.Result{Object: in.Object}
			if in.Point == contract.PodMutation {
				result.Decisions = []chain.Decision{
					{Point: in.Point, Binding: "buggy", Module: "m", Digest: "sha256:0123456789abcdef", Ignored: "it trapped"},
					{Point: in.Point, Binding: "new", Module: "n", Digest: "sha256:fedcba9876543210", FellBack: "it trapped too"},
				}
			}
			return result, nil
		}
		actions, err := decide(t.Context(), definition(&policies{answer: skips}), input(localPod(), nil, nil))
		require.NoError(t, err)
		assert.Equal(t, "create, wait, tell PolicySkipped", summary(actions))
		assert.Equal(t, `Offloaded, but policy "buggy" (module m, 0123456789ab) was skipped: it trapped; the previous version of policy "new" (fedcba987654) decided: it trapped too`,
			actions[len(actions)-1].(engine.RecordEvent).Message)
	})
	t.Run("a pod that runs keeps its labels when it would be refused now", func(t *testing.T) {
		in := input(localPod(label("new", "x")), shadowPod(), nil)
		actions, err := decide(t.Context(), definition(&policies{answer: deny}), in)
		require.NoError(t, err)
		assert.Empty(t, summary(actions))
	})
	t.Run("a policy that fails does not hold back the status", func(t *testing.T) {
		in := input(localPod(label("new", "x")), shadowPod(), remotePod(phase(corev1.PodRunning)))
		actions, err := decide(t.Context(), definition(&policies{answer: trap}), in)
		require.NoError(t, err)
		assert.Equal(t, "status Running, tell FailedReflection, wait", summary(actions))
	})
}

// recall returns the input with what the actions ask to remember.
func recall(in engine.Input, actions []engine.Action) engine.Input {
	for _, action := range actions {
		if remember, ok := action.(engine.Remember); ok {
			in.Memory = remember.Value
		}
	}
	return in
}

func TestPoliciesAreAskedOnce(t *testing.T) {
	p := &policies{}
	d := definition(p)
	in := input(localPod(), nil, nil)
	actions, err := decide(t.Context(), d, in)
	require.NoError(t, err)
	asked := p.asked
	require.Positive(t, asked)
	shadow := actions[0].(engine.Create).Object.(*offloadingv1beta1.ShadowPod).DeepCopy()
	shadow.UID = "shadow-1"
	memory := recall(in, actions)

	// The ShadowPod is seen, with a label of the provider, and its pod runs.
	shadow.Labels[offloadingv1beta1.CreatorUserLabel] = "rome"
	in = input(localPod(), shadow, remotePod(phase(corev1.PodRunning)))
	in.Memory = memory.Memory
	actions, err = decide(t.Context(), d, in)
	require.NoError(t, err)
	assert.Equal(t, "status Running", summary(actions))
	assert.Equal(t, asked, p.asked, "nothing that a policy depends on has changed")
	in = recall(in, actions)

	// New policies are asked, and again only once.
	in.Facts.PolicyRevision++
	for range 2 {
		actions, err = decide(t.Context(), d, in)
		require.NoError(t, err)
		in = recall(in, actions)
	}
	assert.Equal(t, 2*asked, p.asked)
}

func TestCreatedShadowPod(t *testing.T) {
	actions, err := decide(t.Context(), definition(&policies{}), input(localPod(), nil, nil))
	require.NoError(t, err)
	shadow := actions[0].(engine.Create).Object.(*offloadingv1beta1.ShadowPod)
	assert.Equal(t, "local-1", shadow.Annotations[remote.LocalPodUIDAnnotation], "T25")
	assert.Equal(t, "rome", shadow.Labels[offloadingv1beta1.OriginLabel])
	assert.Equal(t, "milan", shadow.Labels[offloadingv1beta1.DestinationLabel])
	assert.Equal(t, "milan-node", shadow.Labels[offloadingv1beta1.NodeNameLabel])
	assert.NotContains(t, shadow.Labels, offloadingv1beta1.LocalPodLabel)
	assert.Len(t, shadow.Spec.Pod.Containers, 1)
}

func TestFallback(t *testing.T) {
	tests := map[string]struct {
		local *corev1.Pod
		want  string
	}{
		"terminating":          {local: localPod(deleting), want: "delete local"},
		"finished":             {local: localPod(phase(corev1.PodSucceeded)), want: ""},
		"never ran":            {local: localPod(), want: "status Pending OffloadingBackOff, tell ReflectionDisabled"},
		"runs":                 {local: localPod(phase(corev1.PodRunning)), want: "status Failed OffloadingAborted"},
		"pending, has started": {local: localPod(container("web", 0)), want: "status Failed OffloadingAborted"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			actions, err := definition(&policies{}).Fallback(input(tc.local, nil, nil))
			require.NoError(t, err)
			assert.Equal(t, tc.want, summary(actions))
		})
	}
	t.Run("runs, and the provider fails to restore the namespace", func(t *testing.T) {
		in := input(localPod(phase(corev1.PodRunning)), nil, nil)
		in.Facts.MappingFails = true
		actions, err := definition(&policies{}).Fallback(in)
		require.NoError(t, err)
		assert.Equal(t, "tell FailedReflection", summary(actions), "it is not aborted")
	})
	t.Run("told before", func(t *testing.T) {
		in := input(localPod(), nil, nil)
		actions, err := definition(&policies{}).Fallback(in)
		require.NoError(t, err)
		told := localPod()
		told.Status = *actions[0].(engine.PatchLocalStatus).New.(*corev1.PodStatus)
		in = input(told, nil, nil)
		in.Facts.Now = now.Add(time.Hour)
		actions, err = definition(&policies{}).Fallback(in)
		require.NoError(t, err)
		assert.Equal(t, "tell ReflectionDisabled", summary(actions), "no second write; the engine tells once")
	})
}

func TestTheCacheHoldsNoSpec(t *testing.T) {
	resource := definition(&policies{}).Resource()
	shadow, pod := shadowPod(), remotePod()
	shadow.Spec.Pod.Containers = []corev1.Container{{Name: "web"}}
	pod.Spec.Containers = []corev1.Container{{Name: "web"}}
	resource.Remote.Trim(shadow)
	resource.Dependent.Trim(pod)
	assert.Empty(t, shadow.Spec.Pod.Containers)
	assert.Empty(t, pod.Spec.Containers)
	assert.Nil(t, resource.Local.Trim, "the local pod is forged from and served to kubectl")
}

// A new pod that a policy weakens stays pending, and the policy is named.
func TestAPolicyThatWeakensAPodIsNamed(t *testing.T) {
	weaken := func(in chain.Input) (*chain.Result, error) {
		if in.Point != contract.PodMutation {
			return &chain.Result{Object: in.Object}, nil
		}
		operations, err := operation.Compile([]contract.Operation{contract.Set("/spec/hostNetwork", contract.Bool(true))})
		require.NoError(t, err)
		object, effects, err := operation.Apply(in.Object, operations)
		require.NoError(t, err)
		return &chain.Result{Object: object, Changed: true, Decisions: []chain.Decision{
			{Point: in.Point, Binding: "innocent", Module: "other"},
			{Point: in.Point, Binding: "evil", Module: "evil-module", Digest: "sha256:0123456789abcdef", Effects: effects},
		}}, nil
	}
	actions, err := decide(t.Context(), definition(&policies{answer: weaken}), input(localPod(), nil, nil))
	require.NoError(t, err)
	assert.Equal(t, "status Pending OffloadingDenied, tell OffloadingDenied", summary(actions))
	message := actions[1].(engine.RecordEvent).Message
	assert.Contains(t, message, `policy "evil" (module evil-module, 0123456789ab) broke what no policy may change: /spec/pod/hostNetwork: set to true`)
	assert.NotContains(t, message, "innocent")
}

// A new pod that a failing policy holds up is told which one, why, and who must act.
func TestAPolicyThatFailsIsNamed(t *testing.T) {
	failure := &chain.PolicyError{
		Point: contract.PodMutation, Moment: contract.MomentOffload, Binding: "buggy", Module: "buggy-module", Digest: "sha256:0123456789abcdef",
		Class: policyengine.Trap, Err: &policyengine.CallError{
			Module: "buggy-module", Point: "pod_mutation", Class: policyengine.Trap,
			Err: errors.New("the module crashed: unreachable; its author must correct it; it wrote: panic: boom"),
		},
	}
	fails := &policies{answer: func(chain.Input) (*chain.Result, error) { return nil, fmt.Errorf("asking: %w", failure) }}
	actions, err := decide(t.Context(), definition(fails), input(localPod(), nil, nil))
	require.NoError(t, err)
	assert.Equal(t, "status Pending PolicyFailed, tell PolicyFailed, wait", summary(actions))
	want := `Not offloaded: policy "buggy" (module buggy-module, 0123456789ab) gave no valid answer at PodMutation/Offload (Trap): pod_mutation: the module crashed: unreachable; its author must correct it; it wrote: panic: boom; an operator can set spec.failurePolicy or spec.mode of OffloadingPolicy "buggy", or of the ConfigMap it is kept from, meanwhile`
	assert.Equal(t, want, actions[1].(engine.RecordEvent).Message)
	waiting := localPod()
	waiting.Status = *actions[0].(engine.PatchLocalStatus).New.(*corev1.PodStatus)
	assert.Equal(t, want, waiting.Status.Message)

	actions, err = decide(t.Context(), definition(fails), input(waiting, nil, nil))
	require.NoError(t, err)
	assert.Equal(t, "tell PolicyFailed, wait", summary(actions), "nothing more to write")
	actions, err = decide(t.Context(), definition(fails), input(localPod(running), nil, nil))
	require.NoError(t, err)
	assert.Equal(t, "tell PolicyFailed, wait", summary(actions), "a pod that has run keeps its status")
	actions, err = decide(t.Context(), definition(&policies{}), input(waiting, nil, nil))
	require.NoError(t, err)
	assert.Equal(t, "create, wait", summary(actions), "when the policy recovers")

	failure.Class = chain.Host
	_, err = decide(t.Context(), definition(fails), input(localPod(), nil, nil))
	require.ErrorIs(t, err, failure, "what is not the policy's fault is tried again soon")
}
