package policysource_test

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/policysource/plan"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// slow makes loads of this content wait until the test closes the channel or they are canceled.
func (r *rig) slow(content string) (let chan<- struct{}) {
	wait := make(chan struct{})
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waits == nil {
		r.waits = map[string]<-chan struct{}{}
	}
	r.waits[content] = wait
	return wait
}

func (r *rig) loaded() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.loads)
}

// begun waits until this number of loads has begun.
func (r *rig) begun(count int) {
	r.t.Helper()
	require.Eventually(r.t, func() bool { return len(r.loaded()) == count }, soon, tick)
}

func (r *rig) mustLook() {
	r.t.Helper()
	require.NoError(r.t, r.look())
}

func other(name, content string, order int32) (*policyv1alpha1.OffloadingPolicy, *corev1.ConfigMap) {
	return object(name, func(spec *policyv1alpha1.OffloadingPolicySpec) {
		fromConfigMap(spec)
		spec.Module.ConfigMap.Name, spec.Order = name, ptr.To(order)
	}), part(name, content)
}

func TestASlowLoadDoesNotDelayOtherPolicies(t *testing.T) {
	r := newRig(t, configMap("v1"), object("mine", fromConfigMap))
	r.mustPass()
	r.recorded()
	let := r.slow("slow")
	r.store("slow")
	r.mustLook()
	r.begun(2)
	reports := r.reports

	// Another policy comes, and one changes, while the module is being loaded.
	policy, stored := other("other", "v2", 7)
	require.NoError(t, r.client.Create(t.Context(), stored))
	require.NoError(t, r.client.Create(t.Context(), policy))
	require.NoError(t, r.client.Create(t.Context(), object("default-antiaffinity", func(s *policyv1alpha1.OffloadingPolicySpec) { s.Mode = policyv1alpha1.ModeDisabled })))
	r.mustLook()
	r.begun(3)
	assert.Empty(t, r.called(contract.AntiAffinityPreset))
	assert.Equal(t, "v1", r.hostname(), "the previous version decides")
	assert.Equal(t, reports, r.reports, "reports wait for short loads")

	r.later(time.Second)
	require.Eventually(t, func() bool {
		other := &policyv1alpha1.OffloadingPolicy{}
		if r.look() != nil || r.client.Get(t.Context(), client.ObjectKey{Name: "other"}, other) != nil {
			return false
		}
		condition := meta.FindStatusCondition(other.Status.Conditions, policyv1alpha1.ReadyCondition)
		return condition != nil && condition.Reason == "OrderNeeded"
	}, soon, tick, "it conflicts with the version that decides")
	assert.Equal(t, "True Disabled", r.reason("default-antiaffinity"))
	assert.Equal(t, "False Loading: 0/1 components decide by generation 1. Not current: webhook: The module is being loaded. The previous version decides.", r.ready("mine"))

	close(let)
	r.mustPass()
	assert.Equal(t, "slow", r.hostname())
	assert.Equal(t, "True Bound", r.reason("mine"))
	assert.Equal(t, []string{"v1", "slow", "v2"}, r.loaded())
	assert.Equal(t, []string{"v1"}, r.closed)
}

func TestALongLoadIsReported(t *testing.T) {
	r := newRig(t, configMap("slow"))
	r.mustPass()
	let := r.slow("slow")
	require.NoError(t, r.client.Create(t.Context(), object("mine", fromConfigMap)))
	r.mustLook()
	r.begun(1)
	assert.Equal(t, 1, r.reports, "the registration")
	assert.Equal(t, "none", r.ready("mine"))
	r.later(time.Second)
	r.report()
	assert.Equal(t, "False Loading", r.reason("mine"))
	assert.Equal(t, "0/1", r.get("mine").Status.Components)
	assert.Empty(t, r.hostname())
	close(let)
	r.mustPass()
	assert.Equal(t, "slow", r.hostname())
	assert.Equal(t, int64(1), r.get("mine").Status.ObservedGeneration)
}

// Before the first decision there is no previous version, so the decision waits for all modules.
func TestTheFirstDecisionWaitsForAllModules(t *testing.T) {
	policy, stored := other("other", "v2", 7)
	r := newRig(t, configMap("slow"), object("mine", func(s *policyv1alpha1.OffloadingPolicySpec) { fromConfigMap(s); s.Order = ptr.To[int32](9) }), policy, stored)
	let := r.slow("slow")
	r.mustLook()
	r.begun(2)
	r.mustLook()
	require.Error(t, r.source.Ready())
	assert.Equal(t, 1, r.reports, "the registration")
	close(let)
	r.mustPass()
	require.NoError(t, r.source.Ready())
	assert.Equal(t, []string{"default-podplacement", "other", "mine"}, r.called(contract.PodMutation))
}

func TestAnObsoleteLoadIsDropped(t *testing.T) {
	for name, leave := range map[string]func(*rig){
		"another version is stored": func(r *rig) { r.store("v2") },
		"the policy is deleted":     func(r *rig) { require.NoError(r.t, r.client.Delete(r.t.Context(), r.get("mine"))) },
		"the policy is disabled": func(r *rig) {
			r.edit("mine", func(p *policyv1alpha1.OffloadingPolicy) { p.Spec.Mode = policyv1alpha1.ModeDisabled })
		},
		"the policy names another ConfigMap": func(r *rig) {
			require.NoError(r.t, r.client.Create(r.t.Context(), part("other", "v2")))
			r.edit("mine", func(p *policyv1alpha1.OffloadingPolicy) { p.Spec.Module.ConfigMap.Name = "other" })
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, configMap("v1"), object("mine", fromConfigMap))
			r.mustPass()
			let := r.slow("slow")
			r.store("slow")
			r.mustLook()
			r.begun(2)
			leave(r)
			r.mustLook()
			close(let)
			r.mustPass()
			assert.NotEqual(t, "slow", r.hostname())
			assert.Contains(t, r.closed, "slow", "the module is closed")
			assert.Equal(t, 1, count(r.loaded(), "slow"))
			assert.NotContains(t, fmt.Sprint(r.texts("mine")), "slow")
		})
	}
}

func count(all []string, one string) int {
	n := 0
	for _, s := range all {
		if s == one {
			n++
		}
	}
	return n
}

// texts returns the messages of the policy's conditions, none when it is deleted.
func (r *rig) texts(name string) (texts []string) {
	list := &policyv1alpha1.OffloadingPolicyList{}
	require.NoError(r.t, r.client.List(r.t.Context(), list))
	for i := range list.Items {
		if list.Items[i].Name != name {
			continue
		}
		for _, c := range list.Items[i].Status.Conditions {
			texts = append(texts, c.Message)
		}
	}
	return texts
}

func TestEqualBytesAreLoadedOnceAtATime(t *testing.T) {
	r := newRig(t)
	r.mustPass()
	let := r.slow("slow")
	for i := range 5 {
		policy, stored := other(fmt.Sprintf("many-%d", i), "slow", int32(i+1))
		require.NoError(t, r.client.Create(t.Context(), stored))
		require.NoError(t, r.client.Create(t.Context(), policy))
		r.mustLook()
	}
	close(let)
	r.mustPass()
	assert.Equal(t, []string{"slow"}, r.loaded())
	assert.Len(t, r.called(contract.PodMutation), 6)
}

func TestLoadsEndWithTheComponent(t *testing.T) {
	r := newRig(t, configMap("endless"))
	r.mustPass()
	r.slow("endless")
	require.NoError(t, r.client.Create(t.Context(), object("mine", fromConfigMap)))
	r.mustLook()
	r.begun(1)
	r.source.StopLoads() // It returns, since the load is canceled.
	r.mustLook()
	r.source.AwaitLoads()
	assert.Equal(t, []string{"endless"}, r.loaded(), "no load begins after the stop")
	assert.Nil(t, meta.FindStatusCondition(r.get("mine").Status.Conditions, policyv1alpha1.ReadyCondition))
}

func TestVerdictsAreCached(t *testing.T) {
	r := newRig(t, configMap("v1"))
	r.mustPass()
	judge := func(policy *policyv1alpha1.OffloadingPolicy, stored *corev1.ConfigMap) string {
		t.Helper()
		verdict, err := r.source.Judge(t.Context(), policy, stored)
		require.NoError(t, err)
		assert.Equal(t, verdict.Reason != "", verdict.Denial != "", verdict.Denial)
		return verdict.Reason
	}
	set := func(settings string) *policyv1alpha1.OffloadingPolicy {
		return policyWith(func(s *policyv1alpha1.OffloadingPolicySpec) {
			s.Settings = &runtime.RawExtension{Raw: []byte(settings)}
		})
	}
	for range 3 {
		assert.Empty(t, judge(set(`{}`), nil))
		assert.Equal(t, plan.ReasonModuleNotLoaded, judge(set(`{}`), configMap("broken")))
		assert.Equal(t, plan.ReasonInvalidSettings, judge(set(`{"bad":true}`), nil))
	}
	assert.Equal(t, []string{"v1", "broken", "v1"}, r.loaded(), "once for each content: a retry compiles nothing")
	assert.Equal(t, []string{"v1", "v1"}, r.closed)

	// The other fields of the policy are checked each time.
	selector := set(`{}`)
	selector.Spec.FailurePolicy, selector.Spec.Match = policyv1alpha1.FailurePolicyIgnore, &policyv1alpha1.Match{MatchConditions: []policyv1alpha1.MatchCondition{{Name: "c", Expression: "no."}}}
	assert.Equal(t, plan.ReasonInvalidSpec, judge(selector, nil), "the expression does not compile")
	assert.Len(t, r.loaded(), 3)
	require.NoError(t, r.client.Create(t.Context(), object("elder", fromConfigMap)))
	r.mustPass()
	assert.Equal(t, plan.ReasonOrderNeeded, judge(set(`{}`), nil), "the bound policies are compared each time")
	assert.Len(t, r.loaded(), 4, "the reconciler's")

	// Another point, another name, other limits, other bytes: another verdict.
	points := set(`{}`)
	points.Spec.Points = []policyv1alpha1.ExtensionPoint{policyv1alpha1.MetadataFilterPoint}
	assert.Equal(t, plan.ReasonInvalidSpec, judge(points, nil), "the module does not answer this point")
	limited := set(`{}`)
	limited.Spec.Limits = &policyv1alpha1.Limits{Fuel: ptr.To[int64](5)}
	judge(limited, nil)
	named := set(`{}`)
	named.Name = "named"
	judge(named, nil)
	judge(set(`{}`), configMap("v2"))
	assert.Len(t, r.loaded(), 8)

	// Age and number of the cached verdicts are limited.
	r.later(11 * time.Minute)
	judge(set(`{}`), nil)
	assert.Len(t, r.loaded(), 9)
	for i := range 300 {
		judge(set(fmt.Sprintf(`{"n":%d}`, i)), nil)
	}
	before := len(r.loaded())
	judge(set(`{"n":299}`), nil)
	assert.Len(t, r.loaded(), before)
	judge(set(`{}`), nil)
	assert.Len(t, r.loaded(), before+1)
}

// Compiling ignores its context, so the load of a large module may end after the timeout of the
// API server. The verdict is there for its retry.
func TestALateVerdictIsCachedIfItIsPositive(t *testing.T) {
	for content, wantLoads := range map[string]int{"v1": 1, "broken": 2} {
		t.Run(content, func(t *testing.T) {
			r := newRig(t, configMap(content))
			r.mustPass()
			r.slow(content)
			ctx, cancel := context.WithCancel(t.Context())
			judged := make(chan error, 1)
			go func() {
				_, err := r.source.Judge(ctx, object("mine", fromConfigMap), nil)
				judged <- err
			}()
			r.begun(1)
			waiting, giveUp := context.WithCancel(t.Context())
			giveUp()
			_, err := r.source.Judge(waiting, object("mine", fromConfigMap), nil)
			require.ErrorIs(t, err, context.Canceled, "one at a time")
			cancel()
			require.ErrorIs(t, <-judged, context.Canceled)
			r.mu.Lock()
			r.waits = nil
			r.mu.Unlock()
			verdict, err := r.source.Judge(t.Context(), object("mine", fromConfigMap), nil)
			require.NoError(t, err)
			assert.Equal(t, content == "broken", verdict.Denial != "")
			assert.Len(t, r.loaded(), wantLoads)
		})
	}
}

func TestALackOfMemoryIsTemporary(t *testing.T) {
	r := newRig(t, configMap("v1"), object("mine", fromConfigMap))
	r.lacksMemory.Store(true)
	_, err := r.source.Judge(t.Context(), object("other", fromConfigMap), nil)
	require.ErrorIs(t, err, syscall.ENOMEM, "it is not a verdict")
	require.ErrorContains(t, err, "try again")
	r.mustPass()
	assert.Contains(t, r.ready("mine"), "the module is not the cause, and the load is repeated every minute")

	r.lacksMemory.Store(false)
	verdict, err := r.source.Judge(t.Context(), object("mine", fromConfigMap), nil)
	require.NoError(t, err)
	assert.Empty(t, verdict, "it was not cached")
	loads := len(r.loaded())
	r.mustPass()
	assert.Len(t, r.loaded(), loads, "the load is not repeated at each reconciliation")
	r.later(time.Minute)
	r.mustPass()
	assert.Equal(t, "True Bound", r.reason("mine"))
	assert.Equal(t, "v1", r.hostname())
}
