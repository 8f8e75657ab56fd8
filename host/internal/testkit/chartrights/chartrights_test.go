package chartrights

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
)

func TestDeniedRequestsAreRecorded(t *testing.T) {
	const patch = `clusterrolebindings.rbac.authorization.k8s.io "liqo-node-milan" is forbidden: User "system:serviceaccount:longshore:longshore-manager" cannot patch resource "clusterrolebindings" in API group "rbac.authorization.k8s.io" at the cluster scope`
	const escalation = `roles.rbac.authorization.k8s.io "test" is forbidden: user "system:serviceaccount:longshore:longshore-manager" (groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently held`
	for sentence, tc := range map[string]struct {
		code     int
		message  string
		recorded bool
	}{
		"a missing right, with the verb and the resource": {http.StatusForbidden, patch, true},
		"a right that the account cannot give":            {http.StatusForbidden, escalation, true},
		"not a namespace that is being deleted": {http.StatusForbidden,
			`pods "web" is forbidden: unable to create new content in namespace shop because it is being terminated`, false},
		"not the attempt of a virtual kubelet to create its Node": {http.StatusForbidden,
			`nodes is forbidden: User "system:serviceaccount:liqo-tenant-milan:milan" cannot create resource "nodes" in API group "" at the cluster scope`, false},
		"not an object that does not exist": {http.StatusNotFound, patch, false},
	} {
		t.Run(sentence, func(t *testing.T) {
			body := `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","message":` + quoted(tc.message) + `}`
			user := ""
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
				user = request.Header.Get("Impersonate-User")
				w.WriteHeader(tc.code)
				_, _ = io.WriteString(w, body)
			}))
			defer server.Close()
			log := &strings.Builder{}
			client, err := rest.HTTPClientFor(ImpersonateAndLog(&rest.Config{Host: server.URL}, Namespace, Manager, log))
			require.NoError(t, err)
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
			require.NoError(t, err)
			response, err := client.Do(request)
			require.NoError(t, err)
			answer, err := io.ReadAll(response.Body)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			assert.Equal(t, body, string(answer), "the component gets the whole answer")
			assert.Equal(t, "system:serviceaccount:longshore:longshore-manager", user)
			want := ""
			if tc.recorded {
				want = deniedMark + tc.message + "\n"
			}
			assert.Equal(t, want, log.String())
		})
	}
}

func quoted(message string) string { return `"` + strings.ReplaceAll(message, `"`, `\"`) + `"` }
