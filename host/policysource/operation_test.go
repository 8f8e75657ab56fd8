package policysource_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// report makes the pass that only reports.
func (r *rig) report() {
	r.t.Helper()
	_, err := r.source.Reconcile(r.t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "report"}})
	require.NoError(r.t, err)
}

// later lets time pass.
func (r *rig) later(by time.Duration) { r.clock.SetTime(r.clock.Now().Add(by)) }

// told returns the events since the last look.
func (r *rig) told() []string {
	var events []string
	for {
		select {
		case event := <-r.events.Events:
			events = append(events, event)
		default:
			return events
		}
	}
}

// hostname asks about a pod and returns what its hostname becomes, or the error.
func (r *rig) hostname() string {
	r.t.Helper()
	result, err := r.source.Chains().Evaluate(r.t.Context(), chain.Input{
		Point:  contract.PodMutation,
		Object: map[string]any{"kind": "Pod", "metadata": map[string]any{"name": "web", "namespace": "shop"}, "spec": map[string]any{}},
	})
	if err != nil {
		return err.Error()
	}
	spec, _ := result.Object["spec"].(map[string]any)
	name, _ := spec["hostname"].(string)
	return name
}

func (r *rig) own(name string) policyv1alpha1.Observation {
	r.t.Helper()
	for _, o := range r.get(name).Status.ObservedBy {
		if o.Name == "webhook" {
			return o
		}
	}
	r.t.Fatal("webhook has not reported")
	return policyv1alpha1.Observation{}
}

func policyWith(change func(*policyv1alpha1.OffloadingPolicySpec)) *policyv1alpha1.OffloadingPolicy {
	return object("mine", func(spec *policyv1alpha1.OffloadingPolicySpec) {
		fromConfigMap(spec)
		change(spec)
	})
}

func TestAShadowIsRecordedAndNotApplied(t *testing.T) {
	r := newRig(t, configMap("v1"), policyWith(func(s *policyv1alpha1.OffloadingPolicySpec) { s.Mode = policyv1alpha1.ModeShadow }))
	r.mustPass()
	assert.Equal(t, "True Shadow: The policy is asked, and its answers are recorded but not applied: spec.mode is Shadow.", r.condition("mine", policyv1alpha1.ReadyCondition))
	for range 12 {
		assert.Empty(t, r.hostname())
	}
	assert.Equal(t, []string{"default-podplacement"}, r.asked(contract.PodMutation), "it decides nothing")

	r.later(time.Minute)
	r.report()
	own := r.own("mine")
	assert.Equal(t, &policyv1alpha1.Counters{Calls: 13, Changes: 13}, own.Counters)
	require.Len(t, own.Differences, 10, "the latest ones")
	assert.Equal(t, "Pod shop/web at PodMutation: [set /spec/hostname]", fmt.Sprintf("%s %s/%s at %s: %v",
		own.Differences[0].Kind, own.Differences[0].Namespace, own.Differences[0].Name, own.Differences[0].Point, own.Differences[0].Operations))
	assert.True(t, own.Differences[0].Time.Equal(&metav1.Time{Time: epoch}))
	require.NoError(t, testutil.GatherAndCompare(r.metrics, strings.NewReader(`
# HELP longshore_policy_shadow_total Questions to policies in mode Shadow, by what would have come of them: same, different, denied, failed.
# TYPE longshore_policy_shadow_total counter
longshore_policy_shadow_total{extension_point="PodMutation",policy="mine",result="different"} 13
`), "longshore_policy_shadow_total"))

	// Two shadows that write the same conflict with nobody; a failing one disturbs nobody.
	r.ill.Store(true)
	require.NoError(t, r.client.Create(t.Context(), object("other", func(s *policyv1alpha1.OffloadingPolicySpec) {
		fromConfigMap(s)
		s.Mode = policyv1alpha1.ModeShadow
	})))
	r.store("ill")
	r.mustPass()
	for range 10 {
		assert.Empty(t, r.hostname())
	}
	r.report()
	assert.Contains(t, r.condition("other", policyv1alpha1.DegradedCondition), "True Quarantined: Quarantined at PodMutation since 2026-01-02T03:05:05Z")
	assert.Contains(t, r.condition("other", policyv1alpha1.DegradedCondition), "Nothing else comes of it, since spec.mode is Shadow.")
}

func TestAShadowOfADefaultLeavesTheDefaultInPlace(t *testing.T) {
	r := newRig(t, configMap("v1"), object("default-podplacement", func(s *policyv1alpha1.OffloadingPolicySpec) {
		fromConfigMap(s)
		s.Mode = policyv1alpha1.ModeShadow
	}))
	r.mustPass()
	result := r.evaluate(contract.PodMutation, chain.Attributes{})
	assert.Equal(t, []string{"default-podplacement"}, names(result))
	assert.Equal(t, r.builtIn.Digest(), result.Decisions[0].Digest, "the default's")
	assert.Empty(t, r.hostname())
	r.later(time.Minute)
	r.report()
	own := r.own("default-podplacement")
	assert.Equal(t, &policyv1alpha1.Counters{Calls: 2, Changes: 2}, own.Counters, "the shadow's, not the default's")
	assert.Equal(t, []string{"set /spec/hostname", "remove /spec/tolerations"}, own.Differences[0].Operations, "instead of the default")
	_, err := r.metrics.Gather()
	require.NoError(t, err)
}

func TestAQuarantineIsToldAndEnds(t *testing.T) {
	r := newRig(t, configMap("ill"), policyWith(func(*policyv1alpha1.OffloadingPolicySpec) {}))
	r.mustPass()
	module := newCustom("ill")
	assert.Equal(t, []string{"Normal Loaded Module custom ill (" + chain.ShortDigest(module.Digest()) + ") is loaded and decides at [PodMutation]"}, r.told())

	r.ill.Store(true)
	assert.Contains(t, r.hostname(), "gave no valid answer at PodMutation (Trap): ")
	r.report()
	assert.Contains(t, r.condition("mine", policyv1alpha1.DegradedCondition), "True Failing: The latest question at PodMutation got no valid answer (Trap: pod_mutation: the module crashed: unreachable; its author must correct it; it wrote: panic: boom). Objects that need it are refused, since spec.failurePolicy is Fail. The module's author must correct it; an operator can load a version that works, or set spec.failurePolicy or spec.mode meanwhile.")
	assert.Contains(t, r.condition("mine", policyv1alpha1.ReadyCondition), "True Bound")
	assert.Empty(t, r.told(), "one failure is no event")

	for range 5 {
		r.hostname()
	}
	assert.Contains(t, r.hostname(), `policy "mine" (module custom, `+chain.ShortDigest(module.Digest())+`) is quarantined at PodMutation: not called since 2026-01-02T03:04:05Z`)
	r.report()
	want := "Quarantined at PodMutation since 2026-01-02T03:04:05Z, because it gave no valid answer several times in a row (Trap: pod_mutation: the module crashed: unreachable; its author must correct it; it wrote: panic: boom). Objects that need it are refused, since spec.failurePolicy is Fail. The module's author must correct it; an operator can load a version that works, or set spec.failurePolicy or spec.mode meanwhile. It is tried again from time to time."
	assert.Equal(t, "False Quarantined: "+want, r.condition("mine", policyv1alpha1.ReadyCondition))
	assert.Equal(t, "True Quarantined: "+want, r.condition("mine", policyv1alpha1.DegradedCondition))
	assert.Equal(t, want, r.own("mine").Message)
	assert.Equal(t, []string{"Warning Quarantined In webhook: " + want}, r.told())
	require.NoError(t, testutil.GatherAndCompare(r.metrics, strings.NewReader(`
# HELP longshore_policy_errors_total Questions without a valid answer, by class: Timeout, Memory, Trap, BadOutput, Denied, Guest, UndeclaredWrite, ObjectTooLarge, Quarantined, Unavailable, Host.
# TYPE longshore_policy_errors_total counter
longshore_policy_errors_total{class="Quarantined",extension_point="PodMutation",policy="mine"} 2
longshore_policy_errors_total{class="Trap",extension_point="PodMutation",policy="mine"} 5
# HELP longshore_policy_quarantined Whether a policy is not asked because it keeps failing: 0 or 1.
# TYPE longshore_policy_quarantined gauge
longshore_policy_quarantined{extension_point="AntiAffinityPreset",policy="default-antiaffinity"} 0
longshore_policy_quarantined{extension_point="MetadataFilter",policy="default-metadatafilter"} 0
longshore_policy_quarantined{extension_point="OffloadingPatch",policy="default-offloadingpatch"} 0
longshore_policy_quarantined{extension_point="PodMutation",policy="default-podplacement"} 0
longshore_policy_quarantined{extension_point="PodMutation",policy="mine"} 1
`), "longshore_policy_errors_total", "longshore_policy_quarantined"))
	r.report()
	r.mustPass()
	assert.Empty(t, r.told(), "told once")

	r.ill.Store(false)
	r.later(time.Minute)
	changes := r.changes
	assert.Equal(t, "ill", r.hostname(), "the probe")
	r.report()
	assert.Equal(t, []string{"Normal Recovered In webhook: version " + chain.ShortDigest(module.Digest()) + " gives valid answers again"}, r.told())
	assert.Equal(t, changes+1, r.changes, "what waited is decided anew")
	assert.Equal(t, "True Bound: The policy is asked.", r.condition("mine", policyv1alpha1.ReadyCondition))
	assert.Equal(t, "False AsExpected: Nothing is wrong.", r.condition("mine", policyv1alpha1.DegradedCondition))
	assert.Empty(t, r.own("mine").Message)
}

func TestANewVersionLiftsAQuarantine(t *testing.T) {
	r := newRig(t, configMap("ill"), policyWith(func(s *policyv1alpha1.OffloadingPolicySpec) { s.FailurePolicy = policyv1alpha1.FailurePolicyIgnore }))
	r.mustPass()
	r.ill.Store(true)
	for range 6 {
		assert.Empty(t, r.hostname(), "skipped")
	}
	r.report()
	assert.Contains(t, r.condition("mine", policyv1alpha1.ReadyCondition), "Objects pass without it, since spec.failurePolicy is Ignore.")
	r.told()
	r.store("v2")
	r.mustPass()
	assert.Equal(t, "v2", r.hostname())
	assert.Equal(t, []string{
		"Normal Recovered In webhook: another version has been loaded, which lifts the quarantine",
		"Normal Loaded Module custom v2 (" + chain.ShortDigest(newCustom("v2").Digest()) + ") is loaded and decides at [PodMutation]",
	}, r.told())
}

func TestDisablingLiftsAQuarantine(t *testing.T) {
	r := newRig(t, configMap("ill"), policyWith(func(*policyv1alpha1.OffloadingPolicySpec) {}))
	r.mustPass()
	r.ill.Store(true)
	for range 5 {
		r.hostname()
	}
	r.report()
	r.told()
	r.edit("mine", func(p *policyv1alpha1.OffloadingPolicy) { p.Spec.Mode = policyv1alpha1.ModeDisabled })
	r.mustPass()
	assert.Empty(t, r.hostname())
	assert.Equal(t, []string{"Normal Recovered In webhook: the policy is not asked any more, which lifts the quarantine"}, r.told())
	assert.Equal(t, "False AsExpected: Nothing is wrong.", r.condition("mine", policyv1alpha1.DegradedCondition))
}

func TestLastGoodFallsBackAndSaysSo(t *testing.T) {
	r := newRig(t, configMap("v1"), policyWith(func(s *policyv1alpha1.OffloadingPolicySpec) { s.FailurePolicy = policyv1alpha1.FailurePolicyLastGood }))
	r.mustPass()
	assert.Equal(t, "v1", r.hostname())
	r.ill.Store(true)
	r.store("ill")
	r.mustPass()
	assert.Equal(t, newCustom("ill").Digest(), r.get("mine").Status.Digest)
	r.told()
	for range 10 {
		assert.Equal(t, "v1", r.hostname(), "pods keep flowing")
	}
	r.report()
	short := chain.ShortDigest(newCustom("v1").Digest())
	assert.Contains(t, r.condition("mine", policyv1alpha1.ReadyCondition), "True FellBack: Quarantined at PodMutation")
	assert.Contains(t, r.condition("mine", policyv1alpha1.DegradedCondition), "The previous version ("+short+") answers instead.")
	assert.Equal(t, newCustom("v1").Digest(), r.get("mine").Status.Digest, "the digest is that of the version that decides")
	told := r.told()
	require.Len(t, told, 1)
	assert.Contains(t, told[0], "Warning FellBack In webhook: Quarantined")
	assert.Empty(t, r.closed, "the previous version stays open")
	for range 3 {
		r.mustPass()
		assert.Equal(t, "v1", r.hostname(), "a pass changes nothing")
	}
	assert.Empty(t, r.closed)

	// One that never answered is no version to fall back to: that before it is.
	r.store("ill again")
	r.mustPass()
	assert.Equal(t, "v1", r.hostname())
	assert.Equal(t, []string{"ill"}, r.closed)

	r.store("v4")
	r.mustPass()
	assert.Equal(t, "v4", r.hostname())
	assert.Equal(t, "True Bound: The policy is asked.", r.condition("mine", policyv1alpha1.ReadyCondition))
	r.store("v5")
	r.mustPass()
	assert.Equal(t, []string{"ill", "ill again", "v1"}, r.closed, "v4 is behind v5 now")
	assert.Equal(t, []string{"v1", "ill", "ill again", "v4", "v5"}, r.loads, "nothing is loaded twice")
}

func TestLastGoodWithoutAGoodVersionRefuses(t *testing.T) {
	r := newRig(t, configMap("ill"), policyWith(func(s *policyv1alpha1.OffloadingPolicySpec) { s.FailurePolicy = policyv1alpha1.FailurePolicyLastGood }))
	r.mustPass()
	r.ill.Store(true)
	for range 6 {
		assert.Contains(t, r.hostname(), `policy "mine"`)
	}
	r.report()
	assert.Contains(t, r.condition("mine", policyv1alpha1.ReadyCondition), "False Quarantined")
	assert.Contains(t, r.condition("mine", policyv1alpha1.ReadyCondition), "Objects that need it are refused, since no version before it has answered since the component started.")
}

func TestCountersAreWrittenOnceAMinute(t *testing.T) {
	r := newRig(t, configMap("v1"), policyWith(func(*policyv1alpha1.OffloadingPolicySpec) {}))
	r.mustPass()
	applies := r.applies
	r.hostname()
	r.report()
	assert.Equal(t, applies+1, r.applies, "the first of a while is told soon")
	assert.Equal(t, &policyv1alpha1.Counters{Calls: 1, Changes: 1}, r.own("mine").Counters)
	r.hostname()
	r.report()
	r.mustPass()
	assert.Equal(t, applies+1, r.applies, "the minute is not over")

	r.later(time.Minute)
	r.report()
	assert.Equal(t, applies+2, r.applies)
	assert.Equal(t, &policyv1alpha1.Counters{Calls: 2, Changes: 2}, r.own("mine").Counters)
	began := r.own("mine").Time
	for range 3 {
		r.later(time.Minute)
		r.report()
		r.mustPass()
	}
	assert.Equal(t, applies+2, r.applies, "quiet minutes stay quiet")

	r.hostname()
	r.later(time.Minute)
	r.fail = func(verb string, _ any) error {
		if verb == "apply" {
			return fmt.Errorf("the API server is away")
		}
		return nil
	}
	_, err := r.source.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "report"}})
	require.Error(t, err)
	r.fail = nil
	r.report()
	assert.Equal(t, int64(3), r.own("mine").Counters.Calls, "what could not be written is tried again")
	assert.Equal(t, began, r.own("mine").Time, "counting is no new beginning")

	r.store("v2")
	r.mustPass()
	assert.Equal(t, &policyv1alpha1.Counters{}, r.own("mine").Counters, "a new version counts from nothing")
}

// The removal of entries is a matter of field ownership, which the fake client does not
// keep for lists: see TestPoliciesAgainstARealAPIServer.
func TestWhatOtherComponentsSayIsTold(t *testing.T) {
	r := newRig(t, configMap("v1"), policyWith(func(*policyv1alpha1.OffloadingPolicySpec) {}))
	r.mustPass()
	digest := newCustom("v1").Digest()
	policy := r.get("mine")
	policy.Status.ObservedBy = append(policy.Status.ObservedBy,
		policyv1alpha1.Observation{Name: "virtual-kubelet/turin", Digest: "sha256:00", Message: "out of order"},
		policyv1alpha1.Observation{Name: "virtual-kubelet/milan", Generation: 1, Digest: digest})
	require.NoError(t, r.client.Status().Update(t.Context(), policy))
	r.report()
	status := r.get("mine").Status
	assert.Equal(t, "2/3 webhook,virtual-kubelet/milan", status.RunBy)
	assert.Equal(t, chain.ShortDigest(digest), status.ShortDigest)
	assert.Equal(t, "True ComponentFails: Component virtual-kubelet/turin says: out of order", r.condition("mine", policyv1alpha1.DegradedCondition))
	assert.Equal(t, "True Bound: The policy is asked.", r.condition("mine", policyv1alpha1.ReadyCondition))
	applies := r.applies
	r.report()
	assert.Equal(t, applies, r.applies)
}

func TestARefusalIsToldOnce(t *testing.T) {
	r := newRig(t, configMap("broken"), policyWith(func(*policyv1alpha1.OffloadingPolicySpec) {}))
	r.mustPass()
	r.mustPass()
	assert.Equal(t, []string{"Warning ModuleNotLoaded Refused: the module is cut in half: its author must build it again"}, r.told())
	require.NoError(t, testutil.GatherAndCompare(r.metrics, strings.NewReader(`
# HELP longshore_policy_loads_total Attempts to load a module, by how they ended: loaded, refused.
# TYPE longshore_policy_loads_total counter
longshore_policy_loads_total{policy="mine",result="refused"} 1
# HELP longshore_policy_refused Policies whose present version is not used, by reason, and what is instead: previous (the version before decides), held (what it concerns is refused or waits), skipped (it passes, by failurePolicy Ignore), absent (it passes, since the policy is not in force): 1.
# TYPE longshore_policy_refused gauge
longshore_policy_refused{instead="absent",policy="mine",reason="ModuleNotLoaded"} 1
`), "longshore_policy_loads_total", "longshore_policy_refused"))
}

func TestSeriesOfPoliciesThatAreGoneGo(t *testing.T) {
	r := newRig(t, configMap("v1"), policyWith(func(*policyv1alpha1.OffloadingPolicySpec) {}))
	r.mustPass()
	r.hostname()
	series := func() string {
		families, err := r.metrics.Gather()
		require.NoError(t, err)
		return fmt.Sprint(families)
	}
	first := newCustom("v1").Digest()
	assert.Contains(t, series(), first)
	r.store("v2")
	r.mustPass()
	assert.NotContains(t, series(), first, "an old digest leaves no series behind")
	assert.Contains(t, series(), `"mine"`)
	require.NoError(t, r.client.Delete(t.Context(), object("mine", nil)))
	r.mustPass()
	assert.NotContains(t, series(), `"mine"`)
}

func TestTheStockOfModulesAndAnswersIsMeasured(t *testing.T) {
	r := newRig(t, configMap("v1"), policyWith(func(*policyv1alpha1.OffloadingPolicySpec) {}))
	r.mustPass()
	for range 3 {
		r.hostname()
	}
	require.NoError(t, testutil.GatherAndCompare(r.metrics, strings.NewReader(`
# HELP longshore_policy_instances Instances of a policy's module, by state: idle, busy. Policies with the same module share them.
# TYPE longshore_policy_instances gauge
longshore_policy_instances{module="custom",policy="mine",state="busy"} 2
longshore_policy_instances{module="custom",policy="mine",state="idle"} 1
# HELP longshore_policy_memo_entries Remembered answers.
# TYPE longshore_policy_memo_entries gauge
longshore_policy_memo_entries 2
# HELP longshore_policy_memo_hits_total Questions whose answer was remembered.
# TYPE longshore_policy_memo_hits_total counter
longshore_policy_memo_hits_total 4
# HELP longshore_policy_memo_misses_total Questions whose answer was not remembered.
# TYPE longshore_policy_memo_misses_total counter
longshore_policy_memo_misses_total 2
# HELP longshore_policy_module_info The module that a policy is bound to: 1.
# TYPE longshore_policy_module_info gauge
longshore_policy_module_info{contract="v1alpha1",digest="`+newCustom("v1").Digest()+`",module="custom",policy="mine"} 1
longshore_policy_module_info{contract="v1alpha1",digest="`+r.builtIn.Digest()+`",module="defaults",policy="default-antiaffinity"} 1
longshore_policy_module_info{contract="v1alpha1",digest="`+r.builtIn.Digest()+`",module="defaults",policy="default-metadatafilter"} 1
longshore_policy_module_info{contract="v1alpha1",digest="`+r.builtIn.Digest()+`",module="defaults",policy="default-offloadingpatch"} 1
longshore_policy_module_info{contract="v1alpha1",digest="`+r.builtIn.Digest()+`",module="defaults",policy="default-podplacement"} 1
`), "longshore_policy_instances", "longshore_policy_memo_entries", "longshore_policy_memo_hits_total", "longshore_policy_memo_misses_total", "longshore_policy_module_info"))
}

func TestLastGoodIsFailAfterARestart(t *testing.T) {
	r := newRig(t, configMap("v1"), policyWith(func(s *policyv1alpha1.OffloadingPolicySpec) { s.FailurePolicy = policyv1alpha1.FailurePolicyLastGood }))
	r.mustPass()
	assert.Equal(t, "v1", r.hostname())
	r.ill.Store(true)
	r.store("ill")
	r.mustPass()
	assert.Equal(t, "v1", r.hostname())
	r.restart()
	r.mustPass()
	for range 5 {
		assert.Contains(t, r.hostname(), `policy "mine"`)
	}
	r.report()
	assert.Contains(t, r.condition("mine", policyv1alpha1.ReadyCondition), "Objects that need it are refused, since no version before it has answered since the component started.")
}
