package policysource_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policysource/plan"
	"github.com/longshore-dev/longshore/sdk/contract"
)

type specFunc = func(*policyv1alpha1.OffloadingPolicySpec)

// restart starts a new process, which knows only what the API server has.
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

// other stores what another component reports of a policy.
func (r *rig) other(o policyv1alpha1.PolicyObservation) {
	r.t.Helper()
	c := &policyv1alpha1.PolicyComponent{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "milan"}}
	require.NoError(r.t, client.IgnoreNotFound(r.client.Delete(r.t.Context(), c)))
	o.Name, o.UID = "mine", r.get("mine").UID
	c.ResourceVersion = ""
	c.Status = policyv1alpha1.PolicyComponentStatus{Component: "virtual-kubelet/milan", Policies: []policyv1alpha1.PolicyObservation{o}}
	require.NoError(r.t, r.client.Create(r.t.Context(), c))
}

// enforced returns the record of the version that was enforced last, nil without one.
func (r *rig) enforced(name string) *policyv1alpha1.EnforcedVersion {
	r.t.Helper()
	return plan.EnforcedVersion(r.get(name))
}

func mode(mode policyv1alpha1.Mode) specFunc {
	return func(s *policyv1alpha1.OffloadingPolicySpec) { s.Mode = mode }
}

func failing(policy policyv1alpha1.FailurePolicyType) specFunc {
	return func(s *policyv1alpha1.OffloadingPolicySpec) { s.FailurePolicy = policy }
}

// afterRestart is what happens before a component restarts, and what must hold then.
type afterRestart struct {
	// name of the policy, "mine" when empty.
	name string
	// first is the spec that the policy begins with, content the module's.
	first   specFunc
	content string
	// before happens while the component runs.
	before func(*rig)
	// want is the cause with which a pod is refused; empty if it passes.
	want string
	// wantReady has parts of the condition Ready.
	wantReady []string
	// wantCalled are the policies that decide a pod that passes.
	wantCalled []string
}

const brokenModule = "the module is cut in half: its author must build it again"

func breakModule(r *rig) { r.store("broken"); r.mustPass() }

// restarts have a policy that was enforced.
func restarts() map[string]afterRestart {
	broken := breakModule
	return map[string]afterRestart{
		"a broken module":                     {before: broken, want: brokenModule, wantReady: []string{"False Unavailable: ", brokenModule + ". The policy was enforced before (generation 1, module custom, "}},
		"a broken module, failurePolicy Fail": {first: failing(policyv1alpha1.FailurePolicyFail), before: broken, want: brokenModule, wantReady: []string{"False Unavailable"}},
		"a broken module, LastGood":           {first: failing(policyv1alpha1.FailurePolicyLastGood), before: broken, want: brokenModule, wantReady: []string{"False Unavailable"}},
		"a broken module, Ignore":             {first: failing(policyv1alpha1.FailurePolicyIgnore), before: broken, wantReady: []string{"False Unavailable"}, wantCalled: []string{"default-podplacement", "mine"}},
		"a deleted ConfigMap":                 {before: func(r *rig) { require.NoError(r.t, r.client.Delete(r.t.Context(), configMap(""))); r.mustPass() }, want: "ConfigMap longshore/module does not exist", wantReady: []string{"False Unavailable: ", "webhook: ConfigMap longshore/module does not exist"}},
		"refused settings": {before: func(r *rig) {
			r.change("mine", func(s *policyv1alpha1.OffloadingPolicySpec) { s.Settings = settings(`{"bad":true}`) })
		}, want: "bad must be false", wantReady: []string{"False Unavailable: ", "webhook: spec.settings: ", "bad must be false. The policy was enforced before (generation 1,"}},
		"an invalid spec": {before: func(r *rig) {
			r.change("mine", func(s *policyv1alpha1.OffloadingPolicySpec) { s.Module = policyv1alpha1.ModuleSource{} })
		}, want: "spec.module: the operator must set exactly one", wantReady: []string{"False Unavailable"}},
		"a limit of zero": {before: func(r *rig) {
			r.change("mine", func(s *policyv1alpha1.OffloadingPolicySpec) {
				s.Limits = &policyv1alpha1.Limits{Fuel: ptr.To[int64](0)}
			})
		}, want: "spec.limits.fuel is 0: the operator must set a positive number", wantReady: []string{"False Unavailable"}},
		"limits that were stored before the host had bounds": {before: func(r *rig) {
			r.change("mine", func(s *policyv1alpha1.OffloadingPolicySpec) {
				s.Limits = &policyv1alpha1.Limits{Fuel: ptr.To[int64](9e18)}
			})
		}, want: "spec.limits.fuel is 9000000000000000000, more than the host's bound of 2000000: the operator must lower it", wantReady: []string{"False Unavailable: ", "spec.limits.fuel is 9000000000000000000"}},
		"a missing order": {before: func(r *rig) {
			elder := object("elder", func(s *policyv1alpha1.OffloadingPolicySpec) { fromConfigMap(s); s.Order = ptr.To[int32](5) })
			elder.CreationTimestamp = metav1.NewTime(epoch.Add(-1e9))
			r.change("mine", func(s *policyv1alpha1.OffloadingPolicySpec) { s.Order = ptr.To[int32](6) })
			require.NoError(r.t, r.client.Create(r.t.Context(), elder))
			r.mustPass()
			r.change("mine", func(s *policyv1alpha1.OffloadingPolicySpec) { s.Order = nil })
		}, want: `policies "elder" and "mine" both write /spec/hostname`, wantReady: []string{"False Unavailable"}},
	}
}

// restartsOfOtherPolicies have a policy that replaces a default, was not enforced, or is
// enforced by another component only.
func restartsOfOtherPolicies() map[string]afterRestart {
	broken, defaults := breakModule, []string{"default-podplacement"}
	then := func(change specFunc) func(*rig) {
		return func(r *rig) { broken(r); r.change("mine", change) }
	}
	return map[string]afterRestart{
		"the name of a default": {name: "default-podplacement", before: broken, want: brokenModule, wantReady: []string{"False Unavailable"}},
		"the name of a default, Ignore": {
			name: "default-podplacement", first: failing(policyv1alpha1.FailurePolicyIgnore), before: broken,
			wantReady: []string{"False Unavailable"}, wantCalled: defaults,
		},
		"a policy that was never enforced":               {content: "broken", before: func(*rig) {}, wantReady: []string{"False ModuleNotLoaded: ", brokenModule + ". The policy was not enforced before, so objects pass without it until it has been loaded once."}, wantCalled: defaults},
		"the name of a default, never enforced":          {name: "default-podplacement", content: "broken", before: func(*rig) {}, wantReady: []string{"False ModuleNotLoaded: ", brokenModule + ". The built-in default decides until"}, wantCalled: defaults},
		"mode Shadow":                                    {first: mode(policyv1alpha1.ModeShadow), before: broken, wantReady: []string{"False ModuleNotLoaded: ", brokenModule + ". Differences of this version are not recorded."}, wantCalled: defaults},
		"mode Shadow, then Enforce with a broken module": {first: mode(policyv1alpha1.ModeShadow), before: then(mode(policyv1alpha1.ModeEnforce)), wantReady: []string{"False ModuleNotLoaded"}, wantCalled: defaults},
		"mode Disabled":                                  {before: then(mode(policyv1alpha1.ModeDisabled)), wantReady: []string{"True Disabled"}, wantCalled: defaults},
		"mode Disabled, then Enforce": {before: func(r *rig) {
			then(mode(policyv1alpha1.ModeDisabled))(r)
			r.change("mine", mode(policyv1alpha1.ModeEnforce))
		}, wantReady: []string{"False ModuleNotLoaded"}, wantCalled: defaults},
		"a broken module, then mode Shadow":               {before: then(mode(policyv1alpha1.ModeShadow)), wantReady: []string{"False ModuleNotLoaded"}, wantCalled: defaults},
		"mode Shadow, then Enforce, then a broken module": {first: mode(policyv1alpha1.ModeShadow), before: func(r *rig) { r.change("mine", mode(policyv1alpha1.ModeEnforce)); broken(r) }, want: brokenModule, wantReady: []string{"False Unavailable: ", brokenModule + ". The policy was enforced before (generation 2,"}},
		"another policy of the same name": {before: func(r *rig) {
			require.NoError(r.t, r.client.Delete(r.t.Context(), r.get("mine")))
			r.mustPass()
			again := object("mine", fromConfigMap)
			again.UID = types.UID("another")
			require.NoError(r.t, r.client.Create(r.t.Context(), again))
			broken(r)
		}, wantReady: []string{"False ModuleNotLoaded"}, wantCalled: defaults},
		"a lost status": {before: func(r *rig) {
			broken(r)
			policy := r.get("mine")
			policy.Status = policyv1alpha1.OffloadingPolicyStatus{}
			require.NoError(r.t, r.client.Status().Update(r.t.Context(), policy))
		}, want: brokenModule, wantReady: []string{"False Unavailable"}},
		"a record that was removed while the module was broken": {before: func(r *rig) {
			require.NoError(r.t, r.client.Delete(r.t.Context(), configMap("")))
			require.NoError(r.t, r.client.DeleteAllOf(r.t.Context(), &policyv1alpha1.PolicyComponent{}, client.InNamespace("longshore")))
			policy := r.get("mine")
			policy.Annotations = nil
			require.NoError(r.t, r.client.Update(r.t.Context(), policy))
		}, wantReady: []string{"False ModuleNotFound"}, wantCalled: defaults},
		"only another component has enforced it": {content: "broken", before: func(r *rig) {
			r.other(policyv1alpha1.PolicyObservation{Generation: 1, Digest: "sha256:00", Enforced: true})
			r.mustPass()
		}, want: brokenModule, wantReady: []string{"False Unavailable: ", brokenModule + ". The policy was enforced before (generation 1, module unknown, 00)"}},
		"another component has it disabled": {content: "broken", before: func(r *rig) {
			r.other(policyv1alpha1.PolicyObservation{Generation: 1})
			r.mustPass()
		}, wantReady: []string{"False ModuleNotLoaded"}, wantCalled: defaults},
	}
}

// A process forgets the versions of a policy at its end, but not that it was enforced.
func TestDecisionsAfterARestart(t *testing.T) {
	cases := restarts()
	maps.Copy(cases, restartsOfOtherPolicies())
	for name, tc := range cases {
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
			// The second restart reads what the first one has written.
			for range 2 {
				r.restart()
				r.mustPass()
				for _, want := range tc.wantReady {
					assert.Contains(t, r.ready(tc.name), want)
				}
				assert.Empty(t, r.own(tc.name).Digest)
				_, err := r.decide()
				if tc.want == "" {
					require.NoError(t, err)
					assert.Equal(t, tc.wantCalled, r.called(contract.PodMutation))
					assert.Empty(t, r.hostname())
					continue
				}
				require.ErrorIs(t, err, chain.Unavailable)
				require.ErrorContains(t, err, `policy "`+tc.name+`"`)
				require.ErrorContains(t, err, tc.want)
				assert.Contains(t, r.own(tc.name).Message, tc.want)
				assert.Zero(t, r.own(tc.name).Generation)
			}
		})
	}
}

func heldRig(t *testing.T) *rig {
	t.Helper()
	r := newRig(t, configMap("v1"), object("mine", fromConfigMap))
	r.mustPass()
	r.store("broken")
	r.restart()
	r.recorded()
	return r
}

func (r *rig) requireHeld() {
	r.t.Helper()
	_, err := r.decide()
	require.ErrorIs(r.t, err, chain.Unavailable)
}

func TestReleaseOfAHeldPolicy(t *testing.T) {
	for name, tc := range map[string]struct {
		release func(*rig)
		want    string
	}{
		"by a version that can be used":  {release: func(r *rig) { r.store("v2") }, want: "v2"},
		"by the version that was broken": {release: func(r *rig) { r.store("v1") }, want: "v1"},
		"by failurePolicy Ignore":        {release: func(r *rig) { r.change("mine", failing(policyv1alpha1.FailurePolicyIgnore)) }},
		"by mode Shadow":                 {release: func(r *rig) { r.change("mine", mode(policyv1alpha1.ModeShadow)) }},
		"by mode Disabled":               {release: func(r *rig) { r.change("mine", mode(policyv1alpha1.ModeDisabled)) }},
		"by its deletion":                {release: func(r *rig) { require.NoError(r.t, r.client.Delete(r.t.Context(), r.get("mine"))) }},
	} {
		t.Run(name, func(t *testing.T) {
			r := heldRig(t)
			r.requireHeld()
			changes := r.changes
			tc.release(r)
			r.mustPass()
			assert.Equal(t, tc.want, r.hostname())
			assert.Equal(t, changes+1, r.changes, "waiting objects are decided again, once")
			assert.NotContains(t, r.closed, "", "there is no module to close")
		})
	}
}

func TestAHeldPolicyIsReported(t *testing.T) {
	r := newRig(t, configMap("v1"), object("mine", fromConfigMap))
	r.mustPass()
	digest := newCustom("v1").Digest()
	want := &policyv1alpha1.EnforcedVersion{Generation: 1, Module: "custom", Digest: digest, Points: []policyv1alpha1.EnforcedPoint{{Point: policyv1alpha1.PodMutationPoint}}}
	assert.Equal(t, want, r.enforced("mine"))
	r.store("broken")
	r.mustPass()
	assert.Equal(t, want, r.enforced("mine"), "the previous version is enforced")
	r.recorded()

	r.restart()
	message := brokenModule + ". The policy was enforced before (generation 1, module custom, " + chain.ShortDigest(digest) + ") and has no usable version: objects that it matches wait at PodMutation (failurePolicy: Fail): pods are refused at admission or stay Pending, and reflected objects are not updated; running pods are not changed. An operator must correct the cause, or change spec.failurePolicy or spec.mode."
	assert.Equal(t, "False Unavailable: 0/1 components decide by generation 1. Not current: webhook: "+message, r.ready("mine"))
	assert.Equal(t, message, r.own("mine").Message)
	assert.Equal(t, []string{"Warning Unavailable 0/1 components decide by generation 1. Not current: webhook: " + message}, r.recorded())
	status := r.get("mine").Status
	assert.Equal(t, want, r.enforced("mine"))
	assert.Equal(t, []policyv1alpha1.ExtensionPoint{policyv1alpha1.PodMutationPoint}, status.Points)
	assert.Equal(t, "0/1", status.Components)

	r.requireHeld()
	require.NoError(t, testutil.GatherAndCompare(r.metrics, strings.NewReader(`
# HELP longshore_policy_errors_total Calls of policies without a valid answer by class: Timeout, Memory, Trap, BadOutput, Denied, Guest, UndeclaredWrite, ObjectTooLarge, Quarantined, Unavailable, Host.
# TYPE longshore_policy_errors_total counter
longshore_policy_errors_total{class="Unavailable",extension_point="PodMutation",policy="mine"} 1
# HELP longshore_policy_refused 1 for each policy whose current version is not used, by reason and effect: previous (the previous version decides), held (objects are refused or wait), skipped (objects pass, failurePolicy Ignore), absent (objects pass, the policy was never enforced).
# TYPE longshore_policy_refused gauge
longshore_policy_refused{instead="held",policy="mine",reason="ModuleNotLoaded"} 1
`), "longshore_policy_errors_total", "longshore_policy_refused"))
	families, err := r.metrics.Gather()
	require.NoError(t, err)
	for _, family := range families {
		if family.GetName() == "longshore_policy_module_info" {
			assert.Len(t, family.GetMetric(), 4, "a held policy has no module")
		}
	}
	reports := r.reports
	r.report()
	r.mustPass()
	assert.Empty(t, r.recorded(), "one event")
	assert.Equal(t, reports, r.reports)

	r.change("mine", failing(policyv1alpha1.FailurePolicyIgnore))
	assert.Contains(t, r.ready("mine"), "objects pass without it at PodMutation (failurePolicy: Ignore).")
	assert.Equal(t, brokenModule, r.evaluate(contract.PodMutation, chain.Attributes{}).Decisions[1].Ignored)

	r.store("v2")
	r.mustPass()
	assert.Equal(t, "v2", r.hostname())
	assert.Equal(t, newCustom("v2").Digest(), r.enforced("mine").Digest)
	r.change("mine", mode(policyv1alpha1.ModeShadow))
	assert.Nil(t, r.enforced("mine"), "the operator has chosen another mode")
}

func TestAPolicyIsHeldWhileItsModuleIsLoading(t *testing.T) {
	r := heldRig(t)
	changes := r.changes
	let := r.slow("slow")
	r.store("slow")
	r.mustLook()
	r.requireHeld()
	assert.Equal(t, changes, r.changes, "nothing has changed yet")
	r.later(2e9)
	r.report()
	assert.Equal(t, "False Unavailable", r.reason("mine"))
	r.edit("mine", func(p *policyv1alpha1.OffloadingPolicy) { p.Spec.FailurePolicy = policyv1alpha1.FailurePolicyIgnore })
	r.mustLook()
	assert.Empty(t, r.hostname(), "the failure policy applies at once")
	close(let)
	r.mustPass()
	assert.Equal(t, "slow", r.hostname())
}

func TestObjectsThatAHeldPolicyMatches(t *testing.T) {
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
		"an invalid selector":               {match: &policyv1alpha1.Match{ObjectSelector: bad, VirtualNodes: []string{"milan"}}, wantIs: true},
		"two invalid selectors":             {match: &policyv1alpha1.Match{ObjectSelector: bad, NamespaceSelector: bad}, wantIs: true, wantOther: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, configMap("v1"), object("mine", fromConfigMap))
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
