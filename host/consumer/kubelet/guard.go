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
	// authorityLifetime is how long the certificate authorities of clients are cached, and
	// authorityRetry how soon a failed read is retried.
	authorityLifetime = 5 * time.Minute
	authorityRetry    = 10 * time.Second
	// authorityTimeout bounds one read.
	authorityTimeout = 5 * time.Second
	// allowedLifetime is how long an identity and a permission are cached, deniedLifetime how
	// long a denial. Unknown tokens and failures are not cached.
	allowedLifetime = time.Minute
	deniedLifetime  = 10 * time.Second
	// maxCached bounds the number of cached tokens and of cached permissions.
	maxCached = 1024
)

// GuardOptions configure a [Guard]. All are required.
type GuardOptions struct {
	NodeName string
	// Authorities returns the PEM certificates that verify clients, such as the consumer's API
	// server.
	Authorities func(context.Context) ([]byte, error)
	Tokens      authenticationv1client.TokenReviewInterface
	Access      authorizationv1client.SubjectAccessReviewInterface
	Now         func() time.Time
}

// Guard authenticates and authorizes clients of the kubelet API. It is safe for concurrent
// use.
type Guard struct {
	options GuardOptions
	// users have token digests as keys, permissions users with attributes.
	users, permissions *cache.LRUExpireCache
	// pool is nil before the first read; reads merges concurrent reads.
	pool  atomic.Pointer[authorityPool]
	reads singleflight.Group
}

// authorityPool is a cached pool and its expiry.
type authorityPool struct {
	pool  *x509.CertPool
	until time.Time
}

// permission is the result of an access review.
type permission struct {
	allowed bool
	reason  string
}

// clock is a cache.Clock.
type clock func() time.Time

// Now implements cache.Clock.
func (c clock) Now() time.Time { return c() }

// NewGuard returns a Guard.
func NewGuard(options GuardOptions) (*Guard, error) {
	if options.NodeName == "" || options.Authorities == nil || options.Tokens == nil || options.Access == nil || options.Now == nil {
		return nil, errors.New("composing the guard of the kubelet API: NodeName, Authorities, Tokens, Access and Now are required")
	}
	now := clock(func() time.Time { return options.Now() })
	return &Guard{
		options: options,
		users:   cache.NewLRUExpireCacheWithClock(maxCached, now), permissions: cache.NewLRUExpireCacheWithClock(maxCached, now),
	}, nil
}

// authorities returns the pool of certificate authorities. The previous pool is returned with
// an error while a new one cannot be read. Concurrent calls share one read; each waits at most
// until its own context ends.
func (g *Guard) authorities(ctx context.Context) (*x509.CertPool, error) {
	cached := g.pool.Load()
	if cached == nil {
		cached = &authorityPool{}
	}
	if g.options.Now().Before(cached.until) {
		return cached.pool, nil
	}
	read := g.reads.DoChan("", func() (any, error) { return g.readAuthorities(context.WithoutCancel(ctx), cached.pool) })
	select {
	case <-ctx.Done():
		return cached.pool, fmt.Errorf("reading the certificate authorities of clients: %w", ctx.Err())
	case result := <-read:
		if pool, ok := result.Val.(*x509.CertPool); ok && result.Err == nil {
			return pool, nil
		}
		return cached.pool, result.Err
	}
}

func (g *Guard) readAuthorities(ctx context.Context, previous *x509.CertPool) (*x509.CertPool, error) {
	ctx, cancel := context.WithTimeout(ctx, authorityTimeout)
	defer cancel()
	pem, err := g.options.Authorities(ctx)
	pool := x509.NewCertPool()
	if err == nil && !pool.AppendCertsFromPEM(pem) {
		err = errors.New("no PEM certificate found")
	}
	if err != nil {
		if previous != nil {
			g.pool.Store(&authorityPool{pool: previous, until: g.options.Now().Add(authorityRetry)})
		}
		return nil, fmt.Errorf("reading the certificate authorities of clients: %w", err)
	}
	g.pool.Store(&authorityPool{pool: pool, until: g.options.Now().Add(authorityLifetime)})
	return pool, nil
}

// protect responds with 401 to unknown clients and with 403 to clients without permission.
func (g *Guard) protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, err := g.identify(r)
		if err == nil && user == nil {
			err = errors.New("a client certificate of the cluster or a token is required")
		}
		if err != nil {
			http.Error(w, "Unauthorized: "+err.Error(), http.StatusUnauthorized)
			return
		}
		allowed, reason, err := g.authorize(r, user)
		switch {
		case err != nil:
			logr.FromContextOrDiscard(r.Context()).Error(err, "Authorizing a request to the kubelet API failed")
			http.Error(w, "Forbidden: "+err.Error(), http.StatusForbidden)
		case !allowed:
			http.Error(w, fmt.Sprintf("Forbidden: user %q cannot %s nodes/%s of node %q: %s",
				user.Username, requiredVerb(r), requiredSubresource(r.URL.Path), g.options.NodeName, reason), http.StatusForbidden)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// identify returns the user of a request, and nil without credentials. Certificates were
// verified in the handshake.
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
	if cached, ok := g.users.Get(digest); ok {
		if user, ok := cached.(*authenticationv1.UserInfo); ok {
			return user, nil
		}
	}
	review, err := g.options.Tokens.Create(r.Context(), &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token},
	}, metav1.CreateOptions{})
	switch {
	case err != nil:
		return nil, fmt.Errorf("reviewing the token: %w", err)
	case !review.Status.Authenticated:
		return nil, errors.New("the token is not valid")
	}
	g.users.Add(digest, &review.Status.User, allowedLifetime)
	return &review.Status.User, nil
}

// authorize reviews the same access as a real kubelet.
func (g *Guard) authorize(r *http.Request, user *authenticationv1.UserInfo) (allowed bool, reason string, err error) {
	extra := make(map[string]authorizationv1.ExtraValue, len(user.Extra))
	for key, value := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(value)
	}
	spec := authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, Groups: user.Groups, UID: user.UID, Extra: extra,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: requiredVerb(r), Version: "v1", Resource: "nodes", Subresource: requiredSubresource(r.URL.Path), Name: g.options.NodeName,
		},
	}
	key, err := json.Marshal(spec)
	if err != nil {
		return false, "", fmt.Errorf("encoding the access review of user %q: %w", user.Username, err)
	}
	if cached, ok := g.permissions.Get(string(key)); ok {
		if p, ok := cached.(permission); ok {
			return p.allowed, p.reason, nil
		}
	}
	review, err := g.options.Access.Create(r.Context(), &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		return false, "", fmt.Errorf("reviewing the access of user %q: %w", user.Username, err)
	}
	lifetime := deniedLifetime
	if review.Status.Allowed {
		lifetime = allowedLifetime
	}
	g.permissions.Add(string(key), permission{review.Status.Allowed, review.Status.Reason}, lifetime)
	return review.Status.Allowed, review.Status.Reason, nil
}

// streamPaths are the first segments of paths that run commands in a pod or connect to it.
var streamPaths = []string{"exec", "attach", "portForward", "run", "cri"}

// requiredVerb returns the verb that a request requires. A stream requires "create" with any
// method: the handshake of a WebSocket is a GET, and the right to read does not include a
// shell.
func requiredVerb(r *http.Request) string {
	first, _, _ := strings.Cut(strings.TrimLeft(path.Clean("/"+r.URL.Path), "/"), "/")
	if slices.Contains(streamPaths, first) {
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

// requiredSubresource maps a path as a real kubelet does.
func requiredSubresource(urlPath string) string {
	for prefix, name := range map[string]string{"/stats": "stats", "/metrics": "metrics", "/logs": "log"} {
		if urlPath == prefix || strings.HasPrefix(urlPath, prefix+"/") {
			return name
		}
	}
	return "proxy"
}

// newErrorLog returns the log of the HTTP server's connection errors.
func newErrorLog(l logr.Logger) *log.Logger { return log.New(logWriter{l}, "", 0) }

type logWriter struct{ log logr.Logger }

// Write implements io.Writer.
func (w logWriter) Write(line []byte) (int, error) {
	w.log.V(1).Info("Connection to the kubelet API failed", "reason", strings.TrimSpace(string(line)))
	return len(line), nil
}
