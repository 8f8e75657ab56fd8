package podlist_test

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/hack/demo/podlister/podlist"
)

func TestAListNamesTheUserAndThePods(t *testing.T) {
	const pods = "/api/v1/namespaces/shop/pods"
	cases := map[string]struct {
		token string
		want  *podlist.List
		fails string
	}{
		"of a token that may list pods": {token: "good\n", want: &podlist.List{User: "system:serviceaccount:shop:monitor", Pods: []string{"cart", "catalog"}}},
		"of a token without the right":  {token: "powerless", fails: "answered 403 Forbidden to GET " + pods + ": no right"},
		"of an unknown token":           {token: "bad", fails: "answered 401 Unauthorized to POST"},
	}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token := r.Header.Get("Authorization")
		switch {
		case token != "Bearer good" && token != "Bearer powerless":
			http.Error(w, "no user", http.StatusUnauthorized)
		case r.Method == http.MethodPost:
			_, _ = w.Write([]byte(`{"status":{"userInfo":{"username":"system:serviceaccount:shop:monitor"}}}`))
		case token != "Bearer good" || r.URL.Path != pods:
			http.Error(w, "no right", http.StatusForbidden)
		default:
			_, _ = w.Write([]byte(`{"items":[{"metadata":{"name":"cart"}},{"metadata":{"name":"catalog"}}]}`))
		}
	}))
	t.Cleanup(server.Close)
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			source := &podlist.Source{
				Server: server.URL, Namespace: "shop",
				TokenFile: filepath.Join(dir, "token"), AuthorityFile: filepath.Join(dir, "ca.crt"),
			}
			authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
			require.NoError(t, os.WriteFile(source.AuthorityFile, authority, 0o600))
			require.NoError(t, os.WriteFile(source.TokenFile, []byte(tc.token), 0o600))
			list, err := source.Read(t.Context())
			if tc.fails != "" {
				require.ErrorContains(t, err, tc.fails)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tc.want, list)
		})
	}
}
