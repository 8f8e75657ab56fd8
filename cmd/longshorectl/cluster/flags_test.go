package cluster

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
)

const kubeconfig = `
apiVersion: v1
kind: Config
clusters:
- {name: rome, cluster: {server: "https://rome"}}
- {name: milan, cluster: {server: "https://milan"}}
users:
- {name: admin, user: {token: a}}
- {name: guest, user: {token: g}}
contexts:
- {name: rome, context: {cluster: rome, user: admin}}
- {name: broken, context: {cluster: oslo, user: old}}
`

func TestAClusterAndAUserReplaceThoseOfTheContext(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(file, []byte(kubeconfig), 0o600))
	for name, tc := range map[string]struct {
		flags       Flags
		host, token string
		wantErr     string
		code        int
	}{
		"the context":                   {flags: Flags{Context: "rome"}, host: "https://rome", token: "a"},
		"another cluster":               {flags: Flags{Context: "rome", Cluster: "milan"}, host: "https://milan", token: "a"},
		"another user":                  {flags: Flags{Context: "rome", User: "guest"}, host: "https://rome", token: "g"},
		"both, without a context":       {flags: Flags{Cluster: "milan", User: "guest"}, host: "https://milan", token: "g"},
		"both, instead of wrong ones":   {flags: Flags{Context: "broken", Cluster: "milan", User: "guest"}, host: "https://milan", token: "g"},
		"a cluster that does not exist": {flags: Flags{Context: "rome", Cluster: "oslo"}, wantErr: `cluster "oslo" does not exist in the kubeconfig`, code: output.CodeUsage},
		"a user that does not exist":    {flags: Flags{Context: "rome", User: "root"}, wantErr: `user "root" does not exist in the kubeconfig`, code: output.CodeUsage},
		"a user without a cluster":      {flags: Flags{User: "guest"}, wantErr: "has no current context", code: output.CodeFailed},
	} {
		t.Run(name, func(t *testing.T) {
			tc.flags.Kubeconfig = file
			config, _, err := tc.flags.Config()
			if tc.wantErr != "" {
				code, message := output.ExitCode(err)
				assert.Equal(t, tc.code, code)
				assert.Contains(t, message, tc.wantErr)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tc.host, config.Host)
			assert.Equal(t, tc.token, config.BearerToken)
		})
	}
}

// answer is a transport.
type answer func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (a answer) RoundTrip(r *http.Request) (*http.Response, error) { return a(r) }

func TestRequestsArePrintedWithoutCredentials(t *testing.T) {
	var out bytes.Buffer
	request := httptest.NewRequest(http.MethodGet, "https://user:password@milan/api", http.NoBody)
	request.Header.Set("Authorization", "Bearer token")
	for _, next := range []answer{
		func(*http.Request) (*http.Response, error) { return &http.Response{Status: "200 OK"}, nil },
		func(*http.Request) (*http.Response, error) { return nil, errors.New("connection refused") },
	} {
		response, err := (&printer{next: next, out: &out}).RoundTrip(request)
		assert.Equal(t, err == nil, response != nil)
		if response != nil && response.Body != nil {
			require.NoError(t, response.Body.Close())
		}
	}
	assert.Regexp(t, `^GET https://user:xxxxx@milan/api: 200 OK, \d+ ms\nGET https://user:xxxxx@milan/api: connection refused, \d+ ms\n$`, out.String())
}
