package feed

import (
	"context"
	"net/http"
	"net/http/httptest"
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

// reviews calls a function for each review, which is denied.
type reviews struct {
	authorizationclient.SubjectAccessReviewInterface

	asked func()
}

func (r reviews) Create(_ context.Context, review *authorizationv1.SubjectAccessReview, _ metav1.CreateOptions) (*authorizationv1.SubjectAccessReview, error) {
	r.asked()
	return review, nil
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
			h := &Handler{bindings: NewBindings(), ended: make(chan struct{}), callers: &frontProxy{
				Request: authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
					return &authenticator.Response{User: &user.DefaultInfo{Name: "node", Groups: []string{"rome"}}}, true, nil
				}),
			}}
			h.access = reviews{asked: func() {
				if test.asks != nil {
					test.asks(h)
				}
			}}
			h.bindings.set(&rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: "rome", Namespace: "web-rome", ResourceVersion: "1"},
				RoleRef:    rbacv1.RoleRef{Kind: "ClusterRole", Name: authentication.NamespaceRole},
				Subjects:   []rbacv1.Subject{{Kind: rbacv1.GroupKind, Name: "rome"}},
			})
			if test.ends != nil {
				test.ends(h)
			}
			response := httptest.NewRecorder()
			h.ServeHTTP(response, httptest.NewRequestWithContext(t.Context(), http.MethodGet, wire.Path+"/configmaps?watch=true&resourceVersion=1", http.NoBody))
			require.Equal(t, test.want, response.Code, response.Body.String())
			if test.want == http.StatusServiceUnavailable {
				assert.Equal(t, "1", response.Header().Get("Retry-After"), "client-go asks again")
				assert.Equal(t, "close", response.Header().Get("Connection"))
			}
		})
	}
}
