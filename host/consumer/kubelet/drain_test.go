package kubelet

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
)

// A session ends when its kubeconfig is renewed: the next server takes over the port, and a
// stream of this one goes on until its own context ends.
func TestStreamsOutliveTheirServer(t *testing.T) {
	next := make(chan string)
	provider := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for {
			select {
			case line := <-next:
				fmt.Fprintln(w, line)
				assert.NoError(t, http.NewResponseController(w).Flush())
			case <-r.Context().Done():
				return
			}
		}
	}))
	t.Cleanup(provider.Close)
	connection, err := NewProvider(providerOptions(&rest.Config{Host: provider.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}))
	require.NoError(t, err)
	ip := reserveAddress(t)
	serving := NewSelfSigned("milan", net.ParseIP(ip), time.Now)
	server, err := New(Options{
		Address: ip, Port: freePort, Pods: onePod{}, Provider: connection,
		Certificate: serving.Certificate, Guard: newGuard(t, allowAll(), noAuthorities),
	})
	require.NoError(t, err)
	streams, endStreams := context.WithCancel(t.Context())
	defer endStreams()
	ctx, end := context.WithCancel(streams)
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx, streams) }()

	address := net.JoinHostPort(ip, strconv.Itoa(freePort))
	awaitServer(t, address)
	client, err := rest.HTTPClientFor(&rest.Config{
		Host: "https://" + address, BearerToken: "good", TLSClientConfig: rest.TLSClientConfig{CAData: certificatePEM(t, serving)},
	})
	require.NoError(t, err)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address+"/containerLogs/shop/web/main?follow=true", nil)
	require.NoError(t, err)
	go func() { next <- "before" }() // The answer begins with the first line.
	response, err := client.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	require.True(t, lines.Scan(), "%v", lines.Err())
	assert.Equal(t, "before", lines.Text())

	end()
	require.NoError(t, <-ended)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
	require.NoError(t, err, "the next server listens on the same port")
	defer listener.Close()
	select {
	case next <- "after":
	case <-time.After(time.Minute):
		require.Fail(t, "the request to the provider has ended")
	}
	require.True(t, lines.Scan(), "the stream has ended: %v", lines.Err())
	assert.Equal(t, "after", lines.Text())

	endStreams()
	for lines.Scan() {
		assert.Contains(t, lines.Text(), context.Canceled.Error(), "the stream ends with its context")
	}
}
