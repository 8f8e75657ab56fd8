package check

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
)

func policy(mode policyv1alpha1.Mode, observed int64, status metav1.ConditionStatus) *policyv1alpha1.OffloadingPolicy {
	p := &policyv1alpha1.OffloadingPolicy{ObjectMeta: metav1.ObjectMeta{Name: "mine", Generation: 2}}
	p.Spec.Mode = mode
	p.Status.Conditions = []metav1.Condition{{Type: policyv1alpha1.ReadyCondition, Status: status, Reason: "ModuleNotLoaded", Message: "1/2 components.", ObservedGeneration: observed}}
	return p
}

func TestRun(t *testing.T) {
	denied := errors.New(`admission webhook "nsoff.validate.liqo.io" denied the request: the name must be offloading`)
	ready := policy(policyv1alpha1.ModeEnforce, 2, metav1.ConditionTrue)
	for name, tc := range map[string]struct {
		answer  error
		policy  *policyv1alpha1.OffloadingPolicy
		wantErr string
		wantOut string
	}{
		"all is well":                 {denied, ready, "", "ok   the API server reaches the webhook\nok   every policy is ready\n"},
		"a disabled policy":           {denied, policy(policyv1alpha1.ModeDisabled, 1, metav1.ConditionFalse), "", "ok   the API server reaches the webhook\nok   every policy is ready\n"},
		"the webhook does not answer": {errors.New(`Internal error occurred: failed calling webhook "nsoff.validate.liqo.io": connection refused`), ready, "connection refused", "FAIL the API server reaches the webhook\nok   every policy is ready\n"},
		"no webhook is registered":    {nil, ready, "does not call the webhook", "FAIL the API server reaches the webhook\nok   every policy is ready\n"},
		"a right is missing":          {errors.New("namespaceoffloadings is forbidden"), ready, "is forbidden", "FAIL the API server reaches the webhook\nok   every policy is ready\n"},
		"a policy that is not ready":  {denied, policy(policyv1alpha1.ModeEnforce, 2, metav1.ConditionFalse), "OffloadingPolicy mine is not ready: ModuleNotLoaded: 1/2 components.", "ok   the API server reaches the webhook\nFAIL every policy is ready\n"},
		"a policy that has changed":   {denied, policy(policyv1alpha1.ModeEnforce, 1, metav1.ConditionTrue), "has no current status", "ok   the API server reaches the webhook\nFAIL every policy is ready\n"},
	} {
		t.Run(name, func(t *testing.T) {
			created := 0
			c := fakeclient.Builder(tc.policy).WithInterceptorFuncs(interceptor.Funcs{
				Create: func(_ context.Context, _ client.WithWatch, _ client.Object, options ...client.CreateOption) error {
					created++
					assert.Contains(t, options, client.CreateOption(client.DryRunAll))
					return tc.answer
				},
			}).Build()
			var out bytes.Buffer
			err := Run(t.Context(), Options{Client: c, Namespace: "longshore", Timeout: 20 * time.Millisecond, PollInterval: time.Millisecond, Out: &out})
			if tc.wantErr == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, tc.wantErr)
			}
			assert.Equal(t, tc.wantOut, out.String())
			assert.NotZero(t, created)
		})
	}
}
