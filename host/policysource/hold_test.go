package policysource_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/sdk/contract"
)

type specFunc = func(*policyv1alpha1.OffloadingPolicySpec)

// restart begins a new process: what it knows is in the API server.
func (r *rig) restart() {
	r.t.Helper()
	r.metrics = prometheus.NewRegistry()
	r.source = r.newSource()
	r.mustPass()
}

func (r *rig) change(name string, change specFunc) {
	r.t.Helper()
	r.edit(name, func(p *policyv1alpha1.OffloadingPolicy) { change(&p.Spec) })
	r.mustPass()
}

// forget empties what components have told of a policy.
func (r *rig) forget(name string, change func(*policyv1alpha1.OffloadingPolicyStatus)) {
	r.t.Helper()
	policy := r.get(name)
	change(&policy.Status)
	require.NoError(r.t, r.client.Status().Update(r.t.Context(), policy))
}

func mode(mode policyv1alpha1.Mode) specFunc {
	return func(s *policyv1alpha1.OffloadingPolicySpec) { s.Mode = mode }
}

func failing(policy policyv1alpha1.FailurePolicyType) specFunc {
	return func(s *policyv1alpha1.OffloadingPolicySpec) { s.FailurePolicy = policy }
}

// afterRestart is what was done before a component restarts, and what holds then.
type afterRestart struct {
	// name of the policy, "mine" when empty.
	name string
	// first is the spec that the policy begins with, content the module's.
	first   specFunc
	content string
	// before is done while the component runs, with a version in force if the first one is.
	before func(*rig)
	// want is what the refusal of a pod says beside the policy's name; empty when it passes.
	want string
	// wantReady is how the condition begins.
	wantReady string
	// wantAsked are the policies that have a say in a pod that passes.
	wantAsked []string
}

const brokenModule = "the module is cut in half: its author must build it again"

func restarts() map[string]afterRestart {
	broken := func(r *rig) { r.store("broken"); r.mustPass() }
	then := func(change specFunc) func(*rig) {
		return func(r *rig) { broken(r); r.change("mine", change) }
	}
	defaults := []string{"default-podplacement"}
	return map[string]afterRestart{
		"a broken module":                     {before: broken, want: brokenModule, wantReady: "False Unavailable: " + brokenModule + ". The policy was in force (generation 1, module custom, "},
		"a broken module, failurePolicy Fail": {first: failing(policyv1alpha1.FailurePolicyFail), before: broken, want: brokenModule, wantReady: "False Unavailable"},
		"a broken module, LastGood":           {first: failing(policyv1alpha1.FailurePolicyLastGood), before: broken, want: brokenModule, wantReady: "False Unavailable"},
		"a broken module, Ignore":             {first: failing(policyv1alpha1.FailurePolicyIgnore), before: broken, wantReady: "False Unavailable", wantAsked: []string{"default-podplacement", "mine"}},
		"a ConfigMap that is gone":            {before: func(r *rig) { require.NoError(r.t, r.client.Delete(r.t.Context(), configMap(""))); r.mustPass() }, want: "ConfigMap longshore/module does not exist", wantReady: "False Unavailable: ConfigMap longshore/module does not exist"},
		"settings that are refused": {before: func(r *rig) {
			r.change("mine", func(s *policyv1alpha1.OffloadingPolicySpec) { s.Settings = settings(`{"bad":true}`) })
		}, want: "spec.settings: policy module custom refuses its settings, the operator must correct them: bad must be false", wantReady: "False Unavailable: spec.settings: policy module custom refuses its settings, the operator must correct them: bad must be false. The policy was in force (generation 1,"},
		"a spec that is not one": {before: func(r *rig) {
			r.change("mine", func(s *policyv1alpha1.OffloadingPolicySpec) { s.Module = policyv1alpha1.ModuleSource{} })
		}, want: "spec.module: the operator must set exactly one", wantReady: "False Unavailable"},
		"a module that is too large for limits": {before: func(r *rig) {
			r.change("mine", func(s *policyv1alpha1.OffloadingPolicySpec) {
				s.Limits = &policyv1alpha1.Limits{Fuel: ptr.To[int64](0)}
			})
		}, want: "spec.limits.fuel is 0: the operator must set a positive number", wantReady: "False Unavailable"},
		"limits that were stored before the host had bounds": {before: func(r *rig) {
			r.change("mine", func(s *policyv1alpha1.OffloadingPolicySpec) {
				s.Limits = &policyv1alpha1.Limits{Fuel: ptr.To[int64](9e18)}
			})
		}, want: "spec.limits.fuel is 9000000000000000000, more than the host's bound of 2000000: the operator must lower it", wantReady: "False Unavailable: spec.limits.fuel is 9000000000000000000"},
		"an order that is missing": {before: func(r *rig) {
			elder := object("elder", func(s *policyv1alpha1.OffloadingPolicySpec) { fromConfigMap(s); s.Order = ptr.To[int32](5) })
			elder.CreationTimestamp = metav1.NewTime(epoch.Add(-1e9))
			r.change("mine", func(s *policyv1alpha1.OffloadingPolicySpec) { s.Order = ptr.To[int32](6) })
			require.NoError(r.t, r.client.Create(r.t.Context(), elder))
			r.mustPass()
			r.change("mine", func(s *policyv1alpha1.OffloadingPolicySpec) { s.Order = nil })
		}, want: `policies "elder" and "mine" both write /spec/hostname`, wantReady: "False Unavailable"},
		"the name of a default": {name: "default-podplacement", before: broken, want: brokenModule, wantReady: "False Unavailable"},
		"the name of a default, Ignore": {
			name: "default-podplacement", first: failing(policyv1alpha1.FailurePolicyIgnore), before: broken,
			wantReady: "False Unavailable", wantAsked: defaults,
		},
		"a policy that was never in force":    {content: "broken", before: func(*rig) {}, wantReady: "False ModuleNotLoaded: " + brokenModule + ". No version of this policy is in force: objects pass without it until generation 1 or a later one has been loaded once.", wantAsked: defaults},
		"a default's that was never in force": {name: "default-podplacement", content: "broken", before: func(*rig) {}, wantReady: "False ModuleNotLoaded: " + brokenModule + ". No version of this policy is in force: Longshore's own default decides until", wantAsked: defaults},
		"one that is tried only":              {first: mode(policyv1alpha1.ModeShadow), before: broken, wantReady: "False ModuleNotLoaded: " + brokenModule + ". No version of this policy is in force: nothing is recorded until", wantAsked: defaults},
		"one that was tried, and then broke":  {first: mode(policyv1alpha1.ModeShadow), before: then(mode(policyv1alpha1.ModeEnforce)), wantReady: "False ModuleNotLoaded", wantAsked: defaults},
		"one that was switched off":           {before: then(mode(policyv1alpha1.ModeDisabled)), wantReady: "True Disabled", wantAsked: defaults},
		"one that was switched off and on": {before: func(r *rig) {
			then(mode(policyv1alpha1.ModeDisabled))(r)
			r.change("mine", mode(policyv1alpha1.ModeEnforce))
		}, wantReady: "False ModuleNotLoaded", wantAsked: defaults},
		"one that is to be tried, and broke":    {before: then(mode(policyv1alpha1.ModeShadow)), wantReady: "False ModuleNotLoaded", wantAsked: defaults},
		"one that was tried, and then enforced": {first: mode(policyv1alpha1.ModeShadow), before: func(r *rig) { r.change("mine", mode(policyv1alpha1.ModeEnforce)); broken(r) }, want: brokenModule, wantReady: "False Unavailable: " + brokenModule + ". The policy was in force (generation 2,"},
		"another of the same name": {before: func(r *rig) {
			require.NoError(r.t, r.client.Delete(r.t.Context(), r.get("mine")))
			r.mustPass()
			again := object("mine", fromConfigMap)
			again.UID = types.UID("another")
			require.NoError(r.t, r.client.Create(r.t.Context(), again))
			broken(r)
		}, wantReady: "False ModuleNotLoaded", wantAsked: defaults},
		"a status that was lost": {before: func(r *rig) {
			broken(r)
			r.forget("mine", func(s *policyv1alpha1.OffloadingPolicyStatus) { *s = policyv1alpha1.OffloadingPolicyStatus{} })
		}, wantReady: "False ModuleNotLoaded", wantAsked: defaults},
		"what other components told alone": {content: "broken", before: func(r *rig) {
			r.forget("mine", func(s *policyv1alpha1.OffloadingPolicyStatus) {
				s.ObservedBy = append(s.ObservedBy, policyv1alpha1.Observation{Name: "virtual-kubelet/milan", Generation: 1, Digest: "sha256:00"})
			})
		}, want: brokenModule, wantReady: "False Unavailable: " + brokenModule + ". The policy was in force (generation 1, module unknown, 00)"},
		"what others told of another generation": {content: "broken", before: func(r *rig) {
			r.forget("mine", func(s *policyv1alpha1.OffloadingPolicyStatus) {
				s.ObservedBy = append(s.ObservedBy, policyv1alpha1.Observation{Name: "virtual-kubelet/milan", Generation: 2, Digest: "sha256:00"})
			})
		}, wantReady: "False ModuleNotLoaded", wantAsked: defaults},
	}
}

// ADR 24: no version outlives the process, and what was in force does not end with it.
func TestWhatDecidesAfterARestart(t *testing.T) {
	for name, tc := range restarts() {
		t.Run(name, func(t *testing.T) {
			if tc.name == "" {
				tc.name = "mine"
			}
			if tc.content == "" {
				tc.content = "v1"
			}
			r := newRig(t, configMap(tc.content), object(tc.name, func(s *policyv1alpha1.OffloadingPolicySpec) {
				fromConfigMap(s)
				if tc.first != nil {
					tc.first(s)
				}
			}))
			r.mustPass()
			tc.before(r)
			// What the first start writes into status is what the second one reads.
			for range 2 {
				r.restart()
				r.mustPass()
				assert.Contains(t, r.condition(tc.name, policyv1alpha1.ReadyCondition), tc.wantReady)
				status := r.get(tc.name).Status
				assert.Empty(t, status.Digest)
				assert.Empty(t, status.RunBy)
				if tc.want == "" {
					assert.Equal(t, tc.wantAsked, r.asked(contract.PodMutation))
					assert.Empty(t, r.hostname())
					continue
				}
				assert.Contains(t, r.hostname(), `policy "`+tc.name+`" (module `)
				assert.Contains(t, r.hostname(), "was enforced before and cannot be used now at PodMutation: "+tc.want)
				assert.Contains(t, r.condition(tc.name, policyv1alpha1.DegradedCondition), "True ")
				assert.Contains(t, r.own(tc.name).Message, tc.want)
				assert.Zero(t, r.own(tc.name).Generation)
			}
		})
	}
}

func heldRig(t *testing.T, change specFunc) *rig {
	t.Helper()
	r := newRig(t, configMap("v1"), policyWith(change))
	r.mustPass()
	r.store("broken")
	r.restart()
	r.told()
	return r
}

func TestWhatIsHeldIsReleased(t *testing.T) {
	for name, tc := range map[string]struct {
		release func(*rig)
		want    string
		// wantEvent is what is told, if it is.
		wantEvent string
	}{
		"by a version that can be used":  {release: func(r *rig) { r.store("v2") }, want: "v2", wantEvent: "Normal Recovered In webhook: another version has been loaded, and what waited for it is decided anew"},
		"by the version that was broken": {release: func(r *rig) { r.store("v1") }, want: "v1", wantEvent: "Normal Recovered In webhook: another version has been loaded, and what waited for it is decided anew"},
		"by failurePolicy Ignore":        {release: func(r *rig) { r.change("mine", failing(policyv1alpha1.FailurePolicyIgnore)) }},
		"by mode Shadow":                 {release: func(r *rig) { r.change("mine", mode(policyv1alpha1.ModeShadow)) }, wantEvent: "Normal Recovered In webhook: the policy is not asked any more, and what waited for it is decided anew"},
		"by mode Disabled":               {release: func(r *rig) { r.change("mine", mode(policyv1alpha1.ModeDisabled)) }, wantEvent: "Normal Recovered In webhook: the policy is not asked any more, and what waited for it is decided anew"},
		"by its deletion":                {release: func(r *rig) { require.NoError(r.t, r.client.Delete(r.t.Context(), r.get("mine"))) }},
	} {
		t.Run(name, func(t *testing.T) {
			r := heldRig(t, func(*policyv1alpha1.OffloadingPolicySpec) {})
			assert.Contains(t, r.hostname(), "was enforced before")
			changes := r.changes
			tc.release(r)
			r.mustPass()
			assert.Equal(t, tc.want, r.hostname())
			assert.Equal(t, changes+1, r.changes, "what waited is decided anew, once")
			if told := strings.Join(r.told(), "\n"); tc.wantEvent != "" {
				assert.Contains(t, told, tc.wantEvent)
			} else {
				assert.NotContains(t, told, "Recovered")
			}
			assert.NotContains(t, r.closed, "", "what stood in for the policy is no module to be closed")
		})
	}
}

func TestAHoldIsToldAndCounted(t *testing.T) {
	r := newRig(t, configMap("v1"), policyWith(func(*policyv1alpha1.OffloadingPolicySpec) {}))
	r.mustPass()
	digest := newCustom("v1").Digest()
	want := &policyv1alpha1.EnforcedVersion{Generation: 1, Module: "custom", Digest: digest, Points: []policyv1alpha1.EnforcedPoint{{Point: policyv1alpha1.PodMutationPoint}}}
	assert.Equal(t, want, r.get("mine").Status.Enforced)
	r.store("broken")
	r.mustPass()
	assert.Equal(t, want, r.get("mine").Status.Enforced, "the previous version is in force")
	r.told()

	r.restart()
	says := brokenModule + ". The policy was in force (generation 1, module custom, " + chain.ShortDigest(digest) + "), and no version of it can be used here: what it concerns waits at PodMutation: pods are refused at admission or stay Pending, copies are held back, running pods stay as they are. An operator must put that right, or set spec.failurePolicy or spec.mode meanwhile."
	assert.Equal(t, "False Unavailable: "+says, r.condition("mine", policyv1alpha1.ReadyCondition))
	assert.Equal(t, "True ModuleNotLoaded: "+brokenModule, r.condition("mine", policyv1alpha1.DegradedCondition))
	assert.Equal(t, says, r.own("mine").Message)
	assert.Equal(t, []string{"Warning Unavailable In webhook: " + says}, r.told())
	status := r.get("mine").Status
	assert.Equal(t, want, status.Enforced)
	assert.Equal(t, []policyv1alpha1.ExtensionPoint{policyv1alpha1.PodMutationPoint}, status.Points)
	assert.Equal(t, "PodMutation", status.PointList, "for the column")
	assert.Nil(t, status.Manifest)

	r.hostname()
	require.NoError(t, testutil.GatherAndCompare(r.metrics, strings.NewReader(`
# HELP longshore_policy_errors_total Questions without a valid answer, by class: Timeout, Memory, Trap, BadOutput, Denied, Guest, UndeclaredWrite, ObjectTooLarge, Quarantined, Unavailable, Host.
# TYPE longshore_policy_errors_total counter
longshore_policy_errors_total{class="Unavailable",extension_point="PodMutation",policy="mine"} 1
# HELP longshore_policy_refused Policies whose present version is not used, by reason, and what is instead: previous (the version before decides), held (what it concerns is refused or waits), skipped (it passes, by failurePolicy Ignore), absent (it passes, since the policy is not in force): 1.
# TYPE longshore_policy_refused gauge
longshore_policy_refused{instead="held",policy="mine",reason="ModuleNotLoaded"} 1
`), "longshore_policy_errors_total", "longshore_policy_refused"))
	families, err := r.metrics.Gather()
	require.NoError(t, err)
	for _, family := range families {
		if family.GetName() == "longshore_policy_module_info" {
			assert.Len(t, family.GetMetric(), 4, "it has no module")
		}
	}
	r.report()
	r.mustPass()
	assert.Empty(t, r.told(), "told once")

	// A status that is emptied under its eyes makes it forget nothing.
	r.forget("mine", func(s *policyv1alpha1.OffloadingPolicyStatus) { *s = policyv1alpha1.OffloadingPolicyStatus{} })
	r.report()
	assert.Equal(t, want, r.get("mine").Status.Enforced)
	r.mustPass()
	assert.Contains(t, r.hostname(), "was enforced before")

	r.change("mine", failing(policyv1alpha1.FailurePolicyIgnore))
	assert.Contains(t, r.condition("mine", policyv1alpha1.ReadyCondition), "no version of it can be used here: objects pass without it at PodMutation, since spec.failurePolicy is Ignore.")
	result := r.evaluate(contract.PodMutation, chain.Attributes{})
	assert.Contains(t, result.Warnings[0], `policy "mine" (module custom, `+chain.ShortDigest(digest)+") was enforced before and cannot be used now")
	assert.Equal(t, brokenModule, result.Decisions[1].Ignored)

	r.store("v2")
	r.mustPass()
	assert.Equal(t, "v2", r.hostname())
	assert.Equal(t, newCustom("v2").Digest(), r.get("mine").Status.Enforced.Digest)
	r.change("mine", mode(policyv1alpha1.ModeShadow))
	assert.Nil(t, r.get("mine").Status.Enforced, "the operator has taken it out of force")
}

// Whoever looks at the policy sees that pods wait, although who speaks for all is content.
func TestAHoldElsewhereIsTold(t *testing.T) {
	says := func(o policyv1alpha1.Observation) func(*policyv1alpha1.OffloadingPolicyStatus) {
		return func(s *policyv1alpha1.OffloadingPolicyStatus) { s.ObservedBy = append(s.ObservedBy[:1], o) }
	}
	r := newRig(t, configMap("v1"), policyWith(func(*policyv1alpha1.OffloadingPolicySpec) {}))
	r.mustPass()
	r.forget("mine", says(policyv1alpha1.Observation{Name: "virtual-kubelet/milan", Message: "It is gone."}))
	r.report()
	assert.Equal(t, "False Unavailable: Component virtual-kubelet/milan says: It is gone.", r.condition("mine", policyv1alpha1.ReadyCondition))
	assert.Contains(t, r.condition("mine", policyv1alpha1.DegradedCondition), "True ComponentFails")
	r.store("broken")
	r.mustPass()
	assert.Equal(t, "False Unavailable: Component virtual-kubelet/milan says: It is gone.", r.condition("mine", policyv1alpha1.ReadyCondition), "here the previous version decides")
	for name, o := range map[string]policyv1alpha1.Observation{
		"it has the version before": {Name: "virtual-kubelet/milan", Generation: 1, Digest: "sha256:00", Message: "It is gone."},
		"it has said nothing yet":   {Name: "virtual-kubelet/milan"},
	} {
		r.forget("mine", says(o))
		r.report()
		assert.Contains(t, r.condition("mine", policyv1alpha1.ReadyCondition), "True PreviousVersion", name)
	}
	r.change("mine", mode(policyv1alpha1.ModeDisabled))
	r.forget("mine", says(policyv1alpha1.Observation{Name: "virtual-kubelet/milan", Message: "It is gone."}))
	r.report()
	assert.Contains(t, r.condition("mine", policyv1alpha1.ReadyCondition), "True Disabled")
}

func TestWhatIsHeldWaitsForTheModuleThatIsLoaded(t *testing.T) {
	r := heldRig(t, func(*policyv1alpha1.OffloadingPolicySpec) {})
	changes := r.changes
	let := r.slow("slow")
	r.store("slow")
	r.mustLook()
	assert.Contains(t, r.hostname(), "was enforced before")
	assert.Equal(t, changes, r.changes, "nothing is new yet")
	r.later(2e9)
	r.report()
	assert.Contains(t, r.condition("mine", policyv1alpha1.ReadyCondition), "False Unavailable")
	assert.Contains(t, r.condition("mine", policyv1alpha1.LoadedCondition), "False Loading")
	r.edit("mine", func(p *policyv1alpha1.OffloadingPolicy) { p.Spec.FailurePolicy = policyv1alpha1.FailurePolicyIgnore })
	r.mustLook()
	assert.Empty(t, r.hostname(), "what the operator says counts at once")
	close(let)
	r.mustPass()
	assert.Equal(t, "slow", r.hostname())
}

func TestWhoIsConcernedByWhatIsHeld(t *testing.T) {
	condition := func(expressions ...string) []policyv1alpha1.MatchCondition {
		var out []policyv1alpha1.MatchCondition
		for i, expression := range expressions {
			out = append(out, policyv1alpha1.MatchCondition{Name: string(rune('a' + i)), Expression: expression})
		}
		return out
	}
	web := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	bad := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "not a value"}}
	is := chain.Attributes{Labels: map[string]string{"app": "web"}, VirtualNode: "milan", NamespaceLabels: map[string]string{}}
	other := chain.Attributes{Labels: map[string]string{"app": "db"}, VirtualNode: "turin", NamespaceLabels: map[string]string{}}
	for name, tc := range map[string]struct {
		match     *policyv1alpha1.Match
		wantIs    bool
		wantOther bool
	}{
		"everything":                        {wantIs: true, wantOther: true},
		"by label":                          {match: &policyv1alpha1.Match{ObjectSelector: web}, wantIs: true},
		"by virtual node":                   {match: &policyv1alpha1.Match{VirtualNodes: []string{"milan"}}, wantIs: true},
		"by a condition":                    {match: &policyv1alpha1.Match{MatchConditions: condition(`virtualNode == "milan"`)}, wantIs: true},
		"a condition that does not compile": {match: &policyv1alpha1.Match{MatchConditions: condition(`no.`)}, wantIs: true, wantOther: true},
		"one of two does not compile":       {match: &policyv1alpha1.Match{MatchConditions: condition(`no.`, `virtualNode == "milan"`)}, wantIs: true},
		"it does not compile, a label does": {match: &policyv1alpha1.Match{ObjectSelector: web, MatchConditions: condition(`no.`)}, wantIs: true},
		"a selector that is none":           {match: &policyv1alpha1.Match{ObjectSelector: bad, VirtualNodes: []string{"milan"}}, wantIs: true},
		"both selectors are none":           {match: &policyv1alpha1.Match{ObjectSelector: bad, NamespaceSelector: bad}, wantIs: true, wantOther: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, configMap("v1"), policyWith(func(*policyv1alpha1.OffloadingPolicySpec) {}))
			r.mustPass()
			r.store("broken")
			r.edit("mine", func(p *policyv1alpha1.OffloadingPolicy) { p.Spec.Match = tc.match })
			r.restart()
			for attributes, want := range map[*chain.Attributes]bool{&is: tc.wantIs, &other: tc.wantOther} {
				_, err := r.source.Chains().Evaluate(t.Context(), chain.Input{Point: contract.PodMutation, Match: *attributes})
				if want {
					require.ErrorIs(t, err, chain.Unavailable, "%v", attributes.Labels)
				} else {
					require.NoError(t, err, "%v", attributes.Labels)
				}
			}
		})
	}
}
