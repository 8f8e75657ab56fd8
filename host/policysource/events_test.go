package policysource_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
)

// Deleting its ConfigMap is how a policy that is managed by the ConfigMap is deleted.
func TestEventsOfAMissingConfigMap(t *testing.T) {
	for name, tc := range map[string]struct {
		policy    string
		labels    map[string]string
		wantEvent bool
	}{
		"the policy is deleted with its ConfigMap":   {policy: "module", labels: map[string]string{policyv1alpha1.ManagedByLabel: policyv1alpha1.ManagedByConfigMap}},
		"the policy is not managed by the ConfigMap": {policy: "module", wantEvent: true},
	} {
		t.Run(name, func(t *testing.T) {
			policy := object(tc.policy, fromConfigMap)
			policy.Labels = tc.labels
			r := newRig(t, configMap("v1"), policy)
			r.mustPass()
			r.recorded()
			require.NoError(t, r.client.Delete(t.Context(), configMap("")))
			r.mustPass()
			assert.Equal(t, "False ModuleNotFound", r.reason(tc.policy))
			if !tc.wantEvent {
				assert.Empty(t, r.recorded())
				return
			}
			events := r.recorded()
			require.Len(t, events, 1)
			assert.Equal(t, "Warning ModuleNotFound "+r.message(tc.policy), events[0])
		})
	}
}
