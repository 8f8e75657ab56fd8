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
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// report lets the source report, and updates the status.
func (r *rig) report() {
	r.t.Helper()
	require.NoError(r.t, r.reconcile("report"))
}

// later lets time pass.
func (r *rig) later(by time.Duration) { r.clock.SetTime(r.clock.Now().Add(by)) }

// recorded returns the events since the last call.
func (r *rig) recorded() []string {
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

// decide evaluates the policies for a pod and returns its hostname.
func (r *rig) decide() (string, error) {
	r.t.Helper()
	result, err := r.source.Chains().Evaluate(r.t.Context(), chain.Input{
		Point:  contract.PodMutation,
		Object: map[string]any{"kind": "Pod", "metadata": map[string]any{"name": "web", "namespace": "shop"}, "spec": map[string]any{}},
	})
	if err != nil {
		return "", err
	}
	spec, _ := result.Object["spec"].(map[string]any)
	name, _ := spec["hostname"].(string)
	return name, nil
}

// hostname returns the hostname that the policies decide, or the text of the error.
func (r *rig) hostname() string {
	r.t.Helper()
	name, err := r.decide()
	if err != nil {
		return err.Error()
	}
	return name
}

// own returns what the component reports of a policy.
func (r *rig) own(name string) policyv1alpha1.PolicyObservation {
	r.t.Helper()
	component := &policyv1alpha1.PolicyComponent{}
	require.NoError(r.t, r.client.Get(r.t.Context(), client.ObjectKey{Namespace: "longshore", Name: "webhook"}, component))
	for _, o := range component.Status.Policies {
		if o.Name == name {
			return o
		}
	}
	r.t.Fatalf("policy %q is not reported", name)
	return policyv1alpha1.PolicyObservation{}
}

func policyWith(change func(*policyv1alpha1.OffloadingPolicySpec)) *policyv1alpha1.OffloadingPolicy {
	return object("mine", func(spec *policyv1alpha1.OffloadingPolicySpec) {
		fromConfigMap(spec)
		change(spec)
	})
}

func TestDifferencesInModeShadow(t *testing.T) {
	r := newRig(t, configMap("v1"), policyWith(func(s *policyv1alpha1.OffloadingPolicySpec) { s.Mode = policyv1alpha1.ModeShadow }))
	r.mustPass()
	assert.Equal(t, "True Shadow: 1/1 components decide by generation 1. Its answers are recorded and not applied (mode: Shadow).", r.ready("mine"))
	for range 12 {
		assert.Empty(t, r.hostname())
	}
	assert.Equal(t, []string{"default-podplacement"}, r.called(contract.PodMutation), "it decides nothing")

	r.later(time.Minute)
	r.report()
	own := r.own("mine")
	assert.False(t, own.Enforced)
	require.Len(t, own.Differences, 10, "the latest ones")
	assert.Equal(t, "Pod shop/web at PodMutation: [set /spec/hostname]", fmt.Sprintf("%s %s/%s at %s: %v",
		own.Differences[0].Kind, own.Differences[0].Namespace, own.Differences[0].Name, own.Differences[0].Point, own.Differences[0].Operations))
	assert.True(t, own.Differences[0].Time.Equal(&metav1.Time{Time: epoch}))
	require.NoError(t, testutil.GatherAndCompare(r.metrics, strings.NewReader(`
# HELP longshore_policy_shadow_total Calls of policies in mode Shadow by the result that they would have had: same, different, denied, failed.
# TYPE longshore_policy_shadow_total counter
longshore_policy_shadow_total{extension_point="PodMutation",policy="mine",result="different"} 13
`), "longshore_policy_shadow_total"))

	// Policies in mode Shadow do not conflict, and their failures have no effect.
	r.modulesFail.Store(true)
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
	assert.Equal(t, "False Quarantined", r.reason("other"))
	assert.Equal(t, "0/1", r.get("other").Status.Components)
	assert.Contains(t, r.ready("other"), "Objects are not affected (mode: Shadow).")
}

func TestModeShadowDoesNotReplaceADefault(t *testing.T) {
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
	assert.Equal(t, []string{"set /spec/hostname", "remove /spec/tolerations"}, own.Differences[0].Operations, "instead of the default")
	_, err := r.metrics.Gather()
	require.NoError(t, err)
}

func TestAQuarantineIsReportedAndEnds(t *testing.T) {
	r := newRig(t, configMap("ill"), object("mine", fromConfigMap))
	r.mustPass()
	module := newCustom("ill")
	bound := "Normal Bound 1/1 components decide by generation 1. Module custom ill (" + chain.ShortDigest(module.Digest()) + ") answers [PodMutation]."
	assert.Equal(t, []string{bound}, r.recorded())

	r.modulesFail.Store(true)
	_, err := r.decide()
	require.ErrorIs(t, err, engine.Trap)
	r.report()
	assert.Equal(t, "True Bound", r.reason("mine"), "one failure is counted by the metrics only")
	assert.Empty(t, r.recorded())

	for range 5 {
		r.hostname()
	}
	_, err = r.decide()
	require.ErrorIs(t, err, chain.Quarantined)
	r.report()
	want := "Quarantined at PodMutation since 2026-01-02T03:04:05Z, after several calls in a row without a valid answer (Trap: pod_mutation: the module crashed: unreachable; its author must correct it; it wrote: panic: boom). Objects that it matches are refused (failurePolicy: Fail). The module's author must correct it. Meanwhile, an operator can load another version, or change spec.failurePolicy or spec.mode. It is probed from time to time."
	assert.Equal(t, want, r.own("mine").Message)
	assert.Equal(t, "False Quarantined: 0/1 components decide by generation 1. Not current: webhook: "+want, r.ready("mine"))
	assert.Equal(t, []string{"Warning Quarantined 0/1 components decide by generation 1. Not current: webhook: " + want}, r.recorded())
	require.NoError(t, testutil.GatherAndCompare(r.metrics, strings.NewReader(`
# HELP longshore_policy_errors_total Calls of policies without a valid answer by class: Timeout, Memory, Trap, BadOutput, Denied, Guest, UndeclaredWrite, ObjectTooLarge, Quarantined, Unavailable, Host.
# TYPE longshore_policy_errors_total counter
longshore_policy_errors_total{class="Quarantined",extension_point="PodMutation",policy="mine"} 2
longshore_policy_errors_total{class="Trap",extension_point="PodMutation",policy="mine"} 5
# HELP longshore_policy_quarantined 1 if a policy is not called because it keeps failing, else 0.
# TYPE longshore_policy_quarantined gauge
longshore_policy_quarantined{extension_point="AntiAffinityPreset",policy="default-antiaffinity"} 0
longshore_policy_quarantined{extension_point="MetadataFilter",policy="default-metadatafilter"} 0
longshore_policy_quarantined{extension_point="OffloadingPatch",policy="default-offloadingpatch"} 0
longshore_policy_quarantined{extension_point="PodMutation",policy="default-podplacement"} 0
longshore_policy_quarantined{extension_point="PodMutation",policy="mine"} 1
`), "longshore_policy_errors_total", "longshore_policy_quarantined"))
	r.report()
	r.mustPass()
	assert.Empty(t, r.recorded(), "one event")

	r.modulesFail.Store(false)
	r.later(time.Minute)
	changes := r.changes
	assert.Equal(t, "ill", r.hostname(), "the probe")
	r.report()
	assert.Equal(t, []string{bound}, r.recorded())
	assert.Equal(t, changes+1, r.changes, "waiting objects are decided again")
	assert.Equal(t, "True Bound", r.reason("mine"))
	assert.Empty(t, r.own("mine").Message)
}

func TestANewVersionLiftsAQuarantine(t *testing.T) {
	r := newRig(t, configMap("ill"), policyWith(func(s *policyv1alpha1.OffloadingPolicySpec) { s.FailurePolicy = policyv1alpha1.FailurePolicyIgnore }))
	r.mustPass()
	r.modulesFail.Store(true)
	for range 6 {
		assert.Empty(t, r.hostname(), "skipped")
	}
	r.report()
	assert.Contains(t, r.ready("mine"), "Objects pass without it (failurePolicy: Ignore).")
	r.recorded()
	r.store("v2")
	r.mustPass()
	assert.Equal(t, "v2", r.hostname())
	assert.Equal(t, []string{
		"Normal Bound 1/1 components decide by generation 1. Module custom v2 (" + chain.ShortDigest(newCustom("v2").Digest()) + ") answers [PodMutation].",
	}, r.recorded())
}

func TestDisablingLiftsAQuarantine(t *testing.T) {
	r := newRig(t, configMap("ill"), object("mine", fromConfigMap))
	r.mustPass()
	r.modulesFail.Store(true)
	for range 5 {
		r.hostname()
	}
	r.report()
	r.recorded()
	r.edit("mine", func(p *policyv1alpha1.OffloadingPolicy) { p.Spec.Mode = policyv1alpha1.ModeDisabled })
	r.mustPass()
	assert.Empty(t, r.hostname())
	assert.Equal(t, "True Disabled: 1/1 components decide by generation 2. The policy is not called (mode: Disabled).", r.ready("mine"))
	assert.Len(t, r.recorded(), 1)
}

func TestLastGoodFallsBack(t *testing.T) {
	r := newRig(t, configMap("v1"), policyWith(func(s *policyv1alpha1.OffloadingPolicySpec) { s.FailurePolicy = policyv1alpha1.FailurePolicyLastGood }))
	r.mustPass()
	assert.Equal(t, "v1", r.hostname())
	r.modulesFail.Store(true)
	r.store("ill")
	r.mustPass()
	assert.Equal(t, newCustom("ill").Digest(), r.get("mine").Status.Digest)
	r.recorded()
	for range 10 {
		assert.Equal(t, "v1", r.hostname(), "pods keep flowing")
	}
	r.report()
	short := chain.ShortDigest(newCustom("v1").Digest())
	assert.Equal(t, "False FellBack", r.reason("mine"))
	assert.Equal(t, "0/1", r.get("mine").Status.Components)
	assert.Contains(t, r.ready("mine"), "The previous version ("+short+") decides.")
	assert.Equal(t, newCustom("v1").Digest(), r.get("mine").Status.Digest, "the digest is that of the version that decides")
	events := r.recorded()
	require.Len(t, events, 1)
	assert.Equal(t, "Warning FellBack "+r.message("mine"), events[0])
	assert.Empty(t, r.closed, "the previous version stays open")
	for range 3 {
		r.mustPass()
		assert.Equal(t, "v1", r.hostname(), "a reconciliation changes nothing")
	}
	assert.Empty(t, r.closed)

	// One that never answered is not a version to fall back to: that before it is.
	r.store("ill again")
	r.mustPass()
	assert.Equal(t, "v1", r.hostname())
	assert.Equal(t, []string{"ill"}, r.closed)

	r.store("v4")
	r.mustPass()
	assert.Equal(t, "v4", r.hostname())
	assert.Equal(t, "True Bound", r.reason("mine"))
	r.store("v5")
	r.mustPass()
	assert.Equal(t, []string{"ill", "ill again", "v1"}, r.closed, "v4 is behind v5 now")
	assert.Equal(t, []string{"v1", "ill", "ill again", "v4", "v5"}, r.loads, "nothing is loaded twice")
}

func TestLastGoodWithoutAGoodVersionRefuses(t *testing.T) {
	r := newRig(t, configMap("ill"), policyWith(func(s *policyv1alpha1.OffloadingPolicySpec) { s.FailurePolicy = policyv1alpha1.FailurePolicyLastGood }))
	r.mustPass()
	r.modulesFail.Store(true)
	for range 6 {
		assert.Contains(t, r.hostname(), `policy "mine"`)
	}
	r.report()
	assert.Equal(t, "False Quarantined", r.reason("mine"))
	assert.Contains(t, r.ready("mine"), "Objects that it matches are refused: no previous version has answered since the component started (failurePolicy: LastGood).")
}

// TestTheReportOfAReplacedOwnerIsWrittenAgain has a VirtualNode that was deleted and created again, while
// its virtual kubelet runs.
func TestTheReportOfAReplacedOwnerIsWrittenAgain(t *testing.T) {
	r := newRig(t, configMap("v1"), object("mine", fromConfigMap))
	r.owner = &metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "webhook", UID: "first"}
	r.mustPass()
	since := r.own("mine").Since
	component := &policyv1alpha1.PolicyComponent{ObjectMeta: metav1.ObjectMeta{Namespace: "longshore", Name: "webhook"}}
	require.NoError(t, r.client.Delete(t.Context(), component), "the garbage collector")
	r.owner = &metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "webhook", UID: "second"}
	r.later(time.Minute)
	r.source.OwnerReplaced()
	reports := r.reports
	r.report()
	r.report()
	assert.Equal(t, reports+1, r.reports, "once")
	assert.Equal(t, since, r.own("mine").Since)
	require.NoError(t, r.client.Get(t.Context(), client.ObjectKeyFromObject(component), component))
	require.Len(t, component.OwnerReferences, 1)
	assert.EqualValues(t, "second", component.OwnerReferences[0].UID)
}

func TestReportsAreWrittenWhenTheyChange(t *testing.T) {
	r := newRig(t, configMap("v1"), object("mine", fromConfigMap))
	r.mustPass()
	assert.Equal(t, 2, r.reports, "the registration and the first report")
	since := r.own("mine").Since
	for range 3 {
		r.hostname()
		r.later(time.Minute)
		r.report()
		r.mustPass()
	}
	assert.Equal(t, 2, r.reports, "calls are not a change")

	r.fail = func(verb string, _ any) error {
		if verb == "apply" {
			return errNoConnection
		}
		return nil
	}
	r.store("v2")
	require.ErrorIs(t, r.pass(), errNoConnection)
	assert.Equal(t, newCustom("v1").Digest(), r.own("mine").Digest)
	r.fail = nil
	r.mustPass()
	assert.Equal(t, newCustom("v2").Digest(), r.own("mine").Digest, "a failed write is repeated")
	assert.True(t, since.Before(ptr.To(r.own("mine").Since)))
}

func TestDifferencesAreWrittenOnceAMinute(t *testing.T) {
	r := newRig(t, configMap("v1"), policyWith(mode(policyv1alpha1.ModeShadow)))
	r.mustPass()
	reports := r.reports
	r.hostname()
	r.report()
	assert.Equal(t, reports+1, r.reports, "the first one soon")
	r.hostname()
	r.report()
	r.mustPass()
	assert.Equal(t, reports+1, r.reports, "the minute is not over")
	r.later(time.Minute)
	r.report()
	assert.Equal(t, reports+2, r.reports)
	assert.Len(t, r.own("mine").Differences, 2)
	for range 3 {
		r.later(time.Minute)
		r.report()
	}
	assert.Equal(t, reports+2, r.reports, "no differences, no writes")
	r.store("v2")
	r.mustPass()
	assert.Empty(t, r.own("mine").Differences, "a new version has its own")
}

func TestOneEventForAProblem(t *testing.T) {
	r := newRig(t, configMap("broken"), object("mine", fromConfigMap))
	r.mustPass()
	r.mustPass()
	events := r.recorded()
	require.Len(t, events, 1)
	assert.Equal(t, "Warning ModuleNotLoaded "+r.message("mine"), events[0])
	require.NoError(t, testutil.GatherAndCompare(r.metrics, strings.NewReader(`
# HELP longshore_policy_loads_total Attempts to load a module by result: loaded, refused.
# TYPE longshore_policy_loads_total counter
longshore_policy_loads_total{policy="mine",result="refused"} 1
# HELP longshore_policy_refused 1 for each policy whose current version is not used, by reason and effect: previous (the previous version decides), held (objects are refused or wait), skipped (objects pass, failurePolicy Ignore), absent (objects pass, the policy was never enforced).
# TYPE longshore_policy_refused gauge
longshore_policy_refused{instead="absent",policy="mine",reason="ModuleNotLoaded"} 1
`), "longshore_policy_loads_total", "longshore_policy_refused"))
}

func TestSeriesOfDeletedPoliciesAreDeleted(t *testing.T) {
	r := newRig(t, configMap("v1"), object("mine", fromConfigMap))
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

func TestMetricsOfModulesAndRememberedAnswers(t *testing.T) {
	r := newRig(t, configMap("v1"), object("mine", fromConfigMap))
	r.mustPass()
	for range 3 {
		r.hostname()
	}
	require.NoError(t, testutil.GatherAndCompare(r.metrics, strings.NewReader(`
# HELP longshore_policy_instances Instances of a policy's module, by state: idle, busy. Policies with the same module share them.
# TYPE longshore_policy_instances gauge
longshore_policy_instances{module="custom",policy="mine",state="busy"} 2
longshore_policy_instances{module="custom",policy="mine",state="idle"} 1
# HELP longshore_policy_memo_entries Answers in the cache.
# TYPE longshore_policy_memo_entries gauge
longshore_policy_memo_entries 2
# HELP longshore_policy_memo_hits_total Calls of policies that were answered from the cache.
# TYPE longshore_policy_memo_hits_total counter
longshore_policy_memo_hits_total 4
# HELP longshore_policy_memo_misses_total Calls of policies whose answer was not in the cache.
# TYPE longshore_policy_memo_misses_total counter
longshore_policy_memo_misses_total 2
# HELP longshore_policy_module_info 1 for the module to which a policy is bound.
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
	r.modulesFail.Store(true)
	r.store("ill")
	r.mustPass()
	assert.Equal(t, "v1", r.hostname())
	r.restart()
	r.mustPass()
	for range 5 {
		assert.Contains(t, r.hostname(), `policy "mine"`)
	}
	r.report()
	assert.Equal(t, "False Quarantined", r.reason("mine"), "the previous version is not known")
}
