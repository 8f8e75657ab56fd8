package authentication

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
)

// nonceBytes is the length of a nonce before its encoding.
const nonceBytes = 64

const (
	privateKeyBlock = "PRIVATE KEY"
	publicKeyBlock  = "PUBLIC KEY"
)

// NewNonce returns 64 random bytes in base64, the text that consumers sign.
func NewNonce() []byte {
	nonce := make([]byte, nonceBytes)
	_, _ = rand.Read(nonce) // It never fails: crypto/rand ends the process instead.
	return base64.StdEncoding.AppendEncode(nil, nonce)
}

// NewKey returns a cluster's new key pair: Ed25519, as the reference makes it.
func NewKey() (crypto.Signer, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generating an Ed25519 key: %w", err)
	}
	return key, nil
}

// EncodeKey returns the PEM encodings of a key pair: PKCS#8 and PKIX.
func EncodeKey(key crypto.Signer) (private, public []byte, err error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("encoding the private key: %w", err)
	}
	if public, err = EncodePublicKey(key.Public()); err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: privateKeyBlock, Bytes: der}), public, nil
}

// EncodePublicKey returns the PEM encoding (PKIX) of a public key.
func EncodePublicKey(key crypto.PublicKey) ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding the public key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: publicKeyBlock, Bytes: der}), nil
}

// ParseKey parses a PEM private key (PKCS#8): Ed25519, RSA or ECDSA.
func ParseKey(encoded []byte) (crypto.Signer, error) {
	block, err := decodePEM(encoded, privateKeyBlock)
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block)
	if err != nil {
		return nil, fmt.Errorf("parsing the private key: %w", err)
	}
	switch key := parsed.(type) {
	case ed25519.PrivateKey:
		return key, nil
	case *rsa.PrivateKey:
		return key, nil
	case *ecdsa.PrivateKey:
		return key, nil
	default:
		return nil, fmt.Errorf("unsupported private key of type %T", parsed)
	}
}

// ParsePublicKey parses a PEM public key (PKIX), or the 32 raw bytes of an Ed25519 key that
// older peers send.
func ParsePublicKey(encoded []byte) (crypto.PublicKey, error) {
	if len(encoded) == ed25519.PublicKeySize {
		return ed25519.PublicKey(encoded), nil
	}
	block, err := decodePEM(encoded, publicKeyBlock)
	if err != nil {
		return nil, err
	}
	key, err := x509.ParsePKIXPublicKey(block)
	if err != nil {
		return nil, fmt.Errorf("parsing the public key: %w", err)
	}
	return key, nil
}

// IsKeyOf reports whether a PEM certificate is for a public key. A text that is not a certificate
// is for none.
func IsKeyOf(key crypto.PublicKey, certificate []byte) bool {
	parsed, err := ParseCertificate(certificate)
	if err != nil {
		return false
	}
	own, ok := parsed.PublicKey.(interface {
		Equal(key crypto.PublicKey) bool
	})
	return ok && own.Equal(key)
}

// Sign signs the text of a nonce, in base64 as it was received.
func Sign(key crypto.Signer, nonce []byte) ([]byte, error) {
	message, hash := digest(key.Public(), nonce)
	signature, err := key.Sign(rand.Reader, message, hash)
	if err != nil {
		return nil, fmt.Errorf("signing the nonce: %w", err)
	}
	return signature, nil
}

// Verify checks a signature over the text of a nonce. An ECDSA signature differs each time
// that it is made, so signatures are never compared.
func Verify(key crypto.PublicKey, nonce, signature []byte) error {
	message, hash := digest(key, nonce)
	valid := false
	switch k := key.(type) {
	case ed25519.PublicKey:
		valid = ed25519.Verify(k, message, signature)
	case *rsa.PublicKey:
		valid = rsa.VerifyPKCS1v15(k, hash, message, signature) == nil
	case *ecdsa.PublicKey:
		valid = ecdsa.VerifyASN1(k, message, signature)
	default:
		return fmt.Errorf("unsupported public key of type %T", key)
	}
	if !valid {
		return errors.New("signature does not match the nonce and the public key")
	}
	return nil
}

// digest returns what is signed: the nonce itself with Ed25519, its SHA-256 otherwise.
func digest(key crypto.PublicKey, nonce []byte) ([]byte, crypto.Hash) {
	if _, ok := key.(ed25519.PublicKey); ok {
		return nonce, crypto.Hash(0)
	}
	sum := sha256.Sum256(nonce)
	return sum[:], crypto.SHA256
}

// decodePEM returns the content of the only block of a PEM text.
func decodePEM(encoded []byte, kind string) ([]byte, error) {
	block, rest := pem.Decode(encoded)
	if block == nil || block.Type != kind {
		return nil, fmt.Errorf("not a PEM block %q", kind)
	}
	if len(rest) > 0 {
		return nil, fmt.Errorf("%d bytes follow the PEM block %q", len(rest), kind)
	}
	return block.Bytes, nil
}
