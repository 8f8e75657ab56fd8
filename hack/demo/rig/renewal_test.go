package rig_test

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane"
	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	"github.com/longshore-dev/longshore/hack/demo/rig"
	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	"github.com/longshore-dev/longshore/host/peering/authentication"
)

// credentials are the Secrets that rome has for milan, and where milan keeps their certificates.
var credentials = map[string]string{
	"kubeconfig-controlplane-milan":  "liqo-remote-certificate",
	"kubeconfig-resourceslice-milan": "liqo-remote-certificate-milan",
}

func secretOf(t planetest.T, c *rig.Cluster, namespace, name string) *corev1.Secret {
	t.Helper()
	secret := &corev1.Secret{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, secret))
	return secret
}

func certificateIn(t planetest.T, secret *corev1.Secret) []byte {
	t.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig(secret.Data["kubeconfig"])
	require.NoError(t, err)
	return config.CertData
}

// annotate has controllers look at an object again.
func annotate(t *testing.T, c *rig.Cluster, object client.Object) {
	t.Helper()
	require.NoError(t, c.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"test":"look"}}}`))))
}

// dueCertificate is a certificate like another one of a cluster, of which four fifths of the lifetime are
// over. It is valid: the consumer may use it before it has the next one.
func dueCertificate(t *testing.T, cluster *testplane.Cluster, current []byte) []byte {
	t.Helper()
	authority, err := tls.LoadX509KeyPair(cluster.CAFile(), filepath.Join(filepath.Dir(cluster.CAFile()), "ca.key"))
	require.NoError(t, err)
	certificate, err := authentication.ParseCertificate(current)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: certificate.Subject, KeyUsage: certificate.KeyUsage, ExtKeyUsage: certificate.ExtKeyUsage,
		NotBefore: time.Now().Add(-8 * time.Hour), NotAfter: time.Now().Add(2 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, authority.Leaf, certificate.PublicKey, authority.PrivateKey)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// usable asserts that rome reaches milan with both credentials, and that what runs with them works.
func usable(t *testing.T, s *shell) {
	t.Helper()
	controlPlane, slice := consumerOf(t, s.rig, "kubeconfig-controlplane-milan"), consumerOf(t, s.rig, "kubeconfig-resourceslice-milan")
	require.NoError(t, controlPlane.List(t.Context(), &authv1beta1.ResourceSliceList{}, client.InNamespace(tenantInMilan)))
	// The credentials of a slice give rights in offloaded namespaces only; the API server knows them.
	own := &authenticationv1.SelfSubjectReview{}
	require.NoError(t, slice.Create(t.Context(), own))
	assert.Contains(t, own.Status.UserInfo.Groups, "rome")
	// The replicator and the virtual kubelet use them.
	s.ok(t, "create resourceslice renewed --remote-cluster-id milan --kubeconfig @rome --no-virtual-node --cpu 1")
	s.ok(t, "delete resourceslice renewed --kubeconfig @rome")
	eventually(t, "status finds no problem", func(t planetest.T) bool {
		out, _, code := s.run(t, "status --kubeconfig @rome", "")
		return assert.Zero(t, code, out)
	})
}

// renewalLines renews certificates before they expire.
func renewalLines(t *testing.T, s *shell) {
	rome, milan := s.rig.Rome, s.rig.Milan
	before := map[string][]byte{}
	for name, stored := range credentials {
		before[name] = certificateIn(t, secretOf(t, rome, tenantInRome, name))
		issued := secretOf(t, milan, tenantInMilan, stored)
		assert.Equal(t, before[name], issued.Data["certificate"])
		issued.Data["certificate"] = dueCertificate(t, s.clusters.Milan.Plane, before[name])
		require.NoError(t, milan.Update(t.Context(), issued))
	}
	annotate(t, milan, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: authentication.NonceSecretName, Namespace: tenantInMilan}})
	annotate(t, milan, &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "milan", Namespace: tenantInMilan}})
	for name, stored := range credentials {
		eventually(t, name+" has another certificate, which milan keeps", func(t planetest.T) bool {
			now := certificateIn(t, secretOf(t, rome, tenantInRome, name))
			return string(now) != string(before[name]) && string(now) == string(secretOf(t, milan, tenantInMilan, stored).Data["certificate"])
		})
	}
	usable(t, s)
}

// keyLines replaces the key of the consumer. Its credentials stay in use until it has those for
// the new key.
func keyLines(t *testing.T, s *shell) {
	rome := s.rig.Rome
	keys := secretOf(t, rome, rig.Namespace, authentication.KeysSecretName)
	identity := &authv1beta1.Identity{}
	read := func() types.UID {
		require.NoError(t, rome.Get(t.Context(), client.ObjectKey{Namespace: tenantInRome, Name: "resourceslice-milan"}, identity))
		return identity.UID
	}
	uid := read()
	require.NoError(t, rome.Delete(t.Context(), keys))
	// The manager looks at everything again.
	require.NoError(t, rome.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(rig.Namespace), client.MatchingLabels{"app.kubernetes.io/name": "longshore-manager"}))
	replaced := &corev1.Secret{}
	eventually(t, "the manager makes another key", func(t planetest.T) bool {
		return rome.Get(t.Context(), client.ObjectKeyFromObject(keys), replaced) == nil && replaced.UID != keys.UID
	})
	require.NotEqual(t, keys.Data["privateKey"], replaced.Data["privateKey"])
	for name := range credentials {
		assert.Equal(t, keys.Data["privateKey"], authentication.KubeconfigKey(secretOf(t, rome, tenantInRome, name)), name)
	}
	eventually(t, "what was granted stays in use", func(t planetest.T) bool {
		_, _, code := s.run(t, "status --kubeconfig @rome", "")
		return code == 0
	})

	s.ok(t, "authenticate --kubeconfig @rome --remote-kubeconfig @milan")
	for name := range credentials {
		eventually(t, name+" is for the new key", func(t planetest.T) bool {
			secret := secretOf(t, rome, tenantInRome, name)
			key, err := authentication.ParseKey(replaced.Data["privateKey"])
			require.NoError(t, err)
			return string(authentication.KubeconfigKey(secret)) == string(replaced.Data["privateKey"]) && authentication.IsKeyOf(key.Public(), certificateIn(t, secret))
		})
	}
	assert.Equal(t, uid, read(), "the Identity of the slice was never deleted")
	usable(t, s)

	startHowTos(t, s.rig).follows(t, "docs/howto/peer-two-clusters.md", "## Replace the key of a cluster")
	usable(t, s)
}
