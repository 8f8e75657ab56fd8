package faultproxy_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/longshore-dev/longshore/conformance/testplane/faultproxy"
)

// servingCert returns a self-signed certificate for loopback.
func servingCert(t *testing.T) (certPEM, keyPEM []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
}

// apiServer counts the requests that reach it, and knows one user.
type apiServer struct{ seen atomic.Int64 }

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.seen.Add(1)
	if r.Header.Get("Authorization") != "Bearer secret" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	_, _ = io.WriteString(w, "begun")
	if r.URL.Query().Get("watch") != "" {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
}

func startRequests(t *testing.T) (*faultproxy.Requests, *apiServer) {
	t.Helper()
	api := &apiServer{}
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	certPEM, keyPEM := servingCert(t)
	proxy, err := faultproxy.StartRequests(&rest.Config{Host: server.URL, BearerToken: "secret"}, certPEM, keyPEM)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, proxy.Close()) })
	return proxy, api
}

func ask(ctx context.Context, t *testing.T, url string) (*http.Response, error) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{
		ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}}
	t.Cleanup(client.CloseIdleConnections)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	return client.Do(request)
}

func everything(*http.Request) bool { return true }

func TestARequestMeetsTheFaultThatIsSet(t *testing.T) {
	cases := map[string]struct {
		fault    faultproxy.RequestFault
		code     int // 0: no answer
		timesOut bool
		reaches  int64
	}{
		"none":                                      {fault: faultproxy.Answered, code: http.StatusOK, reaches: 1},
		"the connection is lost":                    {fault: faultproxy.Aborted},
		"no answer, and nothing happens":            {fault: faultproxy.Silent, timesOut: true},
		"no answer, and the request happens":        {fault: faultproxy.Unanswered, timesOut: true, reaches: 1},
		"the API server is busy":                    {fault: faultproxy.TooManyRequests, code: http.StatusTooManyRequests},
		"the resource version is not kept any more": {fault: faultproxy.Gone, code: http.StatusGone},
		"the API server fails":                      {fault: faultproxy.InternalError, code: http.StatusInternalServerError},
		"the API server shuts down":                 {fault: faultproxy.Unavailable, code: http.StatusServiceUnavailable},
		"the object has changed":                    {fault: faultproxy.Conflict, code: http.StatusConflict},
		"the request happens, and times out":        {fault: faultproxy.TimedOut, code: http.StatusGatewayTimeout, reaches: 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			proxy, api := startRequests(t)
			proxy.Break(c.fault, everything)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if c.timesOut {
				// The silence begins when the request has arrived, however long that takes.
				go func() {
					defer cancel()
					assert.Eventually(t, func() bool { return proxy.Broken() == 1 }, patience, time.Millisecond)
					<-time.After(silence)
				}()
			}
			response, err := ask(ctx, t, proxy.URL()+"/api")
			if c.code == 0 {
				require.Error(t, err)
				assert.Equal(t, c.timesOut, ctx.Err() != nil)
			} else {
				require.NoError(t, err)
				defer response.Body.Close()
				assert.Equal(t, c.code, response.StatusCode)
			}
			assert.Eventually(t, func() bool { return api.seen.Load() == c.reaches }, patience, time.Millisecond)
			if c.fault != faultproxy.Answered {
				assert.Equal(t, 1, proxy.Broken())
			}
		})
	}
}

func TestOnlyRequestsThatMatchMeetTheFault(t *testing.T) {
	proxy, _ := startRequests(t)
	proxy.Break(faultproxy.Gone, func(r *http.Request) bool { return r.URL.Path == "/broken" })
	for path, code := range map[string]int{"/broken": http.StatusGone, "/whole": http.StatusOK} {
		response, err := ask(t.Context(), t, proxy.URL()+path)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		assert.Equal(t, code, response.StatusCode, path)
	}
}

func TestEachRequestMeetsWhatIsChosenForIt(t *testing.T) {
	proxy, api := startRequests(t)
	proxy.Disturb(func(r *http.Request) faultproxy.Choice {
		switch r.URL.Path {
		case "/late":
			return faultproxy.Choice{Delay: time.Millisecond}
		case "/late-and-broken":
			return faultproxy.Choice{Fault: faultproxy.Conflict, Delay: time.Millisecond}
		case "/held":
			return faultproxy.Choice{Delay: time.Hour}
		}
		return faultproxy.Choice{}
	})
	for path, code := range map[string]int{"/late": http.StatusOK, "/late-and-broken": http.StatusConflict, "/whole": http.StatusOK} {
		response, err := ask(t.Context(), t, proxy.URL()+path)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		assert.Equal(t, code, response.StatusCode, path)
	}
	assert.Equal(t, 1, proxy.Broken())
	assert.EqualValues(t, 2, api.seen.Load())
	limited, cancel := context.WithTimeout(t.Context(), silence)
	defer cancel()
	_, err := ask(limited, t, proxy.URL()+"/held")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.EqualValues(t, 2, api.seen.Load(), "the API server does not see a request during its delay")
}

func TestAWatchThatMatchesEndsWhenTheFaultIsSet(t *testing.T) {
	cases := map[string]struct {
		fault faultproxy.RequestFault
		want  require.ErrorAssertionFunc
	}{
		"without an answer, it is aborted": {fault: faultproxy.Silent, want: require.Error},
		"with an answer, it ends in order": {fault: faultproxy.Gone, want: require.NoError},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			proxy, _ := startRequests(t)
			response, err := ask(t.Context(), t, proxy.URL()+"/api?watch=true")
			require.NoError(t, err)
			defer response.Body.Close()
			begun := make([]byte, len("begun"))
			_, err = io.ReadFull(response.Body, begun)
			require.NoError(t, err)
			proxy.Break(c.fault, everything)
			_, err = io.ReadAll(response.Body)
			c.want(t, err)
		})
	}
}

func TestHealEndsRequestsThatAreHeld(t *testing.T) {
	proxy, api := startRequests(t)
	proxy.Break(faultproxy.Silent, everything)
	ended := make(chan error, 1)
	go func() {
		_, err := ask(t.Context(), t, proxy.URL()+"/api")
		ended <- err
	}()
	require.Eventually(t, func() bool { return proxy.Broken() == 1 }, patience, time.Millisecond)
	proxy.Heal()
	require.Error(t, <-ended)
	assert.Zero(t, api.seen.Load())
	response, err := ask(t.Context(), t, proxy.URL()+"/api")
	require.NoError(t, err)
	defer response.Body.Close()
	assert.Equal(t, http.StatusOK, response.StatusCode)
}
