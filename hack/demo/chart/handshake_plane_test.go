package chart_test

import (
	"crypto"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	"github.com/longshore-dev/longshore/host/peering/authentication"
)

// nonceFor makes the tenant namespace of a consumer and returns the provider's nonce for it.
func (p *provider) nonceFor(t *testing.T, consumer liqocorev1beta1.ClusterID) []byte {
	t.Helper()
	namespace := authentication.TenantNamespace(consumer)
	require.NoError(t, client.IgnoreAlreadyExists(p.admin.Create(t.Context(), namespace)))
	secret := authentication.NonceSecret(namespace.Name, consumer)
	require.NoError(t, p.admin.Create(t.Context(), secret))
	require.Eventually(t, func() bool {
		return p.admin.Get(t.Context(), client.ObjectKeyFromObject(secret), secret) == nil && len(secret.Data[authentication.NonceKey]) > 0
	}, established, poll, "the nonce of %s", consumer)
	return secret.Data[authentication.NonceKey]
}

func requestOf(t *testing.T, key crypto.Signer, subject authentication.Subject) []byte {
	t.Helper()
	csr, err := authentication.NewCSR(key, subject)
	require.NoError(t, err)
	return csr
}

// testHandshakes are Tenants with which a consumer would get the credentials or the rights of
// others.
func (p *provider) testHandshakes(t *testing.T) {
	ofRome, ofParis, ofAlice := p.nonceFor(t, "rome"), p.nonceFor(t, "paris"), p.nonceFor(t, "alice")
	require.NoError(t, p.admin.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "alice"}, RoleRef: roleRef("admin"),
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "alice"}},
	}))
	key, err := authentication.NewKey()
	require.NoError(t, err)
	public, err := authentication.EncodePublicKey(key.Public())
	require.NoError(t, err)
	own := authentication.ControlPlaneSubject
	for name, tc := range map[string]struct {
		cluster   liqocorev1beta1.ClusterID
		namespace string
		nonce     []byte
		subject   authentication.Subject
		reason    string
	}{
		"the signature of another peering":   {"paris", "liqo-tenant-paris", ofRome, own("paris"), "InvalidSignature"},
		"the name of another consumer":       {"paris", "liqo-tenant-paris", ofParis, own("oslo"), "InvalidCertificateRequest"},
		"an administrator's group":           {"paris", "liqo-tenant-paris", ofParis, authentication.Subject{User: "paris", Group: "system:masters"}, "InvalidCertificateRequest"},
		"the namespace of another consumer":  {"paris", "liqo-tenant-oslo", ofParis, own("paris"), "NotInTenantNamespace"},
		"the name of a user of the provider": {"alice", "liqo-tenant-alice", ofAlice, own("alice"), "ClusterIDInUse"},
	} {
		signature, err := authentication.Sign(key, tc.nonce)
		require.NoError(t, err)
		tenant := authentication.Tenant(tc.namespace, tc.cluster, public, requestOf(t, key, tc.subject), signature, "")
		require.NoError(t, p.admin.Create(t.Context(), tenant), name)
		require.Eventually(t, func() bool {
			err := p.admin.Get(t.Context(), client.ObjectKeyFromObject(tenant), tenant)
			ready := meta.FindStatusCondition(tenant.Status.Conditions, authv1beta1.TenantReady)
			return err == nil && ready != nil && ready.Reason == tc.reason
		}, established, poll, "%s is refused: %s", name, tc.reason)
		assert.Nil(t, tenant.Status.AuthParams, name)
		require.NoError(t, p.admin.Delete(t.Context(), tenant))
		require.Eventually(t, func() bool {
			return apierrors.IsNotFound(p.admin.Get(t.Context(), client.ObjectKeyFromObject(tenant), tenant))
		}, established, poll, "the Tenant with %s is gone", name)
	}
	requests := &certificatesv1.CertificateSigningRequestList{}
	require.NoError(t, p.admin.List(t.Context(), requests))
	assert.Empty(t, requests.Items, "no certificate was requested")
	p.testPlantedBinding(t)
}

// testPlantedBinding has a binding of a consumer that was made before its Tenant, with a further
// subject (S6 of the wire).
func (p *provider) testPlantedBinding(t *testing.T) {
	t.Helper()
	planted := authentication.ClusterRoleBinding("paris")
	want := planted.Subjects
	planted.Subjects = append([]rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "mallory"}}, want...)
	require.NoError(t, p.admin.Create(t.Context(), planted))
	require.NoError(t, p.admin.Create(t.Context(), &authv1beta1.Tenant{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-paris", Name: "paris"},
		Spec:       authv1beta1.TenantSpec{ClusterID: "paris", AuthzPolicy: ptr.To(authv1beta1.TolerateNoHandshake)},
	}))
	binding := &rbacv1.ClusterRoleBinding{}
	require.Eventually(t, func() bool {
		err := p.admin.Get(t.Context(), client.ObjectKeyFromObject(planted), binding)
		return err == nil && assert.ObjectsAreEqual(want, binding.Subjects)
	}, established, poll, "the further subject is removed")

	removed := binding.DeepCopy()
	require.NoError(t, p.admin.Delete(t.Context(), removed))
	require.Eventually(t, func() bool {
		return p.admin.Get(t.Context(), client.ObjectKeyFromObject(planted), binding) == nil && binding.UID != removed.UID
	}, established, poll, "a binding that was deleted is made again")
}
