package kubelet

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

var errUnavailable = errors.New("the API server is not available")

// consumer returns a cluster in which the token "good" is alice's, and alice has only the
// right to get nodes/proxy of milan-1. It stores the last access review.
func consumer(reviewed *authorizationv1.SubjectAccessReviewSpec, broken bool) *fake.Clientset {
	clientset := fake.NewClientset()
	clientset.PrependReactor("create", "tokenreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if broken {
			return true, nil, errUnavailable
		}
		review := action.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview).DeepCopy()
		review.Status.Authenticated = review.Spec.Token == "good"
		review.Status.User = authenticationv1.UserInfo{Username: "alice", Groups: []string{"people"}}
		return true, review, nil
	})
	clientset.PrependReactor("create", "subjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if broken {
			return true, nil, errUnavailable
		}
		review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).DeepCopy()
		*reviewed = review.Spec
		attributes := review.Spec.ResourceAttributes
		review.Status.Allowed = review.Spec.User == "alice" && attributes.Verb == "get" && attributes.Subresource == "proxy" && attributes.Name == "milan-1"
		return true, review, nil
	})
	return clientset
}

func newGuard(t *testing.T, clientset *fake.Clientset, authorities func(context.Context) ([]byte, error)) *Guard {
	t.Helper()
	g, err := NewGuard(GuardOptions{
		NodeName: "milan-1", Now: time.Now, Authorities: authorities,
		Tokens: clientset.AuthenticationV1().TokenReviews(), Access: clientset.AuthorizationV1().SubjectAccessReviews(),
	})
	require.NoError(t, err)
	return g
}

func noAuthorities(context.Context) ([]byte, error) { return nil, errUnavailable }

func TestGuard(t *testing.T) {
	alice := &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{{Subject: pkix.Name{CommonName: "alice", Organization: []string{"people"}}}}}}
	bob := &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{{Subject: pkix.Name{CommonName: "bob"}}}}}
	unverified := &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{Subject: pkix.Name{CommonName: "alice"}}}}
	for name, tc := range map[string]struct {
		tls          *tls.ConnectionState
		token        string
		method, path string
		broken       bool
		want         int
		wantBody     string
	}{
		"no credentials":               {nil, "", "GET", "/pods", false, 401, "is required"},
		"a certificate":                {alice, "", "GET", "/pods", false, 200, ""},
		"an unverified certificate":    {unverified, "", "GET", "/pods", false, 401, "is required"},
		"a certificate without rights": {bob, "", "GET", "/pods", false, 403, `user "bob" cannot get nodes/proxy of node "milan-1"`},
		"a token":                      {nil, "Bearer good", "GET", "/containerLogs/a/b/c", false, 200, ""},
		"an unknown token":             {nil, "Bearer bad", "GET", "/pods", false, 401, "the token is not valid"},
		"an empty token":               {nil, "Bearer ", "GET", "/pods", false, 401, "is required"},
		"another scheme":               {nil, "Basic good", "GET", "/pods", false, 401, "is required"},
		"another verb":                 {nil, "Bearer good", "POST", "/exec/a/b/c", false, 403, "cannot create nodes/proxy"},
		"a shell over WebSocket":       {nil, "Bearer good", "GET", "/exec/a/b/c", false, 403, "cannot create nodes/proxy"},
		"attaching over WebSocket":     {nil, "Bearer good", "GET", "/attach/a/b/c", false, 403, "cannot create nodes/proxy"},
		"port-forward over WebSocket":  {nil, "Bearer good", "GET", "/portForward/a/b", false, 403, "cannot create nodes/proxy"},
		"a shell with an unclean path": {nil, "Bearer good", "GET", "//exec/a/b/c", false, 403, "cannot create nodes/proxy"},
		"running a command":            {nil, "Bearer good", "GET", "/run/a/b/c", false, 403, "cannot create nodes/proxy"},
		"another subresource":          {nil, "Bearer good", "GET", "/metrics/cadvisor", false, 403, "cannot get nodes/metrics"},
		"a path with a similar prefix": {nil, "Bearer good", "GET", "/statsx", false, 200, ""},
		"no token review":              {nil, "Bearer good", "GET", "/pods", true, 401, "the API server is not available"},
		"no access review":             {alice, "", "GET", "/pods", true, 403, "the API server is not available"},
	} {
		t.Run(name, func(t *testing.T) {
			var reviewed authorizationv1.SubjectAccessReviewSpec
			g := newGuard(t, consumer(&reviewed, tc.broken), noAuthorities)
			request := httptest.NewRequestWithContext(t.Context(), tc.method, tc.path, nil)
			request.TLS = tc.tls
			request.Header.Set("Authorization", tc.token)
			response := httptest.NewRecorder()
			served := false
			g.protect(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served = true })).ServeHTTP(response, request)
			assert.Equal(t, tc.want, response.Code)
			assert.Equal(t, tc.want == http.StatusOK, served)
			assert.Contains(t, response.Body.String(), tc.wantBody)
			if served && tc.tls != nil {
				assert.Equal(t, []string{"people", "system:authenticated"}, reviewed.Groups)
			}
		})
	}
}

func TestPreviousAuthoritiesAreUsedWhileTheyCannotBeRead(t *testing.T) {
	now := time.Date(2026, 11, 21, 7, 0, 0, 0, time.UTC)
	ca := NewSelfSigned("ca", net.IPv4(127, 0, 0, 1), func() time.Time { return now })
	reads, fail := 0, false
	g := newGuard(t, fake.NewClientset(), func(context.Context) ([]byte, error) {
		reads++
		if fail {
			return nil, errUnavailable
		}
		return certificatePEM(t, ca), nil
	})
	g.options.Now = func() time.Time { return now }
	first, err := g.authorities(t.Context())
	require.NoError(t, err)
	again, err := g.authorities(t.Context())
	require.NoError(t, err)
	assert.Same(t, first, again)
	assert.Equal(t, 1, reads)
	now, fail = now.Add(authorityLifetime+time.Second), true
	kept, err := g.authorities(t.Context())
	require.ErrorIs(t, err, errUnavailable)
	assert.Same(t, first, kept)
}

func TestReviewsAreCached(t *testing.T) {
	now := time.Date(2026, 11, 21, 7, 0, 0, 0, time.UTC)
	var reviewed authorizationv1.SubjectAccessReviewSpec
	clientset := consumer(&reviewed, false)
	g, err := NewGuard(GuardOptions{
		NodeName: "milan-1", Now: func() time.Time { return now }, Authorities: noAuthorities,
		Tokens: clientset.AuthenticationV1().TokenReviews(), Access: clientset.AuthorizationV1().SubjectAccessReviews(),
	})
	require.NoError(t, err)
	send := func(token, method, path string) (status, requests int) {
		clientset.ClearActions()
		request := httptest.NewRequestWithContext(t.Context(), method, path, nil)
		request.Header.Set("Authorization", "Bearer "+token)
		response := httptest.NewRecorder()
		g.protect(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(response, request)
		return response.Code, len(clientset.Actions())
	}
	expect := func(wantStatus, wantRequests int, token, method, path string) {
		t.Helper()
		status, requests := send(token, method, path)
		assert.Equal(t, wantStatus, status)
		assert.Equal(t, wantRequests, requests)
	}
	expect(200, 2, "good", "GET", "/pods")
	expect(200, 0, "good", "GET", "/containerLogs/a/b/c")
	expect(403, 1, "good", "POST", "/exec/a/b/c")
	expect(403, 0, "good", "GET", "/exec/a/b/c")
	expect(401, 1, "bad", "GET", "/pods")
	now = now.Add(deniedLifetime + time.Second)
	expect(403, 1, "good", "POST", "/exec/a/b/c")
	expect(200, 0, "good", "GET", "/pods")
	expect(401, 1, "bad", "GET", "/pods")
	now = now.Add(allowedLifetime + time.Second)
	expect(200, 2, "good", "GET", "/pods")
}

func TestFailedReviewsAreNotCached(t *testing.T) {
	broken, reviews := true, 0
	clientset := fake.NewClientset()
	clientset.PrependReactor("create", "subjectaccessreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
		reviews++
		if broken {
			return true, nil, errUnavailable
		}
		return true, &authorizationv1.SubjectAccessReview{Status: authorizationv1.SubjectAccessReviewStatus{Allowed: true}}, nil
	})
	g := newGuard(t, clientset, noAuthorities)
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/pods", nil)
	request.TLS = &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{{Subject: pkix.Name{CommonName: "alice"}}}}}
	for _, want := range []int{http.StatusForbidden, http.StatusOK} {
		response := httptest.NewRecorder()
		g.protect(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(response, request)
		assert.Equal(t, want, response.Code)
		broken = false
	}
	assert.Equal(t, 2, reviews)
}

func TestConcurrentHandshakesShareOneRead(t *testing.T) {
	now := time.Date(2026, 11, 21, 7, 0, 0, 0, time.UTC)
	ca := NewSelfSigned("ca", net.IPv4(127, 0, 0, 1), func() time.Time { return now })
	reading, release := make(chan struct{}), make(chan struct{})
	g := newGuard(t, fake.NewClientset(), func(context.Context) ([]byte, error) {
		close(reading)
		<-release
		return certificatePEM(t, ca), nil
	})
	first := make(chan *x509.CertPool, 1)
	go func() {
		pool, _ := g.authorities(t.Context())
		first <- pool
	}()
	<-reading
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := g.authorities(ended)
	require.ErrorIs(t, err, context.Canceled, "a canceled handshake does not wait")
	close(release)
	pool := <-first
	require.NotNil(t, pool)
	cached, err := g.authorities(t.Context())
	require.NoError(t, err)
	assert.Same(t, pool, cached, "a second read would panic")
}

func TestSelfSignedCertificateIsReplacedOnItsLastDay(t *testing.T) {
	now := time.Date(2026, 11, 21, 7, 0, 0, 0, time.UTC)
	ip := net.IPv4(127, 0, 0, 9)
	s := NewSelfSigned("milan-1", ip, func() time.Time { return now })
	first, err := s.Certificate()
	require.NoError(t, err)
	assert.Equal(t, "system:node:milan-1", first.Leaf.Subject.CommonName)
	assert.Equal(t, []string{"liqo.io"}, first.Leaf.Subject.Organization)
	require.NoError(t, first.Leaf.VerifyHostname("127.0.0.9"))
	now = now.Add(selfSignedLifetime - 2*selfSignedRenewBelow)
	same, err := s.Certificate()
	require.NoError(t, err)
	assert.Same(t, first, same)
	now = now.Add(2 * selfSignedRenewBelow)
	next, err := s.Certificate()
	require.NoError(t, err)
	assert.NotSame(t, first, next)
	assert.True(t, next.Leaf.NotAfter.After(now))
}
