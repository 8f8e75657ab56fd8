package policysource_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/sdk/contract"
)

func TestNothingIsDecidedBeforeTheFirstPass(t *testing.T) {
	r := newRig(t, object("default-podplacement", func(s *policyv1alpha1.OffloadingPolicySpec) { s.Mode = policyv1alpha1.ModeDisabled }))
	require.ErrorIs(t, r.source.Ready(), chain.ErrNotLoaded)
	r.fail = func(verb string, _ any) error {
		if verb == "list" {
			return errNoConnection
		}
		return nil
	}
	require.ErrorIs(t, r.pass(), errNoConnection)
	require.ErrorIs(t, r.source.Ready(), chain.ErrNotLoaded)
	_, err := r.source.Chains().Evaluate(t.Context(), chain.Input{Point: contract.PodMutation})
	require.ErrorIs(t, err, chain.ErrNotLoaded)

	r.fail = nil
	r.mustPass()
	require.NoError(t, r.source.Ready())
	assert.Empty(t, r.called(contract.PodMutation), "switched off from the start")
	assert.Equal(t, []string{"default-offloadingpatch"}, r.called(contract.OffloadingPatch))
}

func TestImplicitDefaultsAreReplacedAndRestored(t *testing.T) {
	r := newRig(t)
	r.mustPass()
	for name, point := range map[string]contract.Point{
		"default-podplacement": contract.PodMutation, "default-offloadingpatch": contract.OffloadingPatch,
		"default-antiaffinity": contract.AntiAffinityPreset, "default-metadatafilter": contract.MetadataFilter,
	} {
		assert.Equal(t, []string{name}, r.called(point))
		policy := object(name, func(s *policyv1alpha1.OffloadingPolicySpec) { s.Mode = policyv1alpha1.ModeDisabled })
		require.NoError(t, r.client.Create(t.Context(), policy))
		r.mustPass()
		assert.Empty(t, r.called(point), "disabled")
		assert.Equal(t, "True Disabled: 1/1 components decide by generation 1. The policy is not called (mode: Disabled).", r.ready(name))

		r.edit(name, func(p *policyv1alpha1.OffloadingPolicy) { p.Spec.Mode = policyv1alpha1.ModeEnforce })
		r.mustPass()
		assert.Equal(t, []string{name}, r.called(point))
		status := r.get(name).Status
		assert.Equal(t, r.builtIn.Digest(), status.Digest)
		assert.Equal(t, []policyv1alpha1.ExtensionPoint{policyv1alpha1.ExtensionPoint(point)}, status.Points, "its own point only")

		require.NoError(t, r.client.Delete(t.Context(), policy))
		r.mustPass()
		assert.Equal(t, []string{name}, r.called(point), "restored")
	}
	assert.Empty(t, r.closed, "built-in modules stay open")
}

func TestABadPolicyIsReportedAndNotBound(t *testing.T) {
	for name, tc := range badObjects() {
		t.Run(name, func(t *testing.T) {
			tc = tc.withDefaults()
			r := newRig(t, object(tc.name, tc.spec), configMap(tc.content), twoKeys())
			r.mustPass()
			assert.Equal(t, "False "+tc.reason, r.reason(tc.name))
			own := r.own(tc.name)
			assert.Equal(t, tc.reason, own.Reason)
			assert.Contains(t, own.Message, tc.want)
			assert.Empty(t, own.Digest)
			assert.Equal(t, []string{"default-podplacement"}, r.called(contract.PodMutation), "the others are not affected")
			loads, reports := len(r.loads), r.reports
			r.mustPass()
			assert.Len(t, r.loads, loads, "bad bytes are not loaded again")
			assert.Equal(t, reports, r.reports, "no change, no write")
		})
	}
}

func TestABadVersionNeverReplacesAGoodOne(t *testing.T) {
	r := newRig(t, object("mine", fromConfigMap), configMap("v1"))
	r.mustPass()
	hostname := func() any {
		return r.evaluate(contract.PodMutation, chain.Attributes{}).Object["spec"].(map[string]any)["hostname"]
	}
	assert.Equal(t, "v1", hostname())
	assert.Equal(t, "True Bound", r.reason("mine"))
	good := r.get("mine").Status

	r.store("broken")
	r.mustPass()
	assert.Equal(t, "v1", hostname())
	assert.Equal(t, "False ModuleNotLoaded: 0/1 components decide by generation 1. Not current: webhook: the module is cut in half: its author must build it again. The previous version decides.", r.ready("mine"))
	bad := r.get("mine").Status
	assert.Equal(t, good.Digest, bad.Digest, "the digest is that of the version in use")
	assert.Equal(t, good.Manifest, bad.Manifest)

	r.store("v2")
	r.mustPass()
	assert.Equal(t, "v2", hostname())
	assert.Equal(t, []string{"v1"}, r.closed, "the old module is closed")
	assert.Equal(t, "True Bound", r.reason("mine"))
	assert.Empty(t, r.own("mine").Message)

	require.NoError(t, r.client.Delete(t.Context(), r.get("mine")))
	r.mustPass()
	assert.Equal(t, []string{"default-podplacement"}, r.called(contract.PodMutation))
	assert.Equal(t, []string{"v1", "v2"}, r.closed)
	assert.Equal(t, []string{"v1", "broken", "v2"}, r.loads)
}

func TestChangedIsCalledOnce(t *testing.T) {
	r := newRig(t, configMap("v1"))
	for _, step := range []struct {
		does func()
		want int
	}{
		{does: func() {}, want: 1},
		{does: func() {}, want: 1},
		{does: func() { require.NoError(t, r.client.Create(t.Context(), object("mine", fromConfigMap))) }, want: 2},
		{does: func() { r.store("broken") }, want: 2},
		{does: func() { r.store("v2") }, want: 3},
		{does: func() { require.NoError(t, r.client.Delete(t.Context(), object("mine", nil))) }, want: 4},
	} {
		step.does()
		r.mustPass()
		assert.Equal(t, step.want, r.changes)
	}
}

func TestTheNewerOfTwoConflictingPoliciesIsRefused(t *testing.T) {
	one := int32(1)
	elder := object("b-elder", fromConfigMap)
	elder.CreationTimestamp = metav1.NewTime(epoch.Add(-time.Hour))
	r := newRig(t, object("a-newer", fromConfigMap), elder, configMap("v1"))
	r.mustPass()
	assert.Equal(t, []string{"default-podplacement", "b-elder"}, r.called(contract.PodMutation))
	assert.Equal(t, "False OrderNeeded", r.reason("a-newer"))
	assert.Equal(t, "True Bound", r.reason("b-elder"))

	r.edit("a-newer", func(p *policyv1alpha1.OffloadingPolicy) { p.Spec.Order = &one })
	r.mustPass()
	assert.Equal(t, []string{"default-podplacement", "b-elder"}, r.called(contract.PodMutation), "one order is not enough")

	minus := int32(-1)
	r.edit("b-elder", func(p *policyv1alpha1.OffloadingPolicy) { p.Spec.Order = &minus })
	r.mustPass()
	assert.Equal(t, []string{"b-elder", "default-podplacement", "a-newer"}, r.called(contract.PodMutation))
	assert.Equal(t, []string{"v1"}, r.loads, "equal bytes are loaded once")

	r.edit("b-elder", func(p *policyv1alpha1.OffloadingPolicy) { p.Spec.Order = &one })
	r.mustPass()
	assert.Equal(t, []string{"b-elder", "default-podplacement", "a-newer"}, r.called(contract.PodMutation), "the policy that changed is refused and keeps its previous version")
	assert.Equal(t, "False OrderNeeded", r.reason("b-elder"))
	assert.Equal(t, "True Bound", r.reason("a-newer"))
	assert.Empty(t, r.closed)
}

func TestMatching(t *testing.T) {
	app := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	team := &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
	for name, tc := range map[string]struct {
		match      *policyv1alpha1.Match
		attributes chain.Attributes
		want       bool
	}{
		"an empty match":          {match: &policyv1alpha1.Match{}, want: true},
		"labels that match":       {match: &policyv1alpha1.Match{ObjectSelector: app}, attributes: chain.Attributes{Labels: map[string]string{"app": "web"}}, want: true},
		"labels that do not":      {match: &policyv1alpha1.Match{ObjectSelector: app}},
		"the virtual node":        {match: &policyv1alpha1.Match{VirtualNodes: []string{"milan"}}, attributes: chain.Attributes{VirtualNode: "milan"}, want: true},
		"no node yet":             {match: &policyv1alpha1.Match{VirtualNodes: []string{"milan"}}},
		"a known namespace":       {match: &policyv1alpha1.Match{NamespaceSelector: team}, attributes: chain.Attributes{NamespaceLabels: map[string]string{"team": "a"}}, want: true},
		"a namespace to be read":  {match: &policyv1alpha1.Match{NamespaceSelector: team}, attributes: chain.Attributes{Namespace: "a"}, want: true},
		"another namespace":       {match: &policyv1alpha1.Match{NamespaceSelector: team}, attributes: chain.Attributes{Namespace: "b"}},
		"one of two does not fit": {match: &policyv1alpha1.Match{NamespaceSelector: team, ObjectSelector: app}, attributes: chain.Attributes{Namespace: "a"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, configMap("v1"),
				object("mine", func(s *policyv1alpha1.OffloadingPolicySpec) { fromConfigMap(s); s.Match = tc.match }),
				&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"team": "a"}}},
				&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "b"}})
			r.mustPass()
			if tc.want {
				assert.Equal(t, []string{"default-podplacement", "mine"}, names(r.evaluate(contract.PodMutation, tc.attributes)))
			} else {
				assert.Equal(t, []string{"default-podplacement"}, names(r.evaluate(contract.PodMutation, tc.attributes)))
			}
		})
	}
	r := newRig(t, configMap("v1"), object("mine", func(s *policyv1alpha1.OffloadingPolicySpec) {
		fromConfigMap(s)
		s.Match = &policyv1alpha1.Match{NamespaceSelector: team}
	}))
	r.mustPass()
	_, err := r.source.Chains().Evaluate(t.Context(), chain.Input{Point: contract.PodMutation, Match: chain.Attributes{Namespace: "gone"}})
	require.ErrorIs(t, err, chain.Host)
	require.True(t, apierrors.IsNotFound(err), "%v", err)
}

func TestFailuresOfTheAPIServer(t *testing.T) {
	r := newRig(t, object("mine", fromConfigMap), configMap("v1"))
	failing := map[string]bool{"get": true}
	r.fail = func(verb string, o any) error {
		_, isConfigMap := o.(*corev1.ConfigMap)
		if failing[verb] && (isConfigMap || verb != "get") {
			return apierrors.NewTooManyRequestsError("later")
		}
		return nil
	}
	err := r.pass()
	require.True(t, apierrors.IsTooManyRequests(err), "%v", err)
	require.ErrorContains(t, err, "reading ConfigMap longshore/module")
	require.Error(t, r.source.Ready(), "an unreadable ConfigMap is not a missing one")

	failing = map[string]bool{"apply": true}
	err = r.pass()
	require.True(t, apierrors.IsTooManyRequests(err), "%v", err)
	require.ErrorContains(t, err, `writing PolicyComponent longshore/webhook`)
	require.NoError(t, r.source.Ready(), "decisions do not wait for reports")
	assert.Equal(t, []string{"default-podplacement", "mine"}, r.called(contract.PodMutation))

	failing = nil
	r.mustPass()
	assert.Equal(t, "True Bound", r.reason("mine"))
}

func TestStatusOfAReadyPolicy(t *testing.T) {
	r := newRig(t, object("mine", fromConfigMap), configMap("v1"))
	r.mustPass()
	status := r.get("mine").Status
	own := r.own("mine")
	assert.True(t, own.Since.Equal(&metav1.Time{Time: epoch}))
	assert.True(t, own.Enforced)
	assert.Equal(t, newCustom("v1").Digest(), own.Digest)
	assert.Equal(t, "1/1", status.Components)
	assert.Equal(t, newCustom("v1").Digest(), status.Digest)
	assert.Equal(t, chain.ShortDigest(newCustom("v1").Digest()), status.ShortDigest)
	assert.Equal(t, &policyv1alpha1.ManifestSummary{Name: "custom", Version: "v1", Points: []policyv1alpha1.PointSummary{{
		Point:  policyv1alpha1.PodMutationPoint,
		Writes: []policyv1alpha1.WriteRule{{Path: "/spec/hostname", Verbs: []policyv1alpha1.Verb{"set", "remove", "merge", "ensure", "require"}}},
	}}}, status.Manifest)
	assert.Equal(t, int64(1), status.ObservedGeneration)
}

// The enums of the CRD repeat those of the contract, which host/apis does not import.
func TestEnumsOfTheCRDAreThoseOfTheContract(t *testing.T) {
	var points []contract.Point
	for _, point := range []policyv1alpha1.ExtensionPoint{
		policyv1alpha1.MetadataFilterPoint, policyv1alpha1.OffloadingPatchPoint, policyv1alpha1.AntiAffinityPresetPoint, policyv1alpha1.PodMutationPoint,
	} {
		points = append(points, contract.Point(point))
	}
	assert.ElementsMatch(t, contract.CorePoints(), points)
	assert.Equal(t, string(chain.Fail), string(policyv1alpha1.FailurePolicyFail))
	assert.Equal(t, string(chain.Ignore), string(policyv1alpha1.FailurePolicyIgnore))
	assert.Equal(t, string(chain.Enforce), string(policyv1alpha1.ModeEnforce))
	assert.Equal(t, string(chain.Disabled), string(policyv1alpha1.ModeDisabled))
}
