package deadline_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/longshore-dev/longshore/host/kit/deadline"
)

// limit is long enough for a busy machine to answer. The tests wait for it side by side.
const limit = time.Second

// server answers /silent with nothing, /stalled with half an answer, and everything else
// with a line, and another once it is released.
func server(t *testing.T) (client *http.Client, url string, release chan struct{}) {
	t.Helper()
	release = make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1/silent" || r.URL.Query().Get("silent") != "" {
			<-r.Context().Done()
			return
		}
		_, _ = io.WriteString(w, "first\n")
		assert.NoError(t, http.NewResponseController(w).Flush())
		select {
		case <-release:
			_, _ = io.WriteString(w, "second\n")
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(s.Close)
	config := &rest.Config{Host: s.URL, Timeout: time.Nanosecond}
	client, err := rest.HTTPClientFor(deadline.Wrap(config, limit))
	require.NoError(t, err)
	assert.Equal(t, time.Nanosecond, config.Timeout, "the configuration is copied")
	return client, s.URL, release
}

// expire waits until the limit of what was asked before has passed.
func expire(t *testing.T, client *http.Client, url string) {
	t.Helper()
	response, err := client.Get(url + "/api/v1/silent")
	if response != nil {
		require.NoError(t, response.Body.Close())
	}
	var timeout net.Error
	require.ErrorAs(t, err, &timeout)
	assert.True(t, timeout.Timeout())
	var exceeded *deadline.Error
	require.ErrorAs(t, err, &exceeded, "the error is the deadline")
	assert.Equal(t, limit, exceeded.Limit)
}

func TestARequestWithoutAResponseEnds(t *testing.T) {
	t.Parallel()
	client, url, _ := server(t)
	for _, path := range []string{"/api/v1/silent", "/api/v1/pods?watch=true&silent=1", "/api/v1/namespaces/shop/pods/web/log?follow=true&silent=1"} {
		response, err := client.Get(url + path)
		if response != nil {
			require.NoError(t, response.Body.Close())
		}
		var exceeded *deadline.Error
		assert.ErrorAs(t, err, &exceeded, path)
	}
}

func TestAStalledResponseEnds(t *testing.T) {
	t.Parallel()
	client, url, _ := server(t)
	response, err := client.Get(url + "/api/v1/pods")
	require.NoError(t, err)
	_, err = io.ReadAll(response.Body)
	var exceeded *deadline.Error
	require.ErrorAs(t, err, &exceeded)
	require.NoError(t, response.Body.Close())
}

func TestStreamsAndTunnelsAreNotLimited(t *testing.T) {
	t.Parallel()
	for name, path := range map[string]string{
		"a watch":              "/api/v1/pods?watch=true",
		"a watch, by number":   "/apis/offloading.liqo.io/v1beta1/shadowpods?watch=1",
		"a log":                "/api/v1/namespaces/shop/pods/web/log?follow=true",
		"exec":                 "/api/v1/namespaces/shop/pods/web/exec",
		"attach":               "/api/v1/namespaces/shop/pods/web/attach",
		"port-forward":         "/api/v1/namespaces/shop/pods/web/portforward",
		"a path with a prefix": "/k8s/clusters/c-1/api/v1/namespaces/shop/pods/web/exec",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, url, release := server(t)
			response, err := client.Get(url + path)
			require.NoError(t, err)
			lines := bufio.NewScanner(response.Body)
			require.True(t, lines.Scan())
			expire(t, client, url)
			close(release)
			require.True(t, lines.Scan(), "%v", lines.Err())
			assert.Equal(t, "second", lines.Text())
			require.NoError(t, response.Body.Close())
		})
	}
}

func TestNamesOfObjectsAreNotSubresources(t *testing.T) {
	t.Parallel()
	client, url, _ := server(t)
	response, err := client.Get(url + "/api/v1/namespaces/shop/configmaps/exec")
	require.NoError(t, err)
	_, err = io.ReadAll(response.Body)
	require.Error(t, err)
	require.NoError(t, response.Body.Close())
}

func TestStreamsAreNotCompressed(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := io.WriteString(w, r.Header.Get("Accept-Encoding"))
		assert.NoError(t, err)
	}))
	t.Cleanup(s.Close)
	client, err := rest.HTTPClientFor(deadline.Wrap(&rest.Config{Host: s.URL}, time.Minute))
	require.NoError(t, err)
	for path, want := range map[string]string{
		"/api/v1/pods":            "gzip",
		"/api/v1/pods?watch=true": "identity",
		"/api/v1/namespaces/shop/pods/web/log?follow=true": "identity",
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+path, http.NoBody)
		require.NoError(t, err)
		response, err := client.Do(request)
		require.NoError(t, err)
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		assert.Equal(t, want, string(body), path)
		assert.Empty(t, request.Header, "the request of the caller is not changed")
	}
}
