package plan_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policysource/plan"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// module writes at PodMutation.
func module(name, path string) chain.Policy {
	return &plan.Absent{ModuleName: name, ModuleDigest: "sha256:" + name, Declared: &contract.Manifest{
		Name: name, Contracts: contract.Versions(),
		Points: []contract.PointManifest{{Point: contract.PodMutation, Writes: []contract.WriteRule{{Path: path, Verbs: contract.Verbs()}}}},
	}}
}

// builtIn answers all core points.
func builtIn() chain.Policy {
	manifest := &contract.Manifest{Name: "built-in", Contracts: contract.Versions()}
	for _, point := range contract.CorePoints() {
		manifest.Points = append(manifest.Points, contract.PointManifest{Point: point})
	}
	return &plan.Absent{ModuleName: "built-in", ModuleDigest: "sha256:built-in", Declared: manifest}
}

func policy(name string, change func(*policyv1alpha1.OffloadingPolicy)) *policyv1alpha1.OffloadingPolicy {
	p := &policyv1alpha1.OffloadingPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Generation: 1, CreationTimestamp: metav1.NewTime(time.Unix(1000, 0))},
		Spec:       policyv1alpha1.OffloadingPolicySpec{Module: policyv1alpha1.ModuleSource{ConfigMap: &policyv1alpha1.ConfigMapSource{Namespace: "longshore", Name: name}}},
	}
	if change != nil {
		change(p)
	}
	return p
}

func enforcedBefore(t *testing.T) func(*policyv1alpha1.OffloadingPolicy) {
	raw, err := json.Marshal(policyv1alpha1.EnforcedVersion{Generation: 1, Module: "m", Points: []policyv1alpha1.EnforcedPoint{{Point: policyv1alpha1.PodMutationPoint}}})
	require.NoError(t, err)
	return func(p *policyv1alpha1.OffloadingPolicy) {
		p.Annotations = map[string]string{policyv1alpha1.EnforcedAnnotation: string(raw)}
	}
}

func setMode(mode policyv1alpha1.Mode) func(*policyv1alpha1.OffloadingPolicy) {
	return func(p *policyv1alpha1.OffloadingPolicy) { p.Spec.Mode = mode }
}

// What decides for the policy "mine".
const (
	current  = "current"
	previous = "previous"
	held     = "held"
	nothing  = "nothing"
)

// makeCase is a policy "mine" in a state, and what becomes of it.
type makeCase struct {
	change   func(*policyv1alpha1.OffloadingPolicy)
	module   plan.Module
	previous *plan.Bound
	// eldest has the same writes and was created before.
	eldest bool

	want        string
	wantReason  string
	wantLoading bool
	// wantPoints are the points at which "mine" is bound.
	wantPoints []contract.Point
}

func makeCases(t *testing.T) map[string]makeCase {
	hostname := module("m", "/spec/hostname")
	loaded := plan.Module{ID: "v2", Policy: hostname}
	broken := plan.Module{Problem: &plan.Problem{Reason: plan.ReasonModuleNotLoaded, Err: errors.New("it is cut in half")}}
	loading := plan.Module{ID: "v2", LoadingSince: time.Unix(2000, 0)}
	enforced := &plan.Bound{Version: "v1", Generation: 1, Bindings: []chain.Binding{{Name: "mine", Point: contract.PodMutation, Policy: hostname}}}
	disabled := &plan.Bound{UID: "uid-mine", Version: "v1", Generation: 1}
	shadow := func(uid types.UID) *plan.Bound {
		return &plan.Bound{UID: uid, Version: "v1", Generation: 1, Shadow: true, Bindings: enforced.Bindings}
	}
	return map[string]makeCase{
		"a new policy":                                       {module: loaded, want: current, wantPoints: []contract.Point{contract.PodMutation}},
		"a new version":                                      {module: loaded, previous: enforced, want: current, wantPoints: []contract.Point{contract.PodMutation}},
		"a new policy with a broken module":                  {module: broken, want: nothing, wantReason: plan.ReasonModuleNotLoaded},
		"a broken version of an enforced policy":             {module: broken, previous: enforced, want: previous, wantReason: plan.ReasonModuleNotLoaded, wantPoints: []contract.Point{contract.PodMutation}},
		"a broken version of a disabled policy":              {module: broken, previous: disabled, want: previous, wantReason: plan.ReasonModuleNotLoaded},
		"a broken version of a policy in mode Shadow":        {module: broken, previous: shadow("uid-mine"), want: previous, wantReason: plan.ReasonModuleNotLoaded, wantPoints: []contract.Point{contract.PodMutation}},
		"a broken policy after another one in mode Shadow":   {module: broken, previous: shadow("uid-of-another"), want: nothing, wantReason: plan.ReasonModuleNotLoaded},
		"a broken policy after another one that is enforced": {module: broken, previous: enforced, want: previous, wantReason: plan.ReasonModuleNotLoaded, wantPoints: []contract.Point{contract.PodMutation}},
		"a broken module after a restart":                    {change: enforcedBefore(t), module: broken, want: held, wantReason: plan.ReasonModuleNotLoaded, wantPoints: []contract.Point{contract.PodMutation}},
		"a new policy that is loading":                       {module: loading, want: nothing, wantLoading: true},
		"a new version that is loading":                      {module: loading, previous: enforced, want: previous, wantLoading: true, wantPoints: []contract.Point{contract.PodMutation}},
		"an enforced policy, new here, loading":              {change: enforcedBefore(t), module: loading, want: nothing, wantLoading: true},
		"a disabled policy":                                  {change: setMode(policyv1alpha1.ModeDisabled), previous: enforced, want: current},
		"a spec that is not valid":                           {change: setMode("Later"), module: loaded, previous: enforced, want: previous, wantReason: plan.ReasonInvalidSpec, wantPoints: []contract.Point{contract.PodMutation}},
		"a point that the module does not answer": {change: func(p *policyv1alpha1.OffloadingPolicy) {
			p.Spec.Points = []policyv1alpha1.ExtensionPoint{"MetadataFilter"}
		}, module: loaded, want: nothing, wantReason: plan.ReasonInvalidSpec},
		"a conflict with an elder policy": {module: loaded, eldest: true, want: nothing, wantReason: plan.ReasonOrderNeeded},
		"a conflict after a restart":      {change: enforcedBefore(t), module: loaded, eldest: true, want: held, wantReason: plan.ReasonOrderNeeded, wantPoints: []contract.Point{contract.PodMutation}},
		"a conflict in mode Shadow":       {change: setMode(policyv1alpha1.ModeShadow), module: loaded, eldest: true, want: current, wantPoints: []contract.Point{contract.PodMutation}},
	}
}

func TestMake(t *testing.T) {
	loaded := plan.Module{ID: "v2", Policy: module("m", "/spec/hostname")}
	eldest := policy("eldest", func(p *policyv1alpha1.OffloadingPolicy) { p.CreationTimestamp = metav1.NewTime(time.Unix(1, 0)) })
	for name, tc := range makeCases(t) {
		t.Run(name, func(t *testing.T) {
			mine := policy("mine", tc.change)
			in := &plan.Input{Policies: []*policyv1alpha1.OffloadingPolicy{mine}, Modules: map[string]plan.Module{"mine": tc.module, "eldest": loaded}, BuiltIn: builtIn()}
			if tc.eldest {
				in.Policies = append(in.Policies, eldest)
			}
			if tc.previous != nil {
				in.Previous = map[string]plan.Bound{"mine": *tc.previous}
			}
			outcomes, bindings, err := plan.Make(in)
			require.NoError(t, err)
			require.NoError(t, chain.Check(bindings))
			outcome := outcomes[len(outcomes)-1]
			require.Equal(t, mine, outcome.Policy)
			switch tc.want {
			case nothing:
				assert.Nil(t, outcome.Bound)
			case previous:
				assert.Equal(t, tc.previous.Version, outcome.Bound.Version)
			case held:
				assert.True(t, outcome.IsHeld())
			case current:
				assert.Equal(t, mine.Generation, outcome.Bound.Generation)
				assert.Contains(t, outcome.Bound.Version, "uid-mine 1")
			}
			assert.Equal(t, tc.wantLoading, outcome.IsLoading())
			if tc.wantReason == "" {
				assert.Nil(t, outcome.Problem)
			} else if assert.NotNil(t, outcome.Problem) {
				assert.Equal(t, tc.wantReason, outcome.Problem.Reason)
			}
			var points []contract.Point
			for _, b := range bindings {
				if b.Name == "mine" {
					points = append(points, b.Point)
				}
			}
			assert.Equal(t, tc.wantPoints, points)
		})
	}
}

func TestMakeKeepsAndReplacesDefaults(t *testing.T) {
	names := func(p *policyv1alpha1.OffloadingPolicy) (names []string) {
		_, bindings, err := plan.Make(&plan.Input{
			Policies: []*policyv1alpha1.OffloadingPolicy{p}, BuiltIn: builtIn(),
			Modules: map[string]plan.Module{p.Name: {ID: "v1", Policy: module("m", "/spec/hostname")}},
		})
		require.NoError(t, err)
		for _, b := range bindings {
			names = append(names, b.Name)
		}
		return names
	}
	all := []string{"default-antiaffinity", "default-metadatafilter", "default-offloadingpatch", "default-podplacement"}
	assert.Equal(t, append(all, "mine"), names(policy("mine", nil)))
	assert.Equal(t, all[:3], names(policy("default-podplacement", setMode(policyv1alpha1.ModeDisabled))))
	assert.Equal(t, append(all, "default-podplacement"), names(policy("default-podplacement", setMode(policyv1alpha1.ModeShadow))))
}

func TestMakeFallsBackToAVersionThatHasAnswered(t *testing.T) {
	lastGood := policy("mine", func(p *policyv1alpha1.OffloadingPolicy) {
		p.Spec.FailurePolicy, p.Generation = policyv1alpha1.FailurePolicyLastGood, 3
	})
	first, second := module("first", "/spec/hostname"), module("second", "/spec/hostname")
	bound := plan.Bound{
		Version: "2", Generation: 2, Digest: second.Digest(), Bindings: []chain.Binding{{Name: "mine", Point: contract.PodMutation, Policy: second}},
		Fallback: []chain.Binding{{Name: "mine", Point: contract.PodMutation, Policy: first}}, FallbackGeneration: 1,
	}
	for name, tc := range map[string]struct {
		answered bool
		module   chain.Policy
		want     int64
	}{
		"the previous version has answered":                     {answered: true, module: module("third", "/spec/hostname"), want: 2},
		"the previous version has not answered":                 {module: module("third", "/spec/hostname"), want: 1},
		"the previous version has the same module and settings": {answered: true, module: second, want: 1},
	} {
		outcomes, _, err := plan.Make(&plan.Input{
			Policies: []*policyv1alpha1.OffloadingPolicy{lastGood}, Modules: map[string]plan.Module{"mine": {ID: "x", Policy: tc.module}},
			Previous: map[string]plan.Bound{"mine": bound}, Answered: map[string]bool{"mine": tc.answered}, BuiltIn: builtIn(),
		})
		require.NoError(t, err, name)
		assert.Equal(t, tc.want, outcomes[0].Bound.FallbackGeneration, name)
		assert.Same(t, &outcomes[0].Bound.Fallback[0], outcomes[0].Bound.Bindings[0].Fallback, name)
	}
}

func TestTheVersionThatChangedIsRefused(t *testing.T) {
	a := policy("a", func(p *policyv1alpha1.OffloadingPolicy) { p.Spec.Order = ptr.To[int32](1) })
	b := policy("b", func(p *policyv1alpha1.OffloadingPolicy) { p.Spec.Order = ptr.To[int32](2) })
	in := &plan.Input{
		Policies: []*policyv1alpha1.OffloadingPolicy{a, b}, BuiltIn: builtIn(),
		Modules: map[string]plan.Module{"a": {ID: "1", Policy: module("m", "/spec/hostname")}, "b": {ID: "1", Policy: module("m", "/spec/hostname")}},
	}
	outcomes, _, err := plan.Make(in)
	require.NoError(t, err)
	in.Previous = map[string]plan.Bound{"a": *outcomes[0].Bound, "b": *outcomes[1].Bound}
	a.Spec.Order, a.Generation = ptr.To[int32](2), 2
	outcomes, _, err = plan.Make(in)
	require.NoError(t, err)
	assert.Equal(t, plan.ReasonOrderNeeded, outcomes[0].Problem.Reason)
	assert.Equal(t, int64(1), outcomes[0].Bound.Generation, "the elder one keeps its previous version")
	assert.Nil(t, outcomes[1].Problem)
}
