package attestation_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/conformance/suite"
	"github.com/longshore-dev/longshore/host/policysource/attestation"
	"github.com/longshore-dev/longshore/sdk/contract"
)

const digest = "sha256:0123"

func passing() *suite.Report {
	return &suite.Report{
		APIVersion: suite.ReportVersion, Kind: suite.ReportKind, Contract: contract.Version, Suite: suite.Version, Conforms: true,
		Module: suite.Module{Name: "mine", Digest: digest},
	}
}

// pair returns a private and a public key in PEM.
func pair(t *testing.T, key crypto.Signer) (private, public []byte) {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	publicDER, err := x509.MarshalPKIXPublicKey(key.Public())
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: publicDER})
}

func newEd25519(t *testing.T) (private, public []byte) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	return pair(t, key)
}

func sign(t *testing.T, report any, private []byte) []byte {
	t.Helper()
	document, err := json.Marshal(report)
	require.NoError(t, err)
	envelope, err := attestation.Sign(t.Context(), document, private)
	require.NoError(t, err)
	return envelope
}

func TestSignedReportsAreVerifiedWithKeysOfEachKind(t *testing.T) {
	curve := func(c elliptic.Curve) func(*testing.T) (private, public []byte) {
		return func(t *testing.T) (private, public []byte) {
			key, err := ecdsa.GenerateKey(c, rand.Reader)
			require.NoError(t, err)
			return pair(t, key)
		}
	}
	for name, make := range map[string]func(*testing.T) (private, public []byte){
		"Ed25519": newEd25519, "P-256": curve(elliptic.P256()), "P-384": curve(elliptic.P384()), "P-521": curve(elliptic.P521()),
	} {
		t.Run(name, func(t *testing.T) {
			private, public := make(t)
			_, other := newEd25519(t)
			block, _ := pem.Decode(public)
			for _, key := range []string{string(public), base64.StdEncoding.EncodeToString(block.Bytes)} {
				keys, err := attestation.ParseKeys([]string{string(other), key})
				require.NoError(t, err)
				assert.NoError(t, keys.Verify(t.Context(), sign(t, passing(), private), digest))
			}
		})
	}
}

func TestReportsThatAreRefused(t *testing.T) {
	private, public := newEd25519(t)
	other, _ := newEd25519(t)
	keys, err := attestation.ParseKeys([]string{string(public)})
	require.NoError(t, err)
	changed := func(change func(*suite.Report)) []byte {
		report := passing()
		change(report)
		return sign(t, report, private)
	}
	good := sign(t, passing(), private)
	envelope := map[string]any{}
	require.NoError(t, json.Unmarshal(good, &envelope))
	with := func(key string, value any) []byte {
		copied := map[string]any{"payloadType": envelope["payloadType"], "payload": envelope["payload"], "signatures": envelope["signatures"]}
		copied[key] = value
		encoded, err := json.Marshal(copied)
		require.NoError(t, err)
		return encoded
	}
	plain, err := json.Marshal(passing())
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		envelope []byte
		want     string
	}{
		"a report without an envelope":  {plain, "the report is not signed"},
		"an envelope without signature": {with("signatures", []any{}), "the report is not signed"},
		"no JSON":                       {[]byte("report"), "not a DSSE envelope"},
		"another key":                   {sign(t, passing(), other), "not signed with an accepted key"},
		"a payload that was changed":    {with("payload", base64.StdEncoding.EncodeToString([]byte(`{"conforms":true}`))), "not signed with an accepted key"},
		"another type of payload":       {with("payloadType", "application/json"), `the envelope holds "application/json"`},
		"a module of another digest":    {changed(func(r *suite.Report) { r.Module.Digest = "sha256:ffff" }), "the report is about the module with digest sha256:ffff, not sha256:0123"},
		"a module that does not pass":   {changed(func(r *suite.Report) { r.Conforms = false }), "does not conform"},
		"an old suite":                  {changed(func(r *suite.Report) { r.Suite = "0.9.0" }), "suite version 0.9.0, older than 1.0.0"},
		"no suite":                      {changed(func(r *suite.Report) { r.Suite = "" }), "invalid suite version"},
		"another contract":              {changed(func(r *suite.Report) { r.Contract = "v0" }), `contract "v0"`},
		"another document":              {changed(func(r *suite.Report) { r.Kind = "Other" }), "the signed document is Other"},
		"a report that is too large":    {[]byte(strings.Repeat(" ", 1<<20+1)), "larger than"},
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorContains(t, keys.Verify(t.Context(), tc.envelope, digest), tc.want)
		})
	}
	assert.NoError(t, keys.Verify(t.Context(), good, digest))
}

func TestKeysThatAreRefused(t *testing.T) {
	private, public := newEd25519(t)
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	rsaPrivate, rsaPublic := pair(t, key)
	for name, tc := range map[string]struct{ key, want string }{
		"text":          {"not a key", "neither a PEM block nor base64"},
		"half a block":  {"-----BEGIN PUBLIC KEY-----\n", "damaged"},
		"a private key": {string(private), "not a public key"},
		"base64":        {"aGVsbG8=", "not a public key"},
		"RSA":           {string(rsaPublic), "want Ed25519 or ECDSA"},
	} {
		_, err := attestation.ParseKeys([]string{tc.key})
		assert.ErrorContains(t, err, tc.want, name)
	}
	_, err = attestation.ParseKeys(nil)
	assert.Error(t, err, "nothing is accepted without keys")
	for want, key := range map[string][]byte{"not a private key": public, "not a PEM block": []byte("x"), "neither an Ed25519 nor an ECDSA key": rsaPrivate} {
		_, err := attestation.Sign(t.Context(), []byte("{}"), key)
		assert.ErrorContains(t, err, want)
	}
}

// The suite that is built with this host is accepted by it, and its documents are those that it reads.
func TestTheSuiteIsNotTooOld(t *testing.T) {
	assert.Equal(t, attestation.ReportKind, suite.ReportKind)
	assert.Equal(t, attestation.ReportVersion, suite.ReportVersion)
	report := attestation.Report{Suite: suite.Version, Conforms: true, Contract: contract.Version}
	assert.NoError(t, report.Accepts(""))
}
