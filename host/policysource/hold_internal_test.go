package policysource

import (
	"testing"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/sdk/contract"
)

func recordOf(generation int64) *policyv1alpha1.EnforcedVersion {
	return &policyv1alpha1.EnforcedVersion{Generation: generation, Module: "custom", Digest: "sha256:11", Points: []policyv1alpha1.EnforcedPoint{{Point: policyv1alpha1.PodMutationPoint}}}
}

func TestWhichVersionWasInForce(t *testing.T) {
	module := &declared{name: "custom", digest: "sha256:22", manifest: &contract.Manifest{Name: "custom", Points: []contract.PointManifest{{Point: contract.PodMutation, Moments: []contract.Moment{contract.MomentOffload}}}}}
	enforcing := bound{generation: 2, digest: "sha256:22", bindings: []chain.Binding{{Point: contract.PodMutation, Policy: module}}}
	trying := bound{generation: 3, shadow: true, bindings: enforcing.bindings}
	off := bound{generation: 3}
	standingIn := func(uid types.UID) *bound {
		return &bound{held: &held{uid: "uid-" + uid, record: recordOf(2)}, bindings: enforcing.bindings}
	}
	by := func(name string, generation int64, digest string) policyv1alpha1.Observation {
		return policyv1alpha1.Observation{Name: name, Generation: generation, Digest: digest}
	}
	for name, tc := range map[string]struct {
		mode     policyv1alpha1.Mode
		status   policyv1alpha1.OffloadingPolicyStatus
		previous *bound
		// want is the generation, zero when none was in force.
		want int64
	}{
		"a new policy":                                       {},
		"the record":                                         {status: policyv1alpha1.OffloadingPolicyStatus{Enforced: recordOf(1)}, want: 1},
		"the record of a policy in mode Shadow":              {mode: policyv1alpha1.ModeShadow, status: policyv1alpha1.OffloadingPolicyStatus{Enforced: recordOf(1)}},
		"the record of a policy that is switched off":        {mode: policyv1alpha1.ModeDisabled, status: policyv1alpha1.OffloadingPolicyStatus{Enforced: recordOf(1)}},
		"another component has the generation":               {status: policyv1alpha1.OffloadingPolicyStatus{ObservedBy: []policyv1alpha1.Observation{by("a", 0, ""), by("b", 4, "sha256:33")}}, want: 4},
		"another component has an earlier one":               {status: policyv1alpha1.OffloadingPolicyStatus{ObservedBy: []policyv1alpha1.Observation{by("b", 3, "sha256:33")}}},
		"another component has it switched off":              {status: policyv1alpha1.OffloadingPolicyStatus{ObservedBy: []policyv1alpha1.Observation{by("b", 4, "")}}},
		"this component has a version in force":              {status: policyv1alpha1.OffloadingPolicyStatus{Enforced: recordOf(1)}, previous: &enforcing, want: 2},
		"it was tried after the record":                      {status: policyv1alpha1.OffloadingPolicyStatus{Enforced: recordOf(1)}, previous: &trying},
		"it was switched off after the record":               {status: policyv1alpha1.OffloadingPolicyStatus{Enforced: recordOf(1)}, previous: &off},
		"it is off here, and in force elsewhere since":       {status: policyv1alpha1.OffloadingPolicyStatus{Enforced: recordOf(4)}, previous: &off, want: 4},
		"it is held, and status was lost":                    {previous: standingIn("mine"), want: 2},
		"it is held, and another version came":               {status: policyv1alpha1.OffloadingPolicyStatus{Enforced: recordOf(4)}, previous: standingIn("mine"), want: 4},
		"one of its name was held, and this is another":      {previous: standingIn("theirs")},
		"one of its name was held, and was switched off now": {mode: policyv1alpha1.ModeDisabled, previous: standingIn("mine")},
	} {
		t.Run(name, func(t *testing.T) {
			c := &candidate{previous: tc.previous, object: &policyv1alpha1.OffloadingPolicy{
				ObjectMeta: metav1.ObjectMeta{Name: "mine", UID: "uid-mine", Generation: 4},
				Spec:       policyv1alpha1.OffloadingPolicySpec{Mode: tc.mode}, Status: tc.status,
			}}
			got := c.inForce()
			if tc.want == 0 {
				assert.Nil(t, got)
			} else if assert.NotNil(t, got) {
				assert.Equal(t, tc.want, got.Generation)
			}
		})
	}
	assert.Equal(t, &policyv1alpha1.EnforcedVersion{Generation: 2, Module: "custom", Digest: "sha256:22", Points: []policyv1alpha1.EnforcedPoint{
		{Point: policyv1alpha1.PodMutationPoint, Moments: []string{"Offload"}},
	}}, enforcing.record())
}

func TestWhereAPolicyIsHeld(t *testing.T) {
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
		"where it was in force, at its moments":     {record: []policyv1alpha1.EnforcedPoint{offload, filter}, want: []contract.PointManifest{at(contract.PodMutation, contract.MomentOffload), at(contract.MetadataFilter)}},
		"the spec's, at the moments of before":      {spec: []policyv1alpha1.ExtensionPoint{policyv1alpha1.PodMutationPoint}, record: []policyv1alpha1.EnforcedPoint{offload, filter}, want: []contract.PointManifest{at(contract.PodMutation, contract.MomentOffload)}},
		"the spec's, where it was not in force yet": {spec: []policyv1alpha1.ExtensionPoint{policyv1alpha1.OffloadingPatchPoint}, record: []policyv1alpha1.EnforcedPoint{offload}, want: []contract.PointManifest{at(contract.OffloadingPatch)}},
		"the one that its name stands for":          {policy: "default-metadatafilter", spec: []policyv1alpha1.ExtensionPoint{policyv1alpha1.PodMutationPoint}, record: []policyv1alpha1.EnforcedPoint{offload}, want: []contract.PointManifest{at(contract.MetadataFilter)}},
		"one that has no default":                   {spec: []policyv1alpha1.ExtensionPoint{policyv1alpha1.ResourceMutationPoint}, want: []contract.PointManifest{at(contract.ResourceMutation)}},
		"all, when nobody knows":                    {want: all},
		"all, when nobody knows the point":          {spec: []policyv1alpha1.ExtensionPoint{"Unheard"}, want: all},
	} {
		t.Run(name, func(t *testing.T) {
			policy := &policyv1alpha1.OffloadingPolicy{ObjectMeta: metav1.ObjectMeta{Name: tc.policy}, Spec: policyv1alpha1.OffloadingPolicySpec{Points: tc.spec}}
			assert.Equal(t, tc.want, heldPoints(policy, &policyv1alpha1.EnforcedVersion{Points: tc.record}))
		})
	}
}
