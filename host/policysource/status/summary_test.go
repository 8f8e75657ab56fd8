package status_test

import (
	"encoding/json"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/policysource/status"
)

type observation = policyv1alpha1.PolicyObservation

// component returns the report of a component; nil for one that has not reported the policy.
func component(name string, o *observation) policyv1alpha1.PolicyComponent {
	c := policyv1alpha1.PolicyComponent{Status: policyv1alpha1.PolicyComponentStatus{Component: name}}
	if o != nil {
		reported := *o
		reported.Name = "mine"
		if reported.UID == "" {
			reported.UID = "uid"
		}
		c.Status.Policies = []observation{reported}
	}
	return c
}

// at is a second of a minute.
func at(second int) metav1.Time {
	return metav1.Date(2026, 3, 1, 12, 0, second, 0, time.UTC)
}

func policy(mode policyv1alpha1.Mode, digest string) *policyv1alpha1.OffloadingPolicy {
	return &policyv1alpha1.OffloadingPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "mine", UID: "uid", Generation: 2},
		Spec:       policyv1alpha1.OffloadingPolicySpec{Mode: mode},
		Status:     policyv1alpha1.OffloadingPolicyStatus{Digest: digest},
	}
}

// summaryCase is what components report of a policy, and its status.
type summaryCase struct {
	mode policyv1alpha1.Mode
	// digest in the previous status.
	digest        string
	components    []policyv1alpha1.PolicyComponent
	want          string
	wantDigest    string
	wantReady     metav1.ConditionStatus
	wantReason    string
	wantInMessage string
}

func summaryCases() map[string]summaryCase {
	const before, after = "sha256:aa", "sha256:bb"
	current := &observation{Generation: 2, Digest: after}
	broken := func(o observation) *observation {
		o.Reason, o.Message = "ModuleNotLoaded", "the module is cut in half. The previous version decides."
		return &o
	}
	return map[string]summaryCase{
		"no component": {want: "0/0", wantReady: "False", wantReason: "NoComponents"},
		"all are current": {
			components: []policyv1alpha1.PolicyComponent{component("a", current), component("b", current)},
			want:       "2/2", wantDigest: after, wantReady: "True", wantReason: "Bound", wantInMessage: "2/2 components decide by generation 2.",
		},
		"all are current in mode Shadow": {
			mode: policyv1alpha1.ModeShadow, components: []policyv1alpha1.PolicyComponent{component("a", current)},
			want: "1/1", wantDigest: after, wantReady: "True", wantReason: "Shadow",
		},
		"all are current in mode Disabled": {
			mode: policyv1alpha1.ModeDisabled, components: []policyv1alpha1.PolicyComponent{component("a", &observation{Generation: 2})},
			want: "1/1", wantReady: "True", wantReason: "Disabled",
		},
		"one has the previous generation": {
			components: []policyv1alpha1.PolicyComponent{component("b", &observation{Generation: 1, Digest: before}), component("a", current)},
			want:       "1/2", wantDigest: after, wantReady: "False", wantReason: "Behind", wantInMessage: "Not current: b: decides by generation 1 with module aa.",
		},
		"one has not reported the policy": {
			components: []policyv1alpha1.PolicyComponent{component("a", current), component("b", nil)},
			want:       "1/2", wantDigest: after, wantReady: "False", wantReason: "Behind", wantInMessage: "b: has not reported the policy.",
		},
		"one has reported another policy of this name": {
			components: []policyv1alpha1.PolicyComponent{component("a", current), component("b", &observation{UID: "other", Generation: 2, Digest: after})},
			want:       "1/2", wantDigest: after, wantReady: "False", wantReason: "Behind", wantInMessage: "b: has not reported the policy.",
		},
		"all refuse the current version": {
			digest:     before,
			components: []policyv1alpha1.PolicyComponent{component("b", broken(observation{Generation: 1, Digest: before})), component("a", broken(observation{Generation: 1, Digest: before}))},
			want:       "0/2", wantDigest: before, wantReady: "False", wantReason: "ModuleNotLoaded",
			wantInMessage: "0/2 components decide by generation 2. Not current: a, b: the module is cut in half. The previous version decides.",
		},
		"one is loading": {
			components: []policyv1alpha1.PolicyComponent{component("a", current), component("b", &observation{Generation: 1, Digest: before, Reason: "Loading", Message: "The module is being loaded."})},
			want:       "1/2", wantDigest: after, wantReady: "False", wantReason: "Loading",
		},
		"a problem before a load": {
			components: []policyv1alpha1.PolicyComponent{component("a", &observation{Reason: "Loading"}), component("b", broken(observation{}))},
			want:       "0/2", wantReady: "False", wantReason: "ModuleNotLoaded",
		},
		"a policy that is held before other problems": {
			components: []policyv1alpha1.PolicyComponent{component("a", broken(observation{})), component("b", &observation{Reason: "Unavailable", Message: "held."})},
			want:       "0/2", wantReady: "False", wantReason: "Unavailable", wantInMessage: "b: held.",
		},
		"a quarantine in one component": {
			components: []policyv1alpha1.PolicyComponent{component("a", current), component("b", &observation{Generation: 2, Digest: after, Reason: "Quarantined", Message: "Quarantined."})},
			want:       "1/2", wantDigest: after, wantReady: "False", wantReason: "Quarantined", wantInMessage: "b: Quarantined.",
		},
		"more components than a message names": {
			components: []policyv1alpha1.PolicyComponent{component("a", nil), component("b", nil), component("c", nil), component("d", nil), component("e", nil)},
			want:       "0/5", wantReady: "False", wantReason: "Behind", wantInMessage: "Not current: a, b, c, and 2 more: has not reported the policy.",
		},
	}
}

// replacedCases are those of a module that is replaced under the same generation.
func replacedCases() map[string]summaryCase {
	const before, after = "sha256:aa", "sha256:bb"
	return map[string]summaryCase{
		"a module is replaced under the same generation": {
			components: []policyv1alpha1.PolicyComponent{component("a", &observation{Generation: 2, Digest: before, Since: at(1)}), component("b", &observation{Generation: 2, Digest: after, Since: at(2)})},
			want:       "1/2", wantDigest: after, wantReady: "False", wantReason: "Behind", wantInMessage: "a: decides by generation 2 with module aa.",
		},
		"the replaced module sorts after the new one": {
			components: []policyv1alpha1.PolicyComponent{component("a", &observation{Generation: 2, Digest: before, Since: at(2)}), component("b", &observation{Generation: 2, Digest: after, Since: at(1)})},
			want:       "1/2", wantDigest: before, wantReady: "False", wantReason: "Behind", wantInMessage: "b: decides by generation 2 with module bb.",
		},
		"a component with the replaced module has started again": {
			components: []policyv1alpha1.PolicyComponent{
				component("a", &observation{Generation: 2, Digest: before, Since: at(1)}), component("b", &observation{Generation: 2, Digest: after, Since: at(2)}),
				component("c", &observation{Generation: 2, Digest: before, Since: at(3)}),
			},
			want: "1/3", wantDigest: after, wantReady: "False", wantReason: "Behind", wantInMessage: "a, c: decides by generation 2 with module aa.",
		},
		"two modules that last do not take turns": {
			digest:     after,
			components: []policyv1alpha1.PolicyComponent{component("a", &observation{Generation: 2, Digest: before, Since: at(1)}), component("b", &observation{Generation: 2, Digest: after, Since: at(2)})},
			want:       "1/2", wantDigest: after, wantReady: "False", wantReason: "Behind", wantInMessage: "a: decides by generation 2 with module aa.",
		},
	}
}

// notCalledCases are those of components that do not call the policy.
func notCalledCases() map[string]summaryCase {
	const before, after = "sha256:aa", "sha256:bb"
	current := &observation{Generation: 2, Digest: after}
	return map[string]summaryCase{
		"a component that does not call the policy does not count": {
			components: []policyv1alpha1.PolicyComponent{component("a", &observation{Generation: 2, Digest: after, NotCalled: true}), component("b", &observation{Generation: 1, Digest: before})},
			want:       "0/1", wantDigest: before, wantReady: "False", wantReason: "Behind", wantInMessage: "0/1 components decide by generation 2. Not current: b:",
		},
		"a component that did not call the previous version": {
			components: []policyv1alpha1.PolicyComponent{component("a", &observation{Generation: 1, Digest: before, NotCalled: true}), component("b", current)},
			want:       "1/2", wantDigest: after, wantReady: "False", wantReason: "Behind", wantInMessage: "a: decides by generation 1",
		},
		"no component calls the policy yet": {
			components: []policyv1alpha1.PolicyComponent{component("a", &observation{Generation: 2, Digest: after, NotCalled: true})},
			want:       "1/1", wantDigest: after, wantReady: "True", wantReason: "Bound",
		},
	}
}

func TestSummarize(t *testing.T) {
	cases := summaryCases()
	maps.Copy(cases, notCalledCases())
	maps.Copy(cases, replacedCases())
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := status.Summarize(policy(tc.mode, tc.digest), tc.components)
			assert.Equal(t, tc.want, got.Components)
			assert.Equal(t, tc.wantDigest, got.Digest)
			assert.Equal(t, int64(2), got.ObservedGeneration)
			require.Len(t, got.Conditions, 1)
			ready := got.Conditions[0]
			assert.Equal(t, tc.wantReady, ready.Status)
			assert.Equal(t, tc.wantReason, ready.Reason)
			assert.Equal(t, int64(2), ready.ObservedGeneration)
			assert.Contains(t, ready.Message, tc.wantInMessage)
		})
	}
}

func TestSummarizeTakesTheManifestOfTheCurrentModule(t *testing.T) {
	manifest := func(point policyv1alpha1.ExtensionPoint) *policyv1alpha1.ManifestSummary {
		return &policyv1alpha1.ManifestSummary{Name: "custom", Points: []policyv1alpha1.PointSummary{{Point: point}, {Point: policyv1alpha1.ResourceMutationPoint}}}
	}
	got := status.Summarize(policy("", ""), []policyv1alpha1.PolicyComponent{
		component("a", &observation{Generation: 1, Digest: "sha256:aa", Manifest: manifest(policyv1alpha1.MetadataFilterPoint)}),
		component("b", &observation{Generation: 2, Digest: "sha256:bb", Manifest: manifest(policyv1alpha1.PodMutationPoint)}),
	})
	assert.Equal(t, manifest(policyv1alpha1.PodMutationPoint), got.Manifest)
	assert.Equal(t, []policyv1alpha1.ExtensionPoint{policyv1alpha1.PodMutationPoint, policyv1alpha1.ResourceMutationPoint}, got.Points)
	assert.Equal(t, "PodMutation,ResourceMutation", got.PointNames)
}

func TestEnforcedRecord(t *testing.T) {
	manifest := &policyv1alpha1.ManifestSummary{Name: "custom", Points: []policyv1alpha1.PointSummary{{Point: policyv1alpha1.PodMutationPoint, Moments: []string{"Offload"}, Reads: []string{"/object"}}}}
	enforced := func(generation int64) *observation {
		return &observation{Generation: generation, Digest: "sha256:aa", Enforced: true, Manifest: manifest}
	}
	record := func(generation int64) *policyv1alpha1.EnforcedVersion {
		return &policyv1alpha1.EnforcedVersion{Generation: generation, Module: "custom", Digest: "sha256:aa", Points: []policyv1alpha1.EnforcedPoint{{Point: policyv1alpha1.PodMutationPoint, Moments: []string{"Offload"}}}}
	}
	for name, tc := range map[string]struct {
		mode       policyv1alpha1.Mode
		recorded   string
		components []policyv1alpha1.PolicyComponent
		want       *policyv1alpha1.EnforcedVersion
	}{
		"never enforced":                       {components: []policyv1alpha1.PolicyComponent{component("a", &observation{Reason: "ModuleNotLoaded"})}},
		"enforced by one component":            {components: []policyv1alpha1.PolicyComponent{component("a", nil), component("b", enforced(2))}, want: record(2)},
		"enforced in two generations":          {components: []policyv1alpha1.PolicyComponent{component("a", enforced(1)), component("b", enforced(2)), component("c", enforced(1))}, want: record(2)},
		"no component enforces it any more":    {recorded: `{"generation":1,"module":"custom","digest":"sha256:aa","points":[{"point":"PodMutation","moments":["Offload"]}]}`, components: []policyv1alpha1.PolicyComponent{component("a", &observation{Reason: "Unavailable"})}, want: record(1)},
		"a later version is enforced":          {recorded: `{"generation":1}`, components: []policyv1alpha1.PolicyComponent{component("a", enforced(2))}, want: record(2)},
		"mode Shadow":                          {mode: policyv1alpha1.ModeShadow, recorded: `{"generation":1}`, components: []policyv1alpha1.PolicyComponent{component("a", enforced(1))}},
		"mode Disabled":                        {mode: policyv1alpha1.ModeDisabled, recorded: `{"generation":1}`, components: []policyv1alpha1.PolicyComponent{component("a", enforced(1))}},
		"another policy of this name enforced": {components: []policyv1alpha1.PolicyComponent{component("a", &observation{UID: "other", Generation: 2, Enforced: true})}},
	} {
		t.Run(name, func(t *testing.T) {
			p := policy(tc.mode, "")
			if tc.recorded != "" {
				p.Annotations = map[string]string{policyv1alpha1.EnforcedAnnotation: tc.recorded}
			}
			got, err := status.EnforcedRecord(p, tc.components)
			require.NoError(t, err)
			if tc.want == nil {
				assert.Empty(t, got)
				return
			}
			decoded := &policyv1alpha1.EnforcedVersion{}
			require.NoError(t, json.Unmarshal([]byte(got), decoded))
			assert.Equal(t, tc.want, decoded)
		})
	}
}
