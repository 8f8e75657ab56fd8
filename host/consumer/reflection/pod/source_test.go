package pod

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/kit/podupdate"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// process is a virtual kubelet that has just started.
type process struct {
	asked     policies
	bound     string
	nodeLabel string
}

func (p *process) definition() *Definition {
	d := definition(&p.asked)
	d.options.Policies = func() string { return p.bound }
	d.options.VirtualNode = func() (*offloadingv1beta1.OffloadingPatch, contract.VirtualNode) {
		return nil, contract.VirtualNode{Name: "milan-node", Labels: map[string]string{"zone": p.nodeLabel}}
	}
	return d
}

// create returns the ShadowPod that a process creates for a pod.
func (p *process) create(t *testing.T, local *corev1.Pod) *offloadingv1beta1.ShadowPod {
	t.Helper()
	actions, err := decide(t.Context(), p.definition(), input(local, nil, nil))
	require.NoError(t, err)
	for _, action := range actions {
		if create, ok := action.(engine.Create); ok {
			shadow, ok := create.Object.(*offloadingv1beta1.ShadowPod)
			require.True(t, ok)
			return shadow
		}
	}
	require.Fail(t, "no ShadowPod is created", summary(actions))
	return nil
}

func unlabelled(pod *corev1.Pod) { delete(pod.Labels, offloadingv1beta1.LocalPodLabel) }

// A restart with 10,000 pods asks all policies about each of them otherwise.
func TestAProcessThatStartsAgainAsksNoPolicyAboutPodsThatAreAsRecorded(t *testing.T) {
	for name, test := range map[string]struct {
		before, after process
		local         []podOption
		change        func(*offloadingv1beta1.ShadowPod)
		isAsked       bool
		want          string
	}{
		"nothing has changed": {before: process{bound: "a"}, after: process{bound: "a"}, want: "keep NoRemotePod, keep MetadataUpToDate"},
		"a label of the local pod has changed": {
			before: process{bound: "a"}, after: process{bound: "a"}, local: []podOption{label("new", "x")},
			isAsked: true, want: "keep NoRemotePod, patch +new +longshore.dev/metadata-source",
		},
		"another pod has its name": {
			before: process{bound: "a"}, after: process{bound: "a"}, local: []podOption{uid("local-2")}, want: "delete ShadowPod, keep StaleShadowPod",
		},
		"the provider has changed a label": {
			before: process{bound: "a"}, after: process{bound: "a"}, change: func(s *offloadingv1beta1.ShadowPod) { s.Labels["app"] = "theirs" },
			isAsked: true, want: "keep NoRemotePod, patch +app +longshore.dev/metadata-source",
		},
		"the provider has removed the record": {
			before: process{bound: "a"}, after: process{bound: "a"},
			change:  func(s *offloadingv1beta1.ShadowPod) { delete(s.Annotations, podupdate.MetadataAnnotation) },
			isAsked: true, want: "keep NoRemotePod, keep MetadataUpToDate",
		},
		"the policies have changed": {
			before: process{bound: "a"}, after: process{bound: "b"}, isAsked: true, want: "keep NoRemotePod, keep MetadataUpToDate",
		},
		"the virtual node has changed": {
			before: process{bound: "a", nodeLabel: "1"}, after: process{bound: "a", nodeLabel: "2"}, isAsked: true, want: "keep NoRemotePod, keep MetadataUpToDate",
		},
		"the policies were not known": {after: process{bound: "a"}, isAsked: true, want: "keep NoRemotePod, keep MetadataUpToDate"},
		"the policies are not known":  {before: process{bound: "a"}, isAsked: true, want: "keep NoRemotePod, keep MetadataUpToDate"},
		"a policy failed and was skipped": {
			before: process{bound: "a", asked: policies{answer: skipped}}, after: process{bound: "a"},
			isAsked: true, want: "keep NoRemotePod, patch +longshore.dev/metadata-source +policy.longshore.dev/decisions",
		},
	} {
		t.Run(name, func(t *testing.T) {
			shadow := test.before.create(t, localPod(unlabelled))
			shadow.UID = "shadow-1"
			if test.change != nil {
				test.change(shadow)
			}
			d := test.after.definition()
			in := input(localPod(test.local...), shadow, nil)
			actions, err := decide(t.Context(), d, in)
			require.NoError(t, err)
			assert.Equal(t, test.want, summary(actions))
			assert.Equal(t, test.isAsked, test.after.asked.calls > 0)

			t.Run("and then knows it", func(t *testing.T) {
				for _, action := range actions {
					if patch, ok := action.(engine.PatchRemote); ok {
						shadow = patched(shadow, patch)
					}
				}
				calls := test.after.asked.calls
				in := input(localPod(test.local...), shadow, nil)
				in.Memory = remember(in, actions).Memory
				_, err := decide(t.Context(), d, in)
				require.NoError(t, err)
				assert.Equal(t, calls, test.after.asked.calls)
			})
		})
	}
}

// skipped is the answer of a policy that fails, with failurePolicy Ignore.
func skipped(in chain.Input) (*chain.Result, error) {
	return &chain.Result{Object: in.Object, Decisions: []chain.Decision{{Binding: "extra", Ignored: "it traps"}}}, nil
}

func patched(shadow *offloadingv1beta1.ShadowPod, patch engine.PatchRemote) *offloadingv1beta1.ShadowPod {
	next := shadow.DeepCopy()
	for target, changes := range map[*map[string]string]map[string]*string{&next.Labels: patch.Labels, &next.Annotations: patch.Annotations} {
		for key, value := range changes {
			if delete(*target, key); value != nil {
				(*target)[key] = *value
			}
		}
	}
	return next
}

// Policies that change while they are asked have answered before the change, or after it.
func TestNothingIsRecordedWhilePoliciesChange(t *testing.T) {
	p := process{bound: "a"}
	p.asked.answer = func(in chain.Input) (*chain.Result, error) {
		p.bound = "b"
		return &chain.Result{Object: in.Object}, nil
	}
	assert.NotContains(t, p.create(t, localPod()).Annotations, podupdate.MetadataAnnotation)
}

// The virtual kubelet labels a pod once its ShadowPod exists. That is not news for policies.
func TestTheLabelOfAnOffloadedPodAsksNoPolicyAgain(t *testing.T) {
	p := process{bound: "a"}
	d := p.definition()
	in := input(localPod(unlabelled), nil, nil)
	actions, err := decide(t.Context(), d, in)
	require.NoError(t, err)
	calls := p.asked.calls
	require.Positive(t, calls)
	shadow := (&process{bound: "a"}).create(t, localPod(unlabelled))
	next := input(localPod(), shadow, nil)
	next.Memory = remember(in, actions).Memory
	_, err = decide(t.Context(), d, next)
	require.NoError(t, err)
	assert.Equal(t, calls, p.asked.calls)
}
