package policy_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
	"github.com/longshore-dev/longshore/conformance/guests"
)

// keys writes a pair of keys into files.
func keys(t *testing.T) (private, public string) {
	t.Helper()
	publicKey, key, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	write := func(name, kind string, der []byte, err error) string {
		require.NoError(t, err)
		return written(t, name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	private = write("key.pem", "PRIVATE KEY", der, err)
	der, err = x509.MarshalPKIXPublicKey(publicKey)
	return private, write("key.pub", "PUBLIC KEY", der, err)
}

func written(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return path
}

func TestSignedReports(t *testing.T) {
	var module string
	for _, guest := range guests.All() {
		if guest.Name == "text" {
			module = written(t, "module.wasm", guest.Wasm(t))
		}
	}
	failing := guest{answer: labels("red")}.build(t)
	private, public := keys(t)
	_, otherPublic := keys(t)

	signed, code, message := run(t, "", "conform", module, "--sign-key", private, "-o", "json")
	require.Zero(t, code, message)
	report := written(t, "report.dsse.json", []byte(signed))
	badSigned, code, message := run(t, "", "conform", failing, "--sign-key", private, "-o", "json")
	require.Equal(t, output.CodeModule, code, message)

	for name, tc := range map[string]struct {
		args []string
		code int
		want string
	}{
		"signed, and about this module":  {[]string{report, "--key", public, "--module", module}, output.CodeDone, "Accepted: "},
		"one of several keys signed it":  {[]string{report, "--key", otherPublic, "--key", public}, output.CodeDone, "Accepted: "},
		"another key signed it":          {[]string{report, "--key", otherPublic}, output.CodeModule, "Not accepted: the report is not signed with an accepted key"},
		"about another module":           {[]string{report, "--key", public, "--module", failing}, output.CodeModule, "Not accepted: the report is about the module with digest sha256:"},
		"a module that does not conform": {[]string{written(t, "bad.json", []byte(badSigned)), "--key", public}, output.CodeModule, "does not conform"},
		"no signature":                   {[]string{written(t, "plain.json", []byte("{}")), "--key", public}, output.CodeModule, "the report is not signed"},
	} {
		t.Run(name, func(t *testing.T) {
			out, code, message := run(t, "", append([]string{"verify-report"}, tc.args...)...)
			assert.Equal(t, tc.code, code, message)
			assert.Contains(t, out, tc.want)
		})
	}
	for want, args := range map[string][]string{
		"--sign-key goes with -o json": {"conform", module, "--sign-key", private},
		"--key is missing":             {"verify-report", report},
	} {
		_, code, message := run(t, "", args...)
		assert.Equal(t, output.CodeUsage, code)
		assert.Contains(t, message, want)
	}
	_, code, message = run(t, "", "conform", module, "--sign-key", public, "-o", "json")
	assert.Equal(t, output.CodeFailed, code)
	assert.Contains(t, message, "the signing key is not a private key")

	pushed, code, message := run(t, "", "push", module, "--report", report)
	require.Zero(t, code, message)
	assert.Contains(t, pushed, "report.dsse.json: |")
}
