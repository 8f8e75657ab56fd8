package feed

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"

	wire "github.com/longshore-dev/longshore/host/kit/feed"
	"github.com/longshore-dev/longshore/host/peering/authentication"
)

// reviews answers each review with the result of a function.
type reviews struct {
	authorizationclient.SubjectAccessReviewInterface

	allows func() bool
}

func (r reviews) Create(_ context.Context, review *authorizationv1.SubjectAccessReview, _ metav1.CreateOptions) (*authorizationv1.SubjectAccessReview, error) {
	review.Status.Allowed = r.allows()
	return review, nil
}

// newHandler returns a Handler whose caller is of the consumer rome, with the namespace web-rome.
func newHandler(allows func() bool) *Handler {
	h := &Handler{bindings: NewBindings(), ended: make(chan struct{}), access: reviews{allows: allows}, callers: &frontProxy{
		Request: authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
			return &authenticator.Response{User: &user.DefaultInfo{Name: "node", Groups: []string{"rome"}}}, true, nil
		}),
	}}
	h.bindings.set(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "rome", Namespace: "web-rome", ResourceVersion: "1"},
		RoleRef:    rbacv1.RoleRef{Kind: "ClusterRole", Name: authentication.NamespaceRole},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.GroupKind, Name: "rome"}},
	})
	return h
}

func serve(t *testing.T, h *Handler) *httptest.ResponseRecorder {
	t.Helper()
	response := httptest.NewRecorder()
	h.ServeHTTP(response, httptest.NewRequestWithContext(t.Context(), http.MethodGet, wire.Path+"/configmaps?watch=true&resourceVersion=1", http.NoBody))
	return response
}

// A virtual kubelet that is refused with 403 watches each namespace for minutes. It must not be
// refused because a replica ends.
func TestAReplicaThatEndsRefersToAnother(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		ends func(h *Handler) // before the request
		asks func(h *Handler) // while the rights are checked
		want int
	}{
		"before the request":           {ends: func(h *Handler) { close(h.ended) }, want: http.StatusServiceUnavailable},
		"while the rights are checked": {asks: func(h *Handler) { close(h.ended) }, want: http.StatusServiceUnavailable},
		"a replica that does not end":  {want: http.StatusForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var h *Handler
			h = newHandler(func() bool {
				if test.asks != nil {
					test.asks(h)
				}
				return false
			})
			if test.ends != nil {
				test.ends(h)
			}
			response := serve(t, h)
			require.Equal(t, test.want, response.Code, response.Body.String())
			if test.want == http.StatusServiceUnavailable {
				assert.Equal(t, "1", response.Header().Get("Retry-After"), "client-go asks again")
				assert.Equal(t, "close", response.Header().Get("Connection"))
			}
		})
	}
}

// A watch from a resource version that the API server no longer has fails as there, so that the
// client lists again.
func TestErrorsOfTheAPIServerReachTheCaller(t *testing.T) {
	t.Parallel()
	const status = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}`
	for name, test := range map[string]struct {
		code int
		body string
		want string
	}{
		"when the watch begins": {code: http.StatusGone, body: status, want: status},
		"later": {
			code: http.StatusOK, body: `{"type":"ERROR","object":` + status + `}`,
			want: `{"object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"1","annotations":{"feed.longshore.dev/namespaces":"web-rome"}}},"type":"BOOKMARK"}` + "\n" +
				`{"type":"ERROR","object":` + status + `}` + "\n",
		},
		"too many requests": {code: http.StatusTooManyRequests, body: "later", want: "later"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				assert.Equal(t, "/api/v1/configmaps?allowWatchBookmarks=true&resourceVersion=1&watch=true", r.URL.String())
				w.Header().Set("Retry-After", "3")
				w.WriteHeader(test.code)
				_, _ = w.Write([]byte(test.body))
			}))
			t.Cleanup(server.Close)
			h := newHandler(func() bool { return true })
			h.http = server.Client()
			var err error
			h.server, err = url.Parse(server.URL)
			require.NoError(t, err)
			response := serve(t, h)
			assert.Equal(t, test.code, response.Code)
			assert.Equal(t, test.want, response.Body.String())
			if test.code == http.StatusTooManyRequests {
				assert.Equal(t, "3", response.Header().Get("Retry-After"), "client-go asks again")
			}
		})
	}
}
