package handshake

import (
	"testing"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
)

func TestWhyATenantHasNoCredentials(t *testing.T) {
	ready := func(status metav1.ConditionStatus, generation int64) []metav1.Condition {
		return []metav1.Condition{{Type: authv1beta1.TenantReady, Status: status, Message: "The nonce is missing.", ObservedGeneration: generation}}
	}
	issued := authv1beta1.TenantStatus{TenantNamespace: "liqo-tenant-rome", AuthParams: &authv1beta1.AuthParams{}}
	for name, tc := range map[string]struct {
		spec   authv1beta1.TenantSpec
		status authv1beta1.TenantStatus
		want   string
	}{
		"a new one":                  {want: "the provider to issue the credentials"},
		"one that was changed":       {status: authv1beta1.TenantStatus{Conditions: ready(metav1.ConditionTrue, 1)}, want: "Longshore's manager to look at it"},
		"one that is refused":        {status: authv1beta1.TenantStatus{Conditions: ready(metav1.ConditionFalse, 2)}, want: "The nonce is missing."},
		"one that is drained":        {spec: authv1beta1.TenantSpec{TenantCondition: authv1beta1.TenantConditionDrained}, status: issued, want: "the provider's administrator to run longshorectl activate tenant rome: it is drained"},
		"one without a handshake":    {spec: authv1beta1.TenantSpec{AuthzPolicy: ptr.To(authv1beta1.TolerateNoHandshake)}, want: "its authzPolicy to be KeysExchange: with TolerateNoHandshake the provider issues no credentials"},
		"one that is accepted":       {status: authv1beta1.TenantStatus{TenantNamespace: "liqo-tenant-rome", AuthParams: &authv1beta1.AuthParams{}, Conditions: ready(metav1.ConditionTrue, 2)}},
		"one of the reference":       {status: issued},
		"one that is accepted later": {status: authv1beta1.TenantStatus{TenantNamespace: "liqo-tenant-rome", Conditions: ready(metav1.ConditionTrue, 2)}, want: "the provider to issue the credentials"},
	} {
		t.Run(name, func(t *testing.T) {
			tenant := &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "rome", Generation: 2}, Spec: tc.spec, Status: tc.status}
			assert.Equal(t, tc.want, undecided(tenant))
		})
	}
}
