package policysource_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// A component keeps the modules that it calls, reports which policies it does not call, and
// checks all.
func TestAComponentKeepsTheModulesThatItCalls(t *testing.T) {
	for name, tc := range map[string]struct {
		stage  chain.Stage
		called bool
	}{
		"the point":     {chain.Stage{Point: contract.PodMutation, Moment: contract.MomentAdmission}, true},
		"another point": {chain.Stage{Point: contract.ShadowPodAdmission}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, object("mine", fromConfigMap), configMap("v1"))
			r.stages = []chain.Stage{tc.stage}
			r.restart()
			own := r.own("mine")
			assert.Equal(t, !tc.called, own.NotCalled)
			assert.Equal(t, newCustom("v1").Digest(), own.Digest)
			assert.Equal(t, "True Bound", r.reason("mine"), "it counts while no other component calls it")
			want := []string{"v1"}
			if tc.called {
				want = nil
			}
			assert.Equal(t, want, r.closed)

			// The manifests of all policies are known, so that conflicts are found before a policy is stored.
			conflicting := object("other", fromConfigMap)
			verdict, err := r.source.Judge(t.Context(), conflicting, nil)
			require.NoError(t, err)
			assert.Contains(t, verdict.Denial, `policies "mine" and "other" both write /spec/hostname at PodMutation`)

			r.edit("mine", func(p *policyv1alpha1.OffloadingPolicy) { p.Spec.Mode = policyv1alpha1.ModeDisabled })
			r.mustPass()
			assert.False(t, r.own("mine").NotCalled, "without bindings")
		})
	}
}
