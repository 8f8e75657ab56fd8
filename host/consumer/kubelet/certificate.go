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

// The subject of a kubelet's serving certificate (wire 3.12).
const (
	commonNamePrefix     = "system:node:"
	organization         = "system:nodes"
	selfSignedOrg        = "liqo.io"
	selfSignedLifetime   = 365 * 24 * time.Hour
	selfSignedRenewBelow = 24 * time.Hour
	backdate             = time.Hour
)

// SelfSigned makes certificates that nobody vouches for. They last a year and are made
// anew on the last day. It is safe for concurrent use.
type SelfSigned struct {
	nodeName string
	ip       net.IP
	now      func() time.Time

	mu      sync.Mutex
	current *tls.Certificate
}

// NewSelfSigned makes nothing yet.
func NewSelfSigned(nodeName string, ip net.IP, now func() time.Time) *SelfSigned {
	return &SelfSigned{nodeName: nodeName, ip: ip, now: now}
}

// Certificate returns the certificate of today.
func (s *SelfSigned) Certificate() (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if s.current != nil && now.Add(selfSignedRenewBelow).Before(s.current.Leaf.NotAfter) {
		return s.current, nil
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a key for the kubelet API: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("making a serial number for the kubelet API: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: commonNamePrefix + s.nodeName, Organization: []string{selfSignedOrg}},
		NotBefore: now.Add(-backdate), NotAfter: now.Add(selfSignedLifetime), IPAddresses: []net.IP{s.ip},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		return nil, fmt.Errorf("making a certificate for the kubelet API: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate of the kubelet API: %w", err)
	}
	s.current = &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private, Leaf: leaf}
	return s.current, nil
}

// Signed asks a signer of the consumer for the certificate, keeps it in memory and
// renews it in time. Until the first request is approved it serves a self-signed one,
// which API servers accept that do not verify kubelets.
type Signed struct {
	manager  certificate.Manager
	fallback *SelfSigned
}

// NewSigned asks for nothing before Run.
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

// Run keeps the certificate until the context ends.
func (s *Signed) Run(ctx context.Context) {
	s.manager.Start()
	<-ctx.Done()
	s.manager.Stop()
}

// Certificate returns the certificate to serve with.
func (s *Signed) Certificate() (*tls.Certificate, error) {
	if current := s.manager.Current(); current != nil {
		return current, nil
	}
	return s.fallback.Certificate()
}

// memoryStore keeps a certificate for the life of the process: the next one asks anew.
type memoryStore struct {
	mu      sync.Mutex
	current *tls.Certificate
}

// Current implements certificate.Store.
func (s *memoryStore) Current() (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil {
		none := certificate.NoCertKeyError("no certificate yet")
		return nil, &none
	}
	return s.current, nil
}

// Update implements certificate.Store.
func (s *memoryStore) Update(cert, key []byte) (*tls.Certificate, error) {
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("reading the signed certificate: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current = &pair
	return s.current, nil
}
