package rig_test

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/cmd/longshorectl/admin"
	"github.com/longshore-dev/longshore/cmd/longshorectl/peer"
	"github.com/longshore-dev/longshore/cmd/longshorectl/resourceslice"
	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	"github.com/longshore-dev/longshore/hack/demo/rig"
	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/peering/authentication"
)

const (
	tenantInRome  = "liqo-tenant-milan"
	tenantInMilan = "liqo-tenant-rome"
)

// consumerOf is a client of milan with one of rome's credentials: what a malicious consumer has.
func consumerOf(t *testing.T, r *rig.Rig, secretName string) client.Client {
	t.Helper()
	secret := &corev1.Secret{}
	require.NoError(t, r.Rome.Get(t.Context(), client.ObjectKey{Namespace: tenantInRome, Name: secretName}, secret))
	config, err := clientcmd.RESTConfigFromKubeConfig(secret.Data["kubeconfig"])
	require.NoError(t, err)
	c, err := client.New(config, client.Options{Scheme: r.Milan.Scheme()})
	require.NoError(t, err)
	return c
}

// romeRequest is a certificate request with rome's key, which an attacker in rome has.
func romeRequest(t *testing.T, r *rig.Rig, subject pkix.Name) []byte {
	t.Helper()
	secret := &corev1.Secret{}
	require.NoError(t, r.Rome.Get(t.Context(), client.ObjectKey{Namespace: rig.Namespace, Name: authentication.KeysSecretName}, secret))
	key, err := authentication.ParseKey(secret.Data[authentication.PrivateKeyKey])
	require.NoError(t, err)
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: subject}, key)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

// maliciousConsumer holds the rights of a consumer's control plane (S1, S3 of the wire).
func maliciousConsumer(t *testing.T, r *rig.Rig) {
	attacker := consumerOf(t, r, "kubeconfig-controlplane-milan")
	slice := &authv1beta1.ResourceSlice{}
	require.NoError(t, attacker.Get(t.Context(), client.ObjectKey{Namespace: tenantInMilan, Name: rig.Node}, slice))
	grants := slice.DeepCopy()
	grants.Status.Resources = rig.Capacity("9999", "9999Gi", "9999")
	for name, do := range map[string]func() error{
		"it grants itself resources": func() error { return attacker.Status().Update(t.Context(), grants) },
		"it reads Secrets of its tenant": func() error {
			return attacker.List(t.Context(), &corev1.SecretList{}, client.InNamespace(tenantInMilan))
		},
		"it reads its Tenant": func() error {
			return attacker.List(t.Context(), &authv1beta1.TenantList{}, client.InNamespace(tenantInMilan))
		},
		"it looks into another namespace": func() error {
			return attacker.List(t.Context(), &authv1beta1.ResourceSliceList{}, client.InNamespace("default"))
		},
		"it asks for certificates by itself": func() error { return attacker.List(t.Context(), &corev1.NodeList{}) },
		"it creates a pod": func() error {
			return attacker.Create(t.Context(), &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "pod", Namespace: tenantInMilan},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
			})
		},
	} {
		assert.True(t, apierrors.IsForbidden(do()), "%s: %v", name, do())
	}
	user := authentication.SliceSubject("rome", "forged").User
	for name, tc := range map[string]struct {
		consumer liqocorev1beta1.ClusterID
		subject  pkix.Name
	}{
		"a second organization": {"rome", pkix.Name{CommonName: user, Organization: []string{"rome", "system:nodes"}}},
		"no organization":       {"rome", pkix.Name{CommonName: user}},
		"an administrator":      {"rome", pkix.Name{CommonName: user, Organization: []string{"system:masters"}}},
		"the control plane":     {"rome", pkix.Name{CommonName: "rome", Organization: []string{"liqo.io"}}},
		"another consumer":      {"oslo", pkix.Name{CommonName: authentication.SliceSubject("oslo", "forged").User, Organization: []string{"oslo"}}},
	} {
		forged := &authv1beta1.ResourceSlice{
			ObjectMeta: metav1.ObjectMeta{Name: "forged", Namespace: tenantInMilan, Labels: map[string]string{
				liqocorev1beta1.ReplicatedLabel: "true", liqocorev1beta1.OriginIDLabel: "rome", liqocorev1beta1.RemoteClusterIDLabel: "rome",
			}},
			Spec: authv1beta1.ResourceSliceSpec{ConsumerClusterID: ptr.To(tc.consumer), CSR: romeRequest(t, r, tc.subject)},
		}
		require.NoError(t, attacker.Create(t.Context(), forged), name)
		eventually(t, name+" is denied", func(t planetest.T) bool {
			require.NoError(t, r.Milan.Get(t.Context(), client.ObjectKeyFromObject(forged), forged))
			require.Nil(t, forged.Status.AuthParams)
			require.Nil(t, forged.Status.Resources)
			return len(forged.Status.Conditions) == 1 && forged.Status.Conditions[0].Status == authv1beta1.ResourceSliceConditionDenied
		})
		// A copy that no object of rome is replicated to is removed by rome's replicator, too.
		require.NoError(t, client.IgnoreNotFound(r.Milan.Delete(t.Context(), forged)))
		eventually(t, "the forged slice is gone", func(t planetest.T) bool {
			return apierrors.IsNotFound(r.Milan.Get(t.Context(), client.ObjectKeyFromObject(forged), forged))
		})
	}
}

func pair(t *testing.T, r *rig.Rig) *peer.Pair {
	t.Helper()
	consumer, err := admin.Connect(t.Context(), "consumer", r.Rome.Config, rig.Namespace)
	require.NoError(t, err)
	provider, err := admin.Connect(t.Context(), "provider", r.Milan.Config, rig.Namespace)
	require.NoError(t, err)
	return &peer.Pair{Consumer: consumer, Provider: provider}
}

func steps(p *peer.Pair) []admin.Step {
	return append(p.AuthenticateSteps(), p.SliceSteps(resourceslice.Request{Name: rig.Node, VirtualNode: true})...)
}

func runSteps(t *testing.T, steps []admin.Step) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, step := range steps {
		require.NoError(t, step.Run(ctx, func(string) {}), step.Title)
	}
}

// peeringIsRepeated interrupts longshorectl peer after each of its steps, and starts it again.
func peeringIsRepeated(t *testing.T, r *rig.Rig) {
	node, secret, slice := &corev1.Node{}, &corev1.Secret{}, &authv1beta1.ResourceSlice{}
	read := func() {
		require.NoError(t, r.Rome.Get(t.Context(), client.ObjectKey{Name: rig.Node}, node))
		require.NoError(t, r.Rome.Get(t.Context(), client.ObjectKey{Namespace: tenantInRome, Name: "kubeconfig-controlplane-milan"}, secret))
		require.NoError(t, r.Rome.Get(t.Context(), client.ObjectKey{Namespace: tenantInRome, Name: rig.Node}, slice))
	}
	read()
	uid, kubeconfig, spec := node.UID, secret.Data["kubeconfig"], slice.Spec.DeepCopy()
	for i := range steps(pair(t, r)) {
		runSteps(t, steps(pair(t, r))[:i+1])
	}
	read()
	assert.Equal(t, uid, node.UID, "the node stays")
	assert.Equal(t, kubeconfig, secret.Data["kubeconfig"], "the credentials stay")
	assert.Equal(t, spec.CSR, slice.Spec.CSR)
	assert.Equal(t, spec.Resources.Cpu().String(), slice.Spec.Resources.Cpu().String(), "what was asked for stays")
}

// unpeerAndPeerAgain runs longshorectl unpeer, twice, and longshorectl peer, interrupted after
// each step.
func unpeerAndPeerAgain(t *testing.T, r *rig.Rig) {
	controlPlane, slice := consumerOf(t, r, "kubeconfig-controlplane-milan"), consumerOf(t, r, "kubeconfig-resourceslice-milan")
	for range 2 {
		p := pair(t, r)
		require.NoError(t, p.FindTenantNamespaces(t.Context()))
		runSteps(t, append(p.WithdrawSteps(), p.UnauthenticateSteps()...))
	}
	for what, list := range map[string]client.ObjectList{
		"Identities": &authv1beta1.IdentityList{}, "ResourceSlices": &authv1beta1.ResourceSliceList{}, "Renews": &authv1beta1.RenewList{},
		"Tenants": &authv1beta1.TenantList{}, "VirtualNodes": &offloadingv1beta1.VirtualNodeList{},
	} {
		for _, c := range []*rig.Cluster{r.Rome, r.Milan} {
			require.NoError(t, c.List(t.Context(), list))
			assert.Zero(t, meta.LenList(list), "%s in %s", what, c.Name)
		}
	}
	eventually(t, "certificates give no rights after unpeering", func(t planetest.T) bool {
		return apierrors.IsForbidden(controlPlane.List(t.Context(), &authv1beta1.ResourceSliceList{}, client.InNamespace(tenantInMilan))) &&
			apierrors.IsForbidden(slice.List(t.Context(), &offloadingv1beta1.ShadowPodList{}, client.InNamespace("shop-rome")))
	})
	for i := range steps(pair(t, r)) {
		runSteps(t, steps(pair(t, r))[:i+1])
	}
	eventually(t, "both ForeignClusters say so", func(t planetest.T) bool {
		milan, rome := &liqocorev1beta1.ForeignCluster{}, &liqocorev1beta1.ForeignCluster{}
		require.NoError(t, r.Rome.Get(t.Context(), client.ObjectKey{Name: "milan"}, milan))
		require.NoError(t, r.Milan.Get(t.Context(), client.ObjectKey{Name: "rome"}, rome))
		return milan.Status.Role == liqocorev1beta1.ProviderRole && rome.Status.Role == liqocorev1beta1.ConsumerRole
	})
}
