package kubelet

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"sync"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/certificate"
)

// The subject of a kubelet's serving certificate.
const (
	commonNamePrefix     = "system:node:"
	organization         = "system:nodes"
	selfSignedOrg        = "liqo.io"
	selfSignedLifetime   = 365 * 24 * time.Hour
	selfSignedRenewBelow = 24 * time.Hour
	backdate             = time.Hour
)

// SelfSigned creates self-signed certificates. They are valid for a year and replaced on the
// last day. It is safe for concurrent use.
type SelfSigned struct {
	nodeName string
	ip       net.IP
	now      func() time.Time

	mu      sync.Mutex
	current *tls.Certificate
}

// NewSelfSigned returns a SelfSigned that creates its first certificate on demand.
func NewSelfSigned(nodeName string, ip net.IP, now func() time.Time) *SelfSigned {
	return &SelfSigned{nodeName: nodeName, ip: ip, now: now}
}

// Certificate returns a valid certificate.
func (s *SelfSigned) Certificate() (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if s.current != nil && now.Add(selfSignedRenewBelow).Before(s.current.Leaf.NotAfter) {
		return s.current, nil
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generating a key for the kubelet API: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("generating a serial number for the kubelet API: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: commonNamePrefix + s.nodeName, Organization: []string{selfSignedOrg}},
		NotBefore: now.Add(-backdate), NotAfter: now.Add(selfSignedLifetime), IPAddresses: []net.IP{s.ip},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		return nil, fmt.Errorf("creating a certificate for the kubelet API: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("parsing the certificate of the kubelet API: %w", err)
	}
	s.current = &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private, Leaf: leaf}
	return s.current, nil
}

// Signed requests the certificate from a signer of the consumer, keeps it in memory and
// renews it. Until the first request is approved it returns a self-signed certificate, which
// is enough for API servers that do not verify kubelets.
type Signed struct {
	manager  certificate.Manager
	fallback *SelfSigned
}

// NewSigned returns a Signed that sends no request before Run.
func NewSigned(client kubernetes.Interface, signer, nodeName string, ip net.IP, now func() time.Time) (*Signed, error) {
	manager, err := certificate.NewManager(&certificate.Config{
		ClientsetFn: func(*tls.Certificate) (kubernetes.Interface, error) { return client, nil },
		GetTemplate: func() *x509.CertificateRequest {
			return &x509.CertificateRequest{
				Subject:     pkix.Name{CommonName: commonNamePrefix + nodeName, Organization: []string{organization}},
				IPAddresses: []net.IP{ip},
			}
		},
		SignerName:       signer,
		Usages:           []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
		CertificateStore: &memoryStore{},
	})
	if err != nil {
		return nil, fmt.Errorf("preparing the certificate of the kubelet API: %w", err)
	}
	return &Signed{manager: manager, fallback: NewSelfSigned(nodeName, ip, now)}, nil
}

// Run requests and renews the certificate until the context ends.
func (s *Signed) Run(ctx context.Context) {
	s.manager.Start()
	<-ctx.Done()
	s.manager.Stop()
}

// Certificate returns the signed certificate, or the self-signed one before the approval.
func (s *Signed) Certificate() (*tls.Certificate, error) {
	if current := s.manager.Current(); current != nil {
		return current, nil
	}
	return s.fallback.Certificate()
}

// memoryStore is a certificate.Store that does not survive a restart.
type memoryStore struct {
	mu      sync.Mutex
	current *tls.Certificate
}

// Current implements certificate.Store.
func (s *memoryStore) Current() (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil {
		missing := certificate.NoCertKeyError("no certificate yet")
		return nil, &missing
	}
	return s.current, nil
}

// Update implements certificate.Store.
func (s *memoryStore) Update(cert, key []byte) (*tls.Certificate, error) {
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("parsing the signed certificate: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current = &pair
	return s.current, nil
}
