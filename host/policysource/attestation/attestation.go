// Package attestation signs reports of the conformance suite, and checks them before a policy is
// bound. A signed report is a DSSE envelope (Dead Simple Signing Envelope) around the JSON document
// PolicyConformanceReport. Keys are Ed25519 or ECDSA.
package attestation

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"github.com/secure-systems-lab/go-securesystemslib/signerverifier"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/longshore-dev/longshore/sdk/contract"
)

const (
	// DataKey is the key of the ConfigMap of a module, in data, that holds the signed report.
	DataKey = "report.dsse.json"
	// PayloadType is that of the envelopes.
	PayloadType = "application/vnd.longshore.policy-conformance-report+json"
	// ReportKind is the kind of the documents.
	ReportKind = "PolicyConformanceReport"
	// ReportVersion is the apiVersion of the documents.
	ReportVersion = "conformance.longshore.dev/v1alpha1"
	// MinimumSuite is the oldest version of the suite whose reports are accepted.
	MinimumSuite = "1.0.0"
	// maxEnvelopeBytes bounds what is decoded: a ConfigMap holds no more.
	maxEnvelopeBytes = 1 << 20
)

// Report is the part of a report that is checked.
type Report struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Module     struct {
		Name    string `json:"name"`
		Version string `json:"version"`
		Digest  string `json:"digest"`
	} `json:"module"`
	Contract string `json:"contract"`
	Suite    string `json:"suite"`
	Conforms bool   `json:"conforms"`
	Strict   bool   `json:"strict"`
}

// Keys verify signatures.
type Keys struct{ verifier *dsse.EnvelopeVerifier }

// ParseKeys returns public keys: each is a PEM block, or the base64 of its content in one line, as
// flags have it. It returns an error if there is none.
func ParseKeys(keys []string) (*Keys, error) {
	verifiers := make([]dsse.Verifier, 0, len(keys))
	for i, key := range keys {
		verifier, err := parsePublic(key)
		if err != nil {
			return nil, fmt.Errorf("reading public key %d: %w", i+1, err)
		}
		verifiers = append(verifiers, verifier)
	}
	verifier, err := dsse.NewEnvelopeVerifier(verifiers...)
	if err != nil {
		return nil, fmt.Errorf("reading public keys: %w", err)
	}
	return &Keys{verifier}, nil
}

func parsePublic(key string) (dsse.Verifier, error) {
	key = strings.TrimSpace(key)
	if !strings.HasPrefix(key, "-----BEGIN") {
		der, err := base64.StdEncoding.DecodeString(key)
		if err != nil {
			return nil, errors.New("neither a PEM block nor base64: want a public key as openssl pkey -pubout writes it")
		}
		key = string(pem.EncodeToMemory(&pem.Block{Type: signerverifier.PublicKeyPEM, Bytes: der}))
	}
	block, _ := pem.Decode([]byte(key))
	if block == nil {
		return nil, errors.New("the PEM block is damaged")
	}
	if _, err := x509.ParsePKIXPublicKey(block.Bytes); err != nil {
		return nil, fmt.Errorf("not a public key: %w", err)
	}
	return parse([]byte(key))
}

// parse reads a key in PEM.
func parse(key []byte) (dsse.SignerVerifier, error) {
	loaded, err := signerverifier.LoadKey(key)
	if err != nil {
		return nil, fmt.Errorf("reading the key: %w", err)
	}
	var out dsse.SignerVerifier
	switch loaded.KeyType {
	case signerverifier.ED25519KeyType:
		out, err = signerverifier.NewED25519SignerVerifierFromSSLibKey(loaded)
	case signerverifier.ECDSAKeyType:
		out, err = signerverifier.NewECDSASignerVerifierFromSSLibKey(loaded)
	default:
		return nil, fmt.Errorf("a key of the type %q: want Ed25519 or ECDSA", loaded.KeyType)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the key: %w", err)
	}
	return out, nil
}

// Sign returns a report, as JSON, in an envelope that is signed with a private key in PEM.
func Sign(ctx context.Context, report, privateKey []byte) ([]byte, error) {
	if err := checkPrivate(privateKey); err != nil {
		return nil, err
	}
	key, err := parse(privateKey)
	if err != nil {
		return nil, err
	}
	signer, err := dsse.NewEnvelopeSigner(key)
	if err != nil {
		return nil, fmt.Errorf("signing the report: %w", err)
	}
	envelope, err := signer.SignPayload(ctx, PayloadType, report)
	if err != nil {
		return nil, fmt.Errorf("signing the report: %w", err)
	}
	encoded, err := json.Marshal(envelope)
	if err != nil {
		return nil, fmt.Errorf("encoding the signed report: %w", err)
	}
	return encoded, nil
}

// checkPrivate returns an error unless the key is a private one: the library signs with no other, but
// its message does not say which file is wrong.
func checkPrivate(key []byte) error {
	block, _ := pem.Decode(key)
	if block == nil {
		return errors.New("the signing key is not a PEM block: openssl genpkey -algorithm ed25519 writes one")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		parsed, err = x509.ParseECPrivateKey(block.Bytes)
	}
	signer, ok := parsed.(crypto.Signer)
	if err != nil || !ok {
		return errors.New("the signing key is not a private key")
	}
	switch signer.Public().(type) {
	case ed25519.PublicKey, *ecdsa.PublicKey:
		return nil
	default:
		return errors.New("the signing key is neither an Ed25519 nor an ECDSA key")
	}
}

// Open returns the report in an envelope that one of the keys has signed.
func (k *Keys) Open(ctx context.Context, envelope []byte) (*Report, error) {
	if len(envelope) > maxEnvelopeBytes {
		return nil, fmt.Errorf("the report is larger than %d bytes", maxEnvelopeBytes)
	}
	var decoded dsse.Envelope
	if err := json.Unmarshal(envelope, &decoded); err != nil {
		return nil, fmt.Errorf("the report is not a DSSE envelope: %w", err)
	}
	if len(decoded.Signatures) == 0 {
		return nil, errors.New("the report is not signed")
	}
	if decoded.PayloadType != PayloadType {
		return nil, fmt.Errorf("the envelope holds %q, want %q", decoded.PayloadType, PayloadType)
	}
	_, payload, err := k.verifier.VerifyAndDecode(ctx, &decoded)
	if err != nil {
		return nil, fmt.Errorf("the report is not signed with an accepted key: %w", err)
	}
	report := &Report{}
	if err := json.Unmarshal(payload, report); err != nil {
		return nil, fmt.Errorf("reading the signed report: %w", err)
	}
	if report.Kind != ReportKind || report.APIVersion != ReportVersion {
		return nil, fmt.Errorf("the signed document is %s of %s, want %s of %s", report.Kind, report.APIVersion, ReportKind, ReportVersion)
	}
	return report, nil
}

// Verify returns an error unless the envelope holds a signed report that the module with this digest
// of its unpacked bytes conforms, by a suite and a contract of this host.
func (k *Keys) Verify(ctx context.Context, envelope []byte, digest string) error {
	report, err := k.Open(ctx, envelope)
	if err != nil {
		return err
	}
	return report.Accepts(digest)
}

// Accepts returns why the report does not show that the module with this digest conforms.
func (r *Report) Accepts(digest string) error {
	suite, err := version.ParseSemantic(r.Suite)
	switch {
	case r.Module.Digest != digest:
		return fmt.Errorf("the report is about the module with digest %s, not %s", r.Module.Digest, digest)
	case !r.Conforms:
		return fmt.Errorf("the report says that module %s does not conform", digest)
	case err != nil:
		return fmt.Errorf("the report has the invalid suite version %q: %w", r.Suite, err)
	case suite.LessThan(version.MustParseSemantic(MinimumSuite)):
		return fmt.Errorf("the report is of suite version %s, older than %s: run longshorectl policy conform of this version", r.Suite, MinimumSuite)
	case !slices.Contains(contract.Versions(), r.Contract):
		return fmt.Errorf("the report is about contract %q, and this host serves %v", r.Contract, contract.Versions())
	}
	return nil
}
