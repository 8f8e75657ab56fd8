package plan

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/longshore-dev/longshore/builtin-policies/defaults"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/policytest"
	"github.com/longshore-dev/longshore/sdk/contract"
)

func recordOf(generation int64) *policyv1alpha1.EnforcedVersion {
	return &policyv1alpha1.EnforcedVersion{Generation: generation, Module: "custom", Digest: "sha256:11", Points: []policyv1alpha1.EnforcedPoint{{Point: policyv1alpha1.PodMutationPoint}}}
}

func TestLastEnforcedVersion(t *testing.T) {
	module := &Absent{ModuleName: "custom", ModuleDigest: "sha256:22", Declared: &contract.Manifest{Name: "custom", Points: []contract.PointManifest{{Point: contract.PodMutation, Moments: []contract.Moment{contract.MomentOffload}}}}}
	enforced := Bound{Generation: 2, Digest: "sha256:22", Bindings: []chain.Binding{{Point: contract.PodMutation, Policy: module}}}
	shadow := Bound{Generation: 3, Shadow: true, Bindings: enforced.Bindings}
	disabled := Bound{Generation: 3}
	held := func(uid types.UID) *Bound {
		return &Bound{UID: "uid-" + uid, Held: &Held{Version: recordOf(2)}, Bindings: enforced.Bindings}
	}
	for name, tc := range map[string]struct {
		mode policyv1alpha1.Mode
		// recorded is the generation in the annotation, zero for no annotation.
		recorded int64
		previous *Bound
		// want is the generation, zero for none.
		want int64
	}{
		"a new policy":                                           {},
		"a restart with a record":                                {recorded: 1, want: 1},
		"a record and mode Shadow":                               {mode: policyv1alpha1.ModeShadow, recorded: 1},
		"a record and mode Disabled":                             {mode: policyv1alpha1.ModeDisabled, recorded: 1},
		"this component enforces a later version":                {recorded: 1, previous: &enforced, want: 2},
		"mode Shadow after the record":                           {recorded: 1, previous: &shadow},
		"mode Disabled after the record":                         {recorded: 1, previous: &disabled},
		"disabled here, and enforced by another component since": {recorded: 4, previous: &disabled, want: 4},
		"held, and the record was lost":                          {previous: held("mine"), want: 2},
		"held, and a later version was recorded":                 {recorded: 4, previous: held("mine"), want: 4},
		"another policy of this name was held":                   {previous: held("other")},
		"held, and disabled now":                                 {mode: policyv1alpha1.ModeDisabled, previous: held("mine")},
	} {
		t.Run(name, func(t *testing.T) {
			policy := &policyv1alpha1.OffloadingPolicy{
				ObjectMeta: metav1.ObjectMeta{Name: "mine", UID: "uid-mine", Generation: 4},
				Spec:       policyv1alpha1.OffloadingPolicySpec{Mode: tc.mode},
			}
			if tc.recorded != 0 {
				raw, err := json.Marshal(recordOf(tc.recorded))
				require.NoError(t, err)
				policy.Annotations = map[string]string{policyv1alpha1.EnforcedAnnotation: string(raw)}
			}
			got := (&candidate{previous: tc.previous, Outcome: Outcome{Policy: policy}}).lastEnforced()
			if tc.want == 0 {
				assert.Nil(t, got)
			} else if assert.NotNil(t, got) {
				assert.Equal(t, tc.want, got.Generation)
			}
		})
	}
	assert.Equal(t, &policyv1alpha1.EnforcedVersion{Generation: 2, Module: "custom", Digest: "sha256:22", Points: []policyv1alpha1.EnforcedPoint{
		{Point: policyv1alpha1.PodMutationPoint, Moments: []string{"Offload"}},
	}}, enforced.enforcedVersion())
}

// An annotation that was damaged must not let objects pass.
func TestEnforcedVersionThatCannotBeRead(t *testing.T) {
	for _, annotation := range []string{"", "{", "[]", "{}", `{"generation":"1"}`} {
		policy := &policyv1alpha1.OffloadingPolicy{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{policyv1alpha1.EnforcedAnnotation: annotation}}}
		assert.Equal(t, &policyv1alpha1.EnforcedVersion{Module: unknownModule}, EnforcedVersion(policy), annotation)
	}
}

func TestHeldPoints(t *testing.T) {
	at := func(point contract.Point, moments ...contract.Moment) contract.PointManifest {
		return contract.PointManifest{Point: point, Moments: moments}
	}
	offload := policyv1alpha1.EnforcedPoint{Point: policyv1alpha1.PodMutationPoint, Moments: []string{"Offload"}}
	filter := policyv1alpha1.EnforcedPoint{Point: policyv1alpha1.MetadataFilterPoint}
	var all []contract.PointManifest
	for _, point := range contract.CorePoints() {
		all = append(all, at(point))
	}
	for name, tc := range map[string]struct {
		policy string
		spec   []policyv1alpha1.ExtensionPoint
		record []policyv1alpha1.EnforcedPoint
		want   []contract.PointManifest
	}{
		"those of the enforced version, at its moments":      {record: []policyv1alpha1.EnforcedPoint{offload, filter}, want: []contract.PointManifest{at(contract.PodMutation, contract.MomentOffload), at(contract.MetadataFilter)}},
		"the spec's, at the moments of the enforced version": {spec: []policyv1alpha1.ExtensionPoint{policyv1alpha1.PodMutationPoint}, record: []policyv1alpha1.EnforcedPoint{offload, filter}, want: []contract.PointManifest{at(contract.PodMutation, contract.MomentOffload)}},
		"the spec's, where no version was enforced":          {spec: []policyv1alpha1.ExtensionPoint{policyv1alpha1.OffloadingPatchPoint}, record: []policyv1alpha1.EnforcedPoint{offload}, want: []contract.PointManifest{at(contract.OffloadingPatch)}},
		"the point of the default that it replaces":          {policy: "default-metadatafilter", spec: []policyv1alpha1.ExtensionPoint{policyv1alpha1.PodMutationPoint}, record: []policyv1alpha1.EnforcedPoint{offload}, want: []contract.PointManifest{at(contract.MetadataFilter)}},
		"a point without a default":                          {spec: []policyv1alpha1.ExtensionPoint{policyv1alpha1.ResourceMutationPoint}, want: []contract.PointManifest{at(contract.ResourceMutation)}},
		"all, if none is known":                              {want: all},
		"all, if the point is unknown":                       {spec: []policyv1alpha1.ExtensionPoint{"Unknown"}, want: all},
	} {
		t.Run(name, func(t *testing.T) {
			policy := &policyv1alpha1.OffloadingPolicy{ObjectMeta: metav1.ObjectMeta{Name: tc.policy}, Spec: policyv1alpha1.OffloadingPolicySpec{Points: tc.spec}}
			assert.Equal(t, tc.want, heldPoints(policy, &policyv1alpha1.EnforcedVersion{Points: tc.record}))
		})
	}
}

func TestTheBuiltInModuleAnswersEveryDefault(t *testing.T) {
	manifest := defaults.Manifest()
	for name, point := range defaultPoints {
		assert.NotNil(t, manifest.For(point), name)
	}
	bound := Implicit(policytest.Native("defaults", manifest, nil), nil)
	assert.Len(t, bound, len(defaultPoints))
	assert.NoError(t, chain.Check(bound))
}
