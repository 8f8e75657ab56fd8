package testplane

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

const validity = 365 * 24 * time.Hour

// authority is a certificate authority with its files NAME.crt and NAME.key.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         []byte
}

// subject is the subject of a certificate, and whether it is a serving certificate.
type subject struct {
	name   string
	groups []string
	ips    []net.IP
	hosts  []string
	server bool
}

// loadAuthority reads the authority from dir, or creates it there: a cluster that
// starts again on its old directory keeps its certificates valid.
func loadAuthority(dir, name string) (*authority, error) {
	crt, key := filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	certPEM, err := os.ReadFile(crt)
	if errors.Is(err, fs.ErrNotExist) {
		return createAuthority(name, crt, key)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the authority %s: %w", name, err)
	}
	keyPEM, err := os.ReadFile(key)
	if err != nil {
		return nil, fmt.Errorf("reading the authority's key %s: %w", name, err)
	}
	certBlock, _ := pem.Decode(certPEM)
	keyBlock, _ := pem.Decode(keyPEM)
	if certBlock == nil || keyBlock == nil {
		return nil, fmt.Errorf("reading the authority %s: no PEM in %s or %s: remove the directory to start afresh", name, crt, key)
	}
	certificate, err := x509.ParseCertificate(certBlock.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parsing the authority %s: %w", name, err)
	}
	parsedKey, err := x509.ParseECPrivateKey(keyBlock.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parsing the authority's key %s: %w", name, err)
	}
	return &authority{certificate: certificate, key: parsedKey, pem: certPEM}, nil
}

func createAuthority(name, crtPath, keyPath string) (*authority, error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.Add(validity),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("creating the authority %s: %w", name, err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("parsing the authority %s: %w", name, err)
	}
	a := &authority{certificate: certificate, key: key, pem: encode("CERTIFICATE", der)}
	// The key first: a certificate without its key would look complete to the next start.
	if err := writePrivate(keyPath, keyPEM); err != nil {
		return nil, err
	}
	return a, writePrivate(crtPath, a.pem)
}

// issue signs a certificate with a key of its own; both come back as PEM.
func (a *authority) issue(s subject) (certPEM, keyPEM []byte, err error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, nil, fmt.Errorf("drawing a serial number: %w", err)
	}
	usage := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if s.server {
		usage = append(usage, x509.ExtKeyUsageServerAuth)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: s.name, Organization: s.groups},
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.Add(validity),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  usage,
		IPAddresses:  s.ips,
		DNSNames:     s.hosts,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &key.PublicKey, a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("signing the certificate of %s: %w", s.name, err)
	}
	return encode("CERTIFICATE", der), keyPEM, nil
}

func newKey() (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("generating a key: %w", err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("encoding a key: %w", err)
	}
	return key, encode("EC PRIVATE KEY", der), nil
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// writePrivate replaces the file at path as a whole.
func writePrivate(path string, content []byte) error {
	temporary := path + ".new"
	if err := os.WriteFile(temporary, content, 0o600); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if err := os.Rename(temporary, path); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// Users of the control plane's own components, by the name of their kubeconfig.
var componentUsers = map[string]subject{
	adminFile:     {name: AdminUser, groups: []string{"system:masters"}},
	managerFile:   {name: "system:kube-controller-manager"},
	schedulerFile: {name: "system:kube-scheduler"},
	// kwok is beside the control plane and stands in for kubelets; it may do all.
	kwokFile: {name: "system:kwok", groups: []string{"system:masters"}},
}

// writePKI creates all certificates of the cluster in dir; authorities and the service
// account key that are there stay, so tokens and issued certificates stay valid.
func (c *Cluster) writePKI() error {
	dir := c.pki("")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("creating the folder of certificates: %w", err)
	}
	var err error
	if c.ca, err = loadAuthority(dir, "ca"); err != nil {
		return err
	}
	front, err := loadAuthority(dir, "front-proxy-ca")
	if err != nil {
		return err
	}
	if err := ensureServiceAccountKey(c.pki("service-account.key")); err != nil {
		return err
	}
	serving := subject{name: "kube-apiserver", server: true,
		hosts: []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"}}
	serving.ips, err = c.servingIPs()
	if err != nil {
		return err
	}
	for _, leaf := range []struct {
		file string
		by   *authority
		of   subject
	}{
		{"apiserver", c.ca, serving},
		{"apiserver-kubelet-client", c.ca, subject{name: "kube-apiserver-kubelet-client", groups: []string{"system:masters"}}},
		{"front-proxy-client", front, subject{name: "front-proxy-client"}},
	} {
		cert, key, err := leaf.by.issue(leaf.of)
		if err != nil {
			return err
		}
		if err := errors.Join(writePrivate(c.pki(leaf.file+".crt"), cert), writePrivate(c.pki(leaf.file+".key"), key)); err != nil {
			return err
		}
	}
	for file, user := range componentUsers {
		if err := c.writeUserKubeconfig(file, user); err != nil {
			return err
		}
	}
	return nil
}

func ensureServiceAccountKey(path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	_, key, err := newKey()
	if err != nil {
		return err
	}
	return writePrivate(path, key)
}

// servingIPs are the addresses in the API server's certificate.
func (c *Cluster) servingIPs() ([]net.IP, error) {
	_, network, err := net.ParseCIDR(c.options.ServiceCIDR)
	if err != nil {
		return nil, fmt.Errorf("parsing Options.ServiceCIDR: %w", err)
	}
	first := append(net.IP(nil), network.IP...)
	first[len(first)-1]++
	return []net.IP{net.ParseIP(c.options.Address), net.IPv4(127, 0, 0, 1), first}, nil
}
