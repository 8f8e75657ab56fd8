package tenant

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
)

// TestARenewFollowsAllCredentials changes what a consumer needs to reach the API server, one after the
// other. The certificate stays.
func TestARenewFollowsAllCredentials(t *testing.T) {
	before := authv1beta1.AuthParams{CA: []byte("ca"), SignedCRT: []byte("certificate"), APIServer: "https://milan:6443"}
	for name, change := range map[string]func(*authv1beta1.AuthParams){
		"nothing":         func(*authv1beta1.AuthParams) {},
		"the address":     func(p *authv1beta1.AuthParams) { p.APIServer = "https://milan:7443" },
		"the authority":   func(p *authv1beta1.AuthParams) { p.CA = []byte("other") },
		"the proxy":       func(p *authv1beta1.AuthParams) { p.ProxyURL = ptr.To("http://proxy") },
		"the certificate": func(p *authv1beta1.AuthParams) { p.SignedCRT = []byte("other") },
	} {
		t.Run(name, func(t *testing.T) {
			renew := &authv1beta1.Renew{
				ObjectMeta: metav1.ObjectMeta{Name: "controlplane-milan", Namespace: "liqo-tenant-rome", Labels: map[string]string{liqocorev1beta1.ReplicatedLabel: "true"}},
				Spec:       authv1beta1.RenewSpec{ConsumerClusterID: "rome", IdentityType: authv1beta1.ControlPlaneIdentityType},
				Status:     authv1beta1.RenewStatus{AuthParams: before.DeepCopy()},
			}
			c := fakeclient.Builder(renew).Build()
			require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(renew), renew))
			version := renew.ResourceVersion
			params := before.DeepCopy()
			change(params)
			tenant := &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "rome", Namespace: "liqo-tenant-rome"}}
			require.NoError(t, (&Reconciler{Client: c}).renew(t.Context(), tenant, params))
			require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(renew), renew))
			assert.Equal(t, params, renew.Status.AuthParams)
			assert.Equal(t, name == "nothing", renew.ResourceVersion == version, "a Renew is written only when it changes")
		})
	}
}
