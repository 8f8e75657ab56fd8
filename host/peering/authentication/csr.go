package authentication

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
)

const (
	requestBlock     = "CERTIFICATE REQUEST"
	certificateBlock = "CERTIFICATE"

	shortHashBytes = 6

	// MaxCSRBytes bounds a PEM certificate request: one for an RSA key of 16,384 bits has 6 KiB. The custom
	// resources have the same bound, in base64.
	MaxCSRBytes = 8 << 10
)

// Subject is a user and its group, as a client certificate names them.
type Subject struct {
	User, Group string
}

// ControlPlaneSubject is that of a consumer's replicator.
func ControlPlaneSubject(consumer liqocorev1beta1.ClusterID) Subject {
	return Subject{User: string(consumer), Group: authv1beta1.ControlPlaneGroup}
}

// SliceSubject is that of the virtual kubelets of a consumer's ResourceSlice. The provider
// binds roles in remote namespaces to its group, the consumer's cluster ID.
func SliceSubject(consumer liqocorev1beta1.ClusterID, slice string) Subject {
	sum := sha256.Sum256([]byte(consumer))
	return Subject{User: slice + "-" + hex.EncodeToString(sum[:shortHashBytes]), Group: string(consumer)}
}

// NewCSR returns a PEM certificate request for a subject.
func NewCSR(key crypto.Signer, subject Subject) ([]byte, error) {
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{
		CommonName: subject.User, Organization: []string{subject.Group},
	}}, key)
	if err != nil {
		return nil, fmt.Errorf("creating the certificate request of %q: %w", subject.User, err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: requestBlock, Bytes: der}), nil
}

// CheckCSR checks that a certificate request asks for the subject and for nothing else: one
// common name and one organization, without any other name or extension, since the signer
// would copy them into the certificate. A nil key accepts the key of the request.
// Requests are not compared byte by byte, since ECDSA makes each one different.
func CheckCSR(encoded []byte, subject Subject, key crypto.PublicKey) error {
	if len(encoded) > MaxCSRBytes {
		return fmt.Errorf("certificate request has %d bytes, want at most %d", len(encoded), MaxCSRBytes)
	}
	der, err := decodePEM(encoded, requestBlock)
	if err != nil {
		return fmt.Errorf("parsing the certificate request: %w", err)
	}
	csr, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return fmt.Errorf("parsing the certificate request: %w", err)
	}
	if err := csr.CheckSignature(); err != nil {
		return fmt.Errorf("checking the signature of the certificate request: %w", err)
	}
	if err := checkSubject(csr, subject); err != nil {
		return err
	}
	if key == nil {
		return nil
	}
	want, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return fmt.Errorf("encoding the public key: %w", err)
	}
	if !bytes.Equal(csr.RawSubjectPublicKeyInfo, want) {
		return errors.New("certificate request is for a key other than the public key of the cluster")
	}
	return nil
}

// checkSubject compares the encoded subject with the one that is expected, so that nothing
// hides in attributes that the parser merges or drops.
func checkSubject(csr *x509.CertificateRequest, subject Subject) error {
	const attributes = 2 // The common name and the organization.
	if len(csr.Subject.Names) != attributes || csr.Subject.CommonName != subject.User ||
		len(csr.Subject.Organization) != 1 || csr.Subject.Organization[0] != subject.Group {
		return fmt.Errorf("certificate request has subject %q, want exactly CN=%s,O=%s", csr.Subject, subject.User, subject.Group)
	}
	if len(csr.Extensions) > 0 {
		return errors.New("certificate request has extensions or alternative names; none are allowed")
	}
	return nil
}

// ParseCertificate parses the first certificate of a PEM text.
func ParseCertificate(encoded []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(encoded)
	if block == nil || block.Type != certificateBlock {
		return nil, fmt.Errorf("not a PEM block %q", certificateBlock)
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parsing the certificate: %w", err)
	}
	return certificate, nil
}
