package kubelet

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authenticationv1client "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationv1client "k8s.io/client-go/kubernetes/typed/authorization/v1"
)

// authorityLifetime is how long the authorities of clients are believed.
const authorityLifetime = 5 * time.Minute

// GuardOptions are what a [Guard] needs; all are required.
type GuardOptions struct {
	NodeName string
	// Authorities returns the PEM certificates of who signs the consumer's API server's
	// client certificate.
	Authorities func(context.Context) ([]byte, error)
	Tokens      authenticationv1client.TokenReviewInterface
	Access      authorizationv1client.SubjectAccessReviewInterface
	Now         func() time.Time
}

// Guard lets those pass whom the consumer knows and allows.
type Guard struct {
	options GuardOptions

	mu    sync.Mutex
	pool  *x509.CertPool
	until time.Time
}

// NewGuard returns a Guard.
func NewGuard(options GuardOptions) (*Guard, error) {
	if options.NodeName == "" || options.Authorities == nil || options.Tokens == nil || options.Access == nil || options.Now == nil {
		return nil, errors.New("the guard of the kubelet API needs the node's name, authorities, token and access reviews, and a clock")
	}
	return &Guard{options: options}, nil
}

// authorities returns the pool of authorities; the last one stays while a new one cannot
// be had.
func (g *Guard) authorities(ctx context.Context) (*x509.CertPool, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.options.Now()
	if g.pool != nil && now.Before(g.until) {
		return g.pool, nil
	}
	pem, err := g.options.Authorities(ctx)
	if err != nil {
		return g.pool, fmt.Errorf("reading the authorities of clients: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return g.pool, errors.New("reading the authorities of clients: there is no certificate in them")
	}
	g.pool, g.until = pool, now.Add(authorityLifetime)
	return pool, nil
}

// protect answers 401 to strangers and 403 to those who may not.
func (g *Guard) protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, err := g.identify(r)
		if err == nil && user == nil {
			err = errors.New("show a client certificate of the cluster, or a token")
		}
		if err != nil {
			http.Error(w, "Unauthorized: "+err.Error(), http.StatusUnauthorized)
			return
		}
		allowed, reason, err := g.authorize(r, user)
		switch {
		case err != nil:
			logr.FromContextOrDiscard(r.Context()).Error(err, "A request to the kubelet API could not be authorized")
			http.Error(w, "Forbidden: "+err.Error(), http.StatusForbidden)
		case !allowed:
			http.Error(w, fmt.Sprintf("Forbidden: user %q may not %s nodes/%s of node %q: %s",
				user.Username, verb(r.Method), subresource(r.URL.Path), g.options.NodeName, reason), http.StatusForbidden)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// identify returns who asks, nil for nobody. A certificate was verified in the
// handshake.
func (g *Guard) identify(r *http.Request) (*authenticationv1.UserInfo, error) {
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		subject := r.TLS.VerifiedChains[0][0].Subject
		return &authenticationv1.UserInfo{
			Username: subject.CommonName, Groups: slices.Concat(subject.Organization, []string{"system:authenticated"}),
		}, nil
	}
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || token == "" {
		return nil, nil
	}
	review, err := g.options.Tokens.Create(r.Context(), &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token},
	}, metav1.CreateOptions{})
	switch {
	case err != nil:
		return nil, fmt.Errorf("asking the API server about the token: %w", err)
	case !review.Status.Authenticated:
		return nil, errors.New("the API server does not know the token")
	}
	return &review.Status.User, nil
}

// authorize asks what a real kubelet asks.
func (g *Guard) authorize(r *http.Request, user *authenticationv1.UserInfo) (allowed bool, reason string, err error) {
	extra := make(map[string]authorizationv1.ExtraValue, len(user.Extra))
	for key, value := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(value)
	}
	review, err := g.options.Access.Create(r.Context(), &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user.Username, Groups: user.Groups, UID: user.UID, Extra: extra,
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: verb(r.Method), Version: "v1", Resource: "nodes", Subresource: subresource(r.URL.Path), Name: g.options.NodeName,
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, "", fmt.Errorf("asking the API server what user %q may do: %w", user.Username, err)
	}
	return review.Status.Allowed, review.Status.Reason, nil
}

func verb(method string) string {
	switch method {
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		return "delete"
	default:
		return "get"
	}
}

// subresource maps a path as a real kubelet does.
func subresource(path string) string {
	for prefix, name := range map[string]string{"/stats": "stats", "/metrics": "metrics", "/logs": "log"} {
		if path == prefix || strings.HasPrefix(path, prefix+"/") {
			return name
		}
	}
	return "proxy"
}

// errorLog takes what the HTTP server has to say of its connections.
func errorLog(l logr.Logger) *log.Logger { return log.New(writer{l}, "", 0) }

type writer struct{ log logr.Logger }

// Write implements io.Writer.
func (w writer) Write(line []byte) (int, error) {
	w.log.V(1).Info("A connection to the kubelet API failed", "reason", strings.TrimSpace(string(line)))
	return len(line), nil
}
