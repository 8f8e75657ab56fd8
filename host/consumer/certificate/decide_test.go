package certificate_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/certificate"
)

// request is that of the virtual kubelet of milan-1, but for alterations.
func request(t *testing.T, alter func(*x509.CertificateRequest), alterObject func(*certificatesv1.CertificateSigningRequest)) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	template := &x509.CertificateRequest{
		Subject:     pkix.Name{CommonName: "system:node:milan-1", Organization: []string{"system:nodes"}},
		IPAddresses: []net.IP{net.IPv4(10, 0, 0, 5)},
	}
	if alter != nil {
		alter(template)
	}
	_, key, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	require.NoError(t, err)
	csr := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "csr-1"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: "kubernetes.io/kubelet-serving", Username: "system:serviceaccount:liqo-tenant-milan:milan-1",
			Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			Usages:  []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
		},
	}
	if alterObject != nil {
		alterObject(csr)
	}
	return csr
}

func TestOnlyTheCertificateOfTheOwnNodeIsApproved(t *testing.T) {
	vn := &offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "milan-1"}}
	type csr = certificatesv1.CertificateSigningRequest
	for name, tc := range map[string]struct {
		alter       func(*x509.CertificateRequest)
		alterObject func(*csr)
		want        bool
	}{
		"its own node":            {nil, nil, true},
		"its own node, on EKS":    {nil, func(c *csr) { c.Spec.SignerName = "beta.eks.amazonaws.com/app-serving" }, true},
		"another node":            {func(r *x509.CertificateRequest) { r.Subject.CommonName = "system:node:master" }, nil, false},
		"another group":           {func(r *x509.CertificateRequest) { r.Subject.Organization = []string{"system:masters"} }, nil, false},
		"one more group":          {func(r *x509.CertificateRequest) { r.Subject.Organization = append(r.Subject.Organization, "x") }, nil, false},
		"a DNS name":              {func(r *x509.CertificateRequest) { r.DNSNames = []string{"kubernetes"} }, nil, false},
		"no address":              {func(r *x509.CertificateRequest) { r.IPAddresses = nil }, nil, false},
		"a client's certificate":  {nil, func(c *csr) { c.Spec.Usages = append(c.Spec.Usages, certificatesv1.UsageClientAuth) }, false},
		"no server's certificate": {nil, func(c *csr) { c.Spec.Usages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature} }, false},
		"another signer":          {nil, func(c *csr) { c.Spec.SignerName = "kubernetes.io/kube-apiserver-client" }, false},
		"another service account": {nil, func(c *csr) { c.Spec.Username = "system:serviceaccount:liqo-tenant-milan:default" }, false},
		"another namespace":       {nil, func(c *csr) { c.Spec.Username = "system:serviceaccount:default:milan-1" }, false},
		"a user":                  {nil, func(c *csr) { c.Spec.Username = "milan-1" }, false},
		"half a service account":  {nil, func(c *csr) { c.Spec.Username = "system:serviceaccount:liqo-tenant-milan" }, false},
		"rubbish":                 {nil, func(c *csr) { c.Spec.Request = []byte("rubbish") }, false},
		"one that was denied before": {nil, func(c *csr) {
			c.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateDenied}}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			require.NoError(t, certificatesv1.AddToScheme(scheme))
			require.NoError(t, offloadingv1beta1.AddToScheme(scheme))
			asked := request(t, tc.alter, tc.alterObject)
			c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(vn.DeepCopy(), asked).WithStatusSubresource(asked).Build()
			r := &certificate.Reconciler{Client: approving{c}, Clock: testingclock.NewFakePassiveClock(time.Unix(0, 0))}
			_, err := r.Reconcile(t.Context(), asked.DeepCopy())
			require.NoError(t, err)
			got := &csr{}
			require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(asked), got))
			approved := false
			for _, condition := range got.Status.Conditions {
				approved = approved || condition.Type == certificatesv1.CertificateApproved
			}
			assert.Equal(t, tc.want, approved)
		})
	}
}

// approving has the subresource that the fake client lacks.
type approving struct{ client.Client }

// SubResource implements client.Client.
func (a approving) SubResource(name string) client.SubResourceClient {
	if name == "approval" {
		name = "status"
	}
	return a.Client.SubResource(name)
}
