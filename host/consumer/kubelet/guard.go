package kubelet

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/singleflight"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	authenticationv1client "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationv1client "k8s.io/client-go/kubernetes/typed/authorization/v1"
)

const (
	// authorityLifetime is how long the authorities of clients are used before they are read
	// again, authorityRetry how soon that is tried again after a failure.
	authorityLifetime = 5 * time.Minute
	authorityRetry    = 10 * time.Second
	// authorityTimeout bounds one read.
	authorityTimeout = 5 * time.Second
	// allowedLifetime is how long an identity and a permission are remembered, deniedLifetime
	// how long a denial. Unknown tokens and failures are not remembered.
	allowedLifetime = time.Minute
	deniedLifetime  = 10 * time.Second
	// maxRemembered bounds how many tokens, and how many permissions, are remembered.
	maxRemembered = 1024
)

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
	// users are by token digest, permissions by user and attributes.
	users, permissions *cache.LRUExpireCache
	// pool is nil before the first read; reads joins concurrent reads.
	pool  atomic.Pointer[authorityPool]
	reads singleflight.Group
}

// authorityPool is what was read, and until when it is used.
type authorityPool struct {
	pool  *x509.CertPool
	until time.Time
}

// permission is the answer to an access review.
type permission struct {
	allowed bool
	reason  string
}

// clock makes a function a clock of the caches.
type clock func() time.Time

// Now implements cache.Clock.
func (c clock) Now() time.Time { return c() }

// NewGuard returns a Guard.
func NewGuard(options GuardOptions) (*Guard, error) {
	if options.NodeName == "" || options.Authorities == nil || options.Tokens == nil || options.Access == nil || options.Now == nil {
		return nil, errors.New("the guard of the kubelet API needs the node's name, authorities, token and access reviews, and a clock")
	}
	now := clock(func() time.Time { return options.Now() })
	return &Guard{
		options: options,
		users:   cache.NewLRUExpireCacheWithClock(maxRemembered, now), permissions: cache.NewLRUExpireCacheWithClock(maxRemembered, now),
	}, nil
}

// authorities returns the pool of authorities; the last one stays in use while a new one
// cannot be read. Concurrent calls share one read, and none waits for it longer than its
// context lasts.
func (g *Guard) authorities(ctx context.Context) (*x509.CertPool, error) {
	known := g.pool.Load()
	if known == nil {
		known = &authorityPool{}
	}
	if g.options.Now().Before(known.until) {
		return known.pool, nil
	}
	read := g.reads.DoChan("", func() (any, error) { return g.readAuthorities(context.WithoutCancel(ctx), known.pool) })
	select {
	case <-ctx.Done():
		return known.pool, fmt.Errorf("reading the authorities of clients: %w", ctx.Err())
	case result := <-read:
		if pool, ok := result.Val.(*x509.CertPool); ok && result.Err == nil {
			return pool, nil
		}
		return known.pool, result.Err
	}
}

func (g *Guard) readAuthorities(ctx context.Context, known *x509.CertPool) (*x509.CertPool, error) {
	ctx, cancel := context.WithTimeout(ctx, authorityTimeout)
	defer cancel()
	pem, err := g.options.Authorities(ctx)
	pool := x509.NewCertPool()
	if err == nil && !pool.AppendCertsFromPEM(pem) {
		err = errors.New("there is no certificate in them")
	}
	if err != nil {
		if known != nil {
			g.pool.Store(&authorityPool{pool: known, until: g.options.Now().Add(authorityRetry)})
		}
		return nil, fmt.Errorf("reading the authorities of clients: %w", err)
	}
	g.pool.Store(&authorityPool{pool: pool, until: g.options.Now().Add(authorityLifetime)})
	return pool, nil
}

// protect answers 401 to unknown clients and 403 to those without permission.
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
				user.Username, verb(r), subresource(r.URL.Path), g.options.NodeName, reason), http.StatusForbidden)
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
	digest := sha256.Sum256([]byte(token))
	if remembered, ok := g.users.Get(digest); ok {
		if user, ok := remembered.(*authenticationv1.UserInfo); ok {
			return user, nil
		}
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
	g.users.Add(digest, &review.Status.User, allowedLifetime)
	return &review.Status.User, nil
}

// authorize asks what a real kubelet asks.
func (g *Guard) authorize(r *http.Request, user *authenticationv1.UserInfo) (allowed bool, reason string, err error) {
	extra := make(map[string]authorizationv1.ExtraValue, len(user.Extra))
	for key, value := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(value)
	}
	spec := authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, Groups: user.Groups, UID: user.UID, Extra: extra,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: verb(r), Version: "v1", Resource: "nodes", Subresource: subresource(r.URL.Path), Name: g.options.NodeName,
		},
	}
	key, err := json.Marshal(spec)
	if err != nil {
		return false, "", fmt.Errorf("encoding what is asked about user %q: %w", user.Username, err)
	}
	if remembered, ok := g.permissions.Get(string(key)); ok {
		if p, ok := remembered.(permission); ok {
			return p.allowed, p.reason, nil
		}
	}
	review, err := g.options.Access.Create(r.Context(), &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		return false, "", fmt.Errorf("asking the API server what user %q may do: %w", user.Username, err)
	}
	lifetime := deniedLifetime
	if review.Status.Allowed {
		lifetime = allowedLifetime
	}
	g.permissions.Add(string(key), permission{review.Status.Allowed, review.Status.Reason}, lifetime)
	return review.Status.Allowed, review.Status.Reason, nil
}

// streams are the paths that run something in a pod or reach into it.
var streams = []string{"exec", "attach", "portForward", "run", "cri"}

// verb is the verb that a request needs. A stream needs "create" whatever its method: the
// handshake of a WebSocket is a GET, and the right to read does not include a shell.
func verb(r *http.Request) string {
	first, _, _ := strings.Cut(strings.TrimLeft(path.Clean("/"+r.URL.Path), "/"), "/")
	if slices.Contains(streams, first) {
		return "create"
	}
	switch r.Method {
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
func subresource(urlPath string) string {
	for prefix, name := range map[string]string{"/stats": "stats", "/metrics": "metrics", "/logs": "log"} {
		if urlPath == prefix || strings.HasPrefix(urlPath, prefix+"/") {
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
