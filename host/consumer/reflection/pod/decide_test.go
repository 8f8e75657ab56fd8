package pod

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// decideTests are the cases of Decide.
var decideTests = map[string]struct {
	local  *corev1.Pod
	shadow *offloadingv1beta1.ShadowPod
	pod    *corev1.Pod
	want   string
}{
	"an unmanaged ShadowPod is a conflict": {
		local: localPod(), shadow: shadowPod(shadowLabel(offloadingv1beta1.OriginLabel, "paris")), want: "event FailedReflection",
	},
	"an unmanaged remote pod is a conflict": {
		local: localPod(), shadow: shadowPod(), pod: remotePod(label(offloadingv1beta1.DestinationLabel, "")), want: "event FailedReflection",
	},
	"without a local pod there is no event": {
		shadow: shadowPod(shadowLabel(offloadingv1beta1.OriginLabel, "paris")), want: "keep UnmanagedRemoteObject",
	},
	"the local pod is gone": {
		shadow: shadowPod(), pod: remotePod(), want: "delete ShadowPod, keep LocalPodGone",
	},
	"the local pod is gone and the ShadowPod is being deleted": {
		shadow: shadowPod(shadowDeleting), pod: remotePod(), want: "keep LocalPodGone",
	},
	"only the remote pod is left": {
		pod: remotePod(), want: "keep LocalPodGone",
	},
	"terminating after its end": {
		local: localPod(deleting, phase(corev1.PodSucceeded)), want: "delete local pod",
	},
	"terminating and nothing remote": {
		local: localPod(deleting), want: "status Failed, delete local pod",
	},
	"terminating": {
		local: localPod(deleting, running), shadow: shadowPod(), pod: remotePod(running), want: "delete ShadowPod, status Running",
	},
	"the local pod and the ShadowPod are terminating": {
		local: localPod(deleting, running), shadow: shadowPod(shadowDeleting), pod: remotePod(phase(corev1.PodFailed)), want: "status Failed",
	},
	"terminating, only the remote pod is left (T17)": {
		local: localPod(deleting, running), pod: remotePod(phase(corev1.PodSucceeded)), want: "status Succeeded",
	},
	"aborted": {
		local: localPod(phase(corev1.PodFailed, offloadingv1beta1.OffloadingAbortedReason)), shadow: shadowPod(), pod: remotePod(), want: "delete ShadowPod, keep PodAborted",
	},
	"aborted, nothing left": {
		local: localPod(phase(corev1.PodFailed, offloadingv1beta1.OffloadingAbortedReason)), want: "keep PodAborted",
	},
	"aborted, and its ReplicaSet has another one": {
		local: localPod(phase(corev1.PodFailed, offloadingv1beta1.OffloadingAbortedReason), controlledBy("apps/v1", "ReplicaSet")), want: "delete local pod",
	},
	"aborted, the remote pod has not ended": {
		local: localPod(phase(corev1.PodFailed, offloadingv1beta1.OffloadingAbortedReason), controlledBy("apps/v1", "ReplicaSet")), pod: remotePod(deleting), want: "keep PodAborted",
	},
	"aborted, and its Job counts it": {
		local: localPod(phase(corev1.PodFailed, offloadingv1beta1.OffloadingAbortedReason), controlledBy("batch/v1", "Job")), want: "keep PodAborted",
	},
	"finished, nothing remote": {
		local: localPod(phase(corev1.PodSucceeded)), want: "keep PodFinished",
	},
	"finished on both sides": {
		local: localPod(phase(corev1.PodSucceeded)), shadow: shadowPod(), pod: remotePod(phase(corev1.PodSucceeded)), want: "keep PodFinished",
	},
	"finished in the consumer only": {
		local: localPod(phase(corev1.PodFailed)), shadow: shadowPod(), pod: remotePod(running), want: "status Running, keep MetadataUpToDate",
	},
	"the label is sent with the status": {
		local: localPod(label(offloadingv1beta1.LocalPodLabel, "")), shadow: shadowPod(), pod: remotePod(running), want: "status Running with label, keep MetadataUpToDate",
	},
	"the label waits for a status": {
		local: localPod(label(offloadingv1beta1.LocalPodLabel, "")), shadow: shadowPod(created(now)), pod: remotePod(), want: "keep NothingReported, wait StatusForLabel, keep MetadataUpToDate",
	},
	"the label is sent alone when there is no status for a while": {
		local: localPod(label(offloadingv1beta1.LocalPodLabel, "")), shadow: shadowPod(created(now.Add(-time.Minute))), want: "keep NoRemotePod, label, keep MetadataUpToDate",
	},
	"a new pod": {
		local: localPod(label(offloadingv1beta1.LocalPodLabel, "")), want: "first serviceaccount, create, wait StatusForLabel",
	},
	"the ShadowPod vanished while the pod runs": {
		local: localPod(running), want: "first serviceaccount, create, wait StatusForLabel",
	},
	"the provider is unreachable": {
		local: localPod(label("new", "label"), label(offloadingv1beta1.RemoteUnavailableLabel, "true")), shadow: shadowPod(), want: "keep NoRemotePod, keep RemoteUnavailable",
	},
	"a label was added": {
		local: localPod(label("new", "label")), shadow: shadowPod(), want: "keep NoRemotePod, patch +new",
	},
	"a label was removed, an annotation added": {
		local: localPod(annotation("note", "x")), shadow: shadowPod(shadowLabel("old", "label")), want: "keep NoRemotePod, patch -old +note",
	},
	"labels of the provider are ignored (T21)": {
		local: localPod(), shadow: shadowPod(shadowLabel(offloadingv1beta1.CreatorUserLabel, "rome"), shadowLabel(offloadingv1beta1.ManagedByLabel, "shadowpod")), want: "keep NoRemotePod, keep MetadataUpToDate",
	},
	"the decisions of the creation stay": {
		local: localPod(), shadow: shadowPod(shadowAnnotation(remote.DecisionsAnnotation, `[{"point":"PodMutation","policy":"p","ops":["set /spec/hostname"]}]`)), want: "keep NoRemotePod, keep MetadataUpToDate",
	},
	"not while the ShadowPod is being deleted": {
		local: localPod(label("new", "label")), shadow: shadowPod(shadowDeleting), want: "keep NoRemotePod, keep ShadowPodTerminating",
	},
	"the remote pod runs": {
		local: localPod(), shadow: shadowPod(), pod: remotePod(running), want: "status Running, keep MetadataUpToDate",
	},
	"the remote pod has nothing to report yet": {
		local: localPod(), shadow: shadowPod(), pod: remotePod(), want: "keep NothingReported, keep MetadataUpToDate",
	},
	"the remote pod cannot be scheduled": {
		local: localPod(), shadow: shadowPod(), pod: remotePod(func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable"}}
		}), want: "status Pending, keep MetadataUpToDate",
	},
	"the status of a pod that waited for its namespace is replaced": {
		local: localPod(phase(corev1.PodPending, offloadingv1beta1.OffloadingBackOffReason)), shadow: shadowPod(), pod: remotePod(), want: "status Pending, keep MetadataUpToDate",
	},
	"an evicted remote pod makes the local pod not ready": {
		local: localPod(running, ready), shadow: shadowPod(), pod: remotePod(phase(corev1.PodFailed), deleting), want: "status Running, keep MetadataUpToDate",
	},
	"the same when the ShadowPod is deleted in the provider": {
		local: localPod(running, ready), shadow: shadowPod(shadowDeleting), pod: remotePod(phase(corev1.PodFailed), deleting), want: "status Running, keep ShadowPodTerminating",
	},
	"no remote pod yet": {
		local: localPod(running), shadow: shadowPod(), want: "keep NoRemotePod, keep MetadataUpToDate",
	},
	"the remote pod is gone for good": {
		local: localPod(running), shadow: shadowPod(shadowPhase(corev1.PodFailed)), want: "status Failed RemotePodTerminated, keep MetadataUpToDate",
	},
	"T25: the ShadowPod of an earlier pod is deleted first": {
		local: localPod(uid("local-2")), shadow: shadowPod(), pod: remotePod(running), want: "delete ShadowPod, keep StaleShadowPod",
	},
	"T25: the ShadowPod of an earlier pod is being deleted": {
		local: localPod(uid("local-2")), shadow: shadowPod(shadowDeleting), pod: remotePod(running), want: "keep StaleShadowPod",
	},
	"T25: the remote pod of an earlier pod is waited for": {
		local: localPod(uid("local-2")), pod: remotePod(running), want: "wait StaleRemotePod",
	},
	"T25: the status of an earlier pod is not mirrored": {
		local: localPod(uid("local-2")), shadow: shadowPod(shadowAnnotation(remote.LocalPodUIDAnnotation, "local-2")), pod: remotePod(running), want: "keep NoRemotePod, keep MetadataUpToDate",
	},
	"T25: objects of the reference system record no local pod and are adopted": {
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

func TestPoliciesThatDenyOrFail(t *testing.T) {
	deny := func(in chain.Input) (*chain.Result, error) {
		return &chain.Result{Object: in.Object, Denial: &chain.Denied{Policy: "frugal", Reason: "TooExpensive", Message: "GPU pods stay at home"}}, nil
	}
	trap := func(chain.Input) (*chain.Result, error) { return nil, errors.New("trapped") }

	t.Run("a new pod that is denied stays pending", func(t *testing.T) {
		in := input(localPod(), nil, nil)
		actions, err := decide(t.Context(), definition(&policies{answer: deny}), in)
		require.NoError(t, err)
		assert.Equal(t, "status Pending OffloadingDenied, event OffloadingDenied", summary(actions))
		assert.Contains(t, actions[1].(engine.RecordEvent).Message, "GPU pods stay at home")

		// The second decision finds the status unchanged.
		denied := localPod()
		denied.Status = *patchedStatus(actions)
		in = input(denied, nil, nil)
		in.Facts.Now = now.Add(time.Hour)
		actions, err = decide(t.Context(), definition(&policies{answer: deny}), in)
		require.NoError(t, err)
		assert.Equal(t, "keep StatusUnchanged, event OffloadingDenied", summary(actions))
	})
	t.Run("a new pod is tried again when the evaluation fails", func(t *testing.T) {
		_, err := decide(t.Context(), definition(&policies{answer: trap}), input(localPod(), nil, nil))
		require.ErrorContains(t, err, "trapped")
	})
	t.Run("a new pod that is offloaded without a policy gets an event", func(t *testing.T) {
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
		assert.Equal(t, "first serviceaccount, create, wait StatusForLabel, event PolicySkipped", summary(actions))
		assert.Equal(t, `Offloaded, but policy "buggy" (module m, 0123456789ab) was skipped: it trapped; the previous version of policy "new" (fedcba987654) decided: it trapped too`,
			actions[len(actions)-1].(engine.RecordEvent).Message)
	})
	t.Run("a pod that runs keeps its labels when a policy denies it later", func(t *testing.T) {
		in := input(localPod(label("new", "x")), shadowPod(), nil)
		actions, err := decide(t.Context(), definition(&policies{answer: deny}), in)
		require.NoError(t, err)
		assert.Equal(t, "keep NoRemotePod, keep DeniedAfterOffloading", summary(actions))
	})
	t.Run("a policy that fails does not delay the status", func(t *testing.T) {
		in := input(localPod(label("new", "x")), shadowPod(), remotePod(phase(corev1.PodRunning)))
		actions, err := decide(t.Context(), definition(&policies{answer: trap}), in)
		require.NoError(t, err)
		assert.Equal(t, "status Running, event FailedReflection, wait Policy", summary(actions))
	})
}

func TestPoliciesAreEvaluatedOncePerChange(t *testing.T) {
	p := &policies{}
	d := definition(p)
	in := input(localPod(), nil, nil)
	actions, err := decide(t.Context(), d, in)
	require.NoError(t, err)
	calls := p.calls
	require.Positive(t, calls)
	shadow := actions[1].(engine.Create).Object.(*offloadingv1beta1.ShadowPod).DeepCopy()
	shadow.UID = "shadow-1"
	stored := remember(in, actions).Memory

	// The ShadowPod is observed with a label of the provider, and its pod runs.
	shadow.Labels[offloadingv1beta1.CreatorUserLabel] = "rome"
	in = input(localPod(), shadow, remotePod(phase(corev1.PodRunning)))
	in.Memory = stored
	actions, err = decide(t.Context(), d, in)
	require.NoError(t, err)
	assert.Equal(t, "status Running, keep MetadataUpToDate", summary(actions))
	assert.Equal(t, calls, p.calls, "no input of a policy has changed")
	in = remember(in, actions)

	// A change of the policies causes one more evaluation.
	in.Facts.PolicyRevision++
	for range 2 {
		actions, err = decide(t.Context(), d, in)
		require.NoError(t, err)
		in = remember(in, actions)
	}
	assert.Equal(t, 2*calls, p.calls)
}

func TestCreatedShadowPod(t *testing.T) {
	actions, err := decide(t.Context(), definition(&policies{}), input(localPod(), nil, nil))
	require.NoError(t, err)
	shadow := actions[1].(engine.Create).Object.(*offloadingv1beta1.ShadowPod)
	assert.Equal(t, "local-1", shadow.Annotations[remote.LocalPodUIDAnnotation], "T25")
	assert.Equal(t, "rome", shadow.Labels[offloadingv1beta1.OriginLabel])
	assert.Equal(t, "milan", shadow.Labels[offloadingv1beta1.DestinationLabel])
	assert.Equal(t, "milan-node", shadow.Labels[offloadingv1beta1.NodeNameLabel])
	assert.NotContains(t, shadow.Labels, offloadingv1beta1.LocalPodLabel)
	assert.Len(t, shadow.Spec.Pod.Containers, 1)
}

// A namespace that is no longer offloaded ends, and the provider may take its time: nothing begins there.
func TestPodsOfAWithdrawnNamespace(t *testing.T) {
	tests := map[string]struct {
		in   engine.Input
		want string
	}{
		"never offloaded":           {in: input(localPod(), nil, nil), want: "status Pending OffloadingBackOff, event ReflectionDisabled"},
		"its remote objects ended":  {in: input(localPod(running), nil, nil), want: "status Failed OffloadingAborted"},
		"its remote pod still runs": {in: input(localPod(running), nil, remotePod()), want: "keep NamespaceWithdrawn"},
		"it runs and is reported":   {in: input(localPod(running), shadowPod(), remotePod(phase(corev1.PodRunning))), want: "status Running, keep MetadataUpToDate"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			tc.in.Facts.IsWithdrawn = true
			actions, err := decide(t.Context(), definition(&policies{}), tc.in)
			require.NoError(t, err)
			assert.Equal(t, tc.want, summary(actions))
		})
	}
	for name, alter := range map[string]func(*engine.Input){
		"whether the remote pod ended is not known": func(in *engine.Input) { in.IsDependentLost = true },
		"remote pods were read before an outage":    func(in *engine.Input) { in.Facts.RemoteUnknown = true },
	} {
		t.Run(name, func(t *testing.T) {
			in := input(localPod(running), nil, nil)
			in.Facts.IsWithdrawn = true
			alter(&in)
			actions, err := decide(t.Context(), definition(&policies{}), in)
			require.NoError(t, err)
			assert.Equal(t, "keep NamespaceWithdrawn", summary(actions))
		})
	}
}

func TestFallback(t *testing.T) {
	tests := map[string]struct {
		local *corev1.Pod
		want  string
	}{
		"terminating":          {local: localPod(deleting), want: "status Failed, delete local pod"},
		"finished":             {local: localPod(phase(corev1.PodSucceeded)), want: "keep PodFinished"},
		"never ran":            {local: localPod(), want: "status Pending OffloadingBackOff, event ReflectionDisabled"},
		"of a DaemonSet":       {local: localPod(ofDaemonSet), want: "status Pending DaemonSetNotOffloaded, event ReflectionDisabled"},
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
	neverSent := func(pod *corev1.Pod) { delete(pod.Labels, offloadingv1beta1.LocalPodLabel) }
	for name, tc := range map[string]struct {
		local *corev1.Pod
		want  string
	}{
		"runs":                           {local: localPod(phase(corev1.PodRunning)), want: "event FailedReflection, wait Mapping"},
		"was sent":                       {local: localPod(), want: "event FailedReflection, wait Mapping"},
		"runs, and is deleted":           {local: localPod(phase(corev1.PodRunning), deleting), want: "event FailedReflection, wait Mapping"},
		"was sent, and is deleted":       {local: localPod(deleting), want: "event FailedReflection, wait Mapping"},
		"runs, and has no label yet":     {local: localPod(phase(corev1.PodRunning), deleting, neverSent), want: "event FailedReflection, wait Mapping"},
		"starts, and has no label yet":   {local: localPod(container("web", 0), deleting, neverSent), want: "event FailedReflection, wait Mapping"},
		"ended, and is deleted":          {local: localPod(phase(corev1.PodSucceeded), deleting), want: "delete local pod"},
		"was never sent, and is deleted": {local: localPod(deleting, neverSent), want: "status Failed, delete local pod"},
		"was never sent":                 {local: localPod(neverSent), want: "status Pending OffloadingBackOff, event ReflectionDisabled"},
	} {
		t.Run("the provider reports no namespace, and the pod "+name, func(t *testing.T) {
			in := input(tc.local, nil, nil)
			in.Facts.MappingFails = true
			actions, err := definition(&policies{}).Fallback(in)
			require.NoError(t, err)
			assert.Equal(t, tc.want, summary(actions))
		})
	}
	t.Run("the namespace was accepted after it was looked up, and the pod is deleted", func(t *testing.T) {
		in := input(localPod(phase(corev1.PodRunning), deleting), nil, nil)
		in.Facts.MappingStarts = true
		actions, err := definition(&policies{}).Fallback(in)
		require.NoError(t, err)
		assert.Equal(t, "keep MappingStarts", summary(actions))
	})
	t.Run("the namespace was accepted after it was looked up", func(t *testing.T) {
		in := input(localPod(phase(corev1.PodRunning)), nil, nil)
		in.Facts.MappingStarts = true
		actions, err := definition(&policies{}).Fallback(in)
		require.NoError(t, err)
		assert.Equal(t, "keep MappingStarts", summary(actions))
	})
	t.Run("the status is written once", func(t *testing.T) {
		in := input(localPod(), nil, nil)
		actions, err := definition(&policies{}).Fallback(in)
		require.NoError(t, err)
		pending := localPod()
		pending.Status = *patchedStatus(actions)
		in = input(pending, nil, nil)
		in.Facts.Now = now.Add(time.Hour)
		actions, err = definition(&policies{}).Fallback(in)
		require.NoError(t, err)
		assert.Equal(t, "keep StatusUnchanged, event ReflectionDisabled", summary(actions))
	})
}

func TestTrim(t *testing.T) {
	resource := definition(&policies{}).Resource()
	shadow, pod := shadowPod(), remotePod()
	shadow.Spec.Pod.Containers = []corev1.Container{{Name: "web", Image: "web:1", Command: []string{"serve"}}}
	shadow.Spec.Pod.Volumes = []corev1.Volume{{Name: "data"}}
	pod.Spec.Containers = []corev1.Container{{Name: "web"}}
	pod.OwnerReferences = []metav1.OwnerReference{{Kind: "ShadowPod", Name: "web"}}
	pod.Annotations[remote.DecisionsAnnotation] = "[]"
	want := remoteMeta()
	delete(want.Labels, "app")
	resource.Remote.Trim(shadow)
	resource.Dependent.Trim(pod)
	assert.Equal(t, corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}}}, shadow.Spec.Pod, "what may change stays")
	assert.Empty(t, pod.Spec.Containers)
	assert.Equal(t, want, pod.ObjectMeta, "what says to which local pod it belongs")
	assert.Nil(t, resource.Local.Trim, "the local pod is the source of the ShadowPod and served to kubectl")
}

// A policy that violates an invariant is named, and the pod stays pending.
func TestPolicyThatViolatesAnInvariant(t *testing.T) {
	violate := func(in chain.Input) (*chain.Result, error) {
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
	actions, err := decide(t.Context(), definition(&policies{answer: violate}), input(localPod(), nil, nil))
	require.NoError(t, err)
	assert.Equal(t, "status Pending OffloadingDenied, event OffloadingDenied", summary(actions))
	message := actions[1].(engine.RecordEvent).Message
	assert.Contains(t, message, `policy "evil" (module evil-module, 0123456789ab) violated an invariant: /spec/pod/hostNetwork: set to true`)
	assert.NotContains(t, message, "innocent")
}

// A policy that fails is named, and the pod waits.
func TestPolicyThatFails(t *testing.T) {
	failure := &chain.PolicyError{
		Point: contract.PodMutation, Moment: contract.MomentOffload, Binding: "buggy", Module: "buggy-module", Digest: "sha256:0123456789abcdef",
		Class: policyengine.Trap, Err: &policyengine.CallError{
			Module: "buggy-module", Point: "pod_mutation", Class: policyengine.Trap,
			Err: errors.New("the module crashed: unreachable; its author must correct it; it wrote: panic: boom"),
		},
	}
	fails := &policies{answer: func(chain.Input) (*chain.Result, error) { return nil, fmt.Errorf("evaluating: %w", failure) }}
	actions, err := decide(t.Context(), definition(fails), input(localPod(), nil, nil))
	require.NoError(t, err)
	assert.Equal(t, "status Pending PolicyFailed, event PolicyFailed, wait Policy", summary(actions))
	want := `Not offloaded: policy "buggy" (module buggy-module, 0123456789ab) gave no valid answer at PodMutation/Offload (Trap): pod_mutation: the module crashed: unreachable; its author must correct it; it wrote: panic: boom; meanwhile, an operator can set spec.failurePolicy or spec.mode of OffloadingPolicy "buggy", or of the ConfigMap that defines it`
	assert.Equal(t, want, actions[1].(engine.RecordEvent).Message)
	waiting := localPod()
	waiting.Status = *patchedStatus(actions)
	assert.Equal(t, want, waiting.Status.Message)

	actions, err = decide(t.Context(), definition(fails), input(waiting, nil, nil))
	require.NoError(t, err)
	assert.Equal(t, "keep StatusUnchanged, event PolicyFailed, wait Policy", summary(actions))
	actions, err = decide(t.Context(), definition(fails), input(localPod(running), nil, nil))
	require.NoError(t, err)
	assert.Equal(t, "event PolicyFailed, wait Policy", summary(actions), "a pod that has run keeps its status")
	actions, err = decide(t.Context(), definition(&policies{}), input(waiting, nil, nil))
	require.NoError(t, err)
	assert.Equal(t, "first serviceaccount, create, wait StatusForLabel", summary(actions))

	failure.Class = chain.Host
	_, err = decide(t.Context(), definition(fails), input(localPod(), nil, nil))
	require.ErrorIs(t, err, failure, "errors of the host are retried with backoff")
}
