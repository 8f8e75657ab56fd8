package policysource_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
)

// Deleting the ConfigMap is how a policy that is kept from it is deleted.
func TestOnlyAModuleThatIsMissedIsWarnedOf(t *testing.T) {
	for name, tc := range map[string]struct {
		policy string
		labels map[string]string
		warned bool
	}{
		"the policy goes with its ConfigMap": {policy: "module", labels: map[string]string{policyv1alpha1.ManagedByLabel: policyv1alpha1.ManagedByConfigMap}},
		"the policy was made by a person":    {policy: "module", warned: true},
		"the ConfigMap is not the one that the policy is kept from": {
			policy: "mine", labels: map[string]string{policyv1alpha1.ManagedByLabel: policyv1alpha1.ManagedByConfigMap}, warned: true},
	} {
		t.Run(name, func(t *testing.T) {
			policy := object(tc.policy, fromConfigMap)
			policy.Labels = tc.labels
			r := newRig(t, configMap("v1"), policy)
			r.mustPass()
			r.told()
			require.NoError(t, r.client.Delete(t.Context(), configMap("")))
			r.mustPass()
			assert.Contains(t, r.condition(tc.policy, policyv1alpha1.DegradedCondition), "ModuleNotFound: ConfigMap longshore/module does not exist")
			if !tc.warned {
				assert.Empty(t, r.told())
				return
			}
			told := r.told()
			require.Len(t, told, 1)
			assert.Contains(t, told[0], "Warning ModuleNotFound Refused: ConfigMap longshore/module does not exist")
		})
	}
}
