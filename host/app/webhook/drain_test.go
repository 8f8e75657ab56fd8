package webhook

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"
)

const (
	patience = time.Minute
	every    = 5 * time.Millisecond
)

func TestServesForTheDelay(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(100, 0))
	d := &drain{delay: 5 * time.Second, clock: clock}
	signaled, stop := context.WithCancel(t.Context())
	serving, end := d.extend(signaled)
	defer end()
	stop()
	require.Eventually(t, clock.HasWaiters, patience, every)
	clock.Step(4 * time.Second)
	require.NoError(t, serving.Err(), "the endpoints may still name it")
	clock.Step(time.Second)
	require.Eventually(t, func() bool { return serving.Err() != nil }, patience, every)
}

func TestDoesNotWaitAfterAFailure(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(100, 0))
	d := &drain{delay: 5 * time.Second, clock: clock}
	signaled, stop := context.WithCancel(t.Context())
	serving, end := d.extend(signaled)
	stop()
	require.Eventually(t, clock.HasWaiters, patience, every)
	end()
	require.Error(t, serving.Err())
	require.Eventually(t, func() bool { return !clock.HasWaiters() }, patience, every, "the timer is stopped")

	without := &drain{clock: clock}
	serving, end = without.extend(signaled)
	defer end()
	require.Eventually(t, func() bool { return serving.Err() != nil }, patience, every, "no delay, no wait")
}

// slow serves requests as controller-runtime does, with contexts derived from ctx. Each request
// waits until it is released or its context ends.
func slow(t *testing.T, ctx context.Context, d *drain) (url string, begun chan struct{}, release chan struct{}, ended chan error) {
	t.Helper()
	begun, release, ended = make(chan struct{}), make(chan struct{}), make(chan error, 1)
	server := httptest.NewUnstartedServer(d.finish(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun <- struct{}{}
		select {
		case <-release:
			_, _ = io.WriteString(w, "answered")
		case <-r.Context().Done():
		}
		ended <- r.Context().Err()
	})))
	server.Config.BaseContext = func(net.Listener) context.Context { return ctx }
	server.Start()
	t.Cleanup(server.Close)
	return server.URL, begun, release, ended
}

func TestARequestInFlightIsCompleted(t *testing.T) {
	d := &drain{clock: clocktesting.NewFakeClock(time.Unix(100, 0))}
	signaled, stop := context.WithCancel(t.Context())
	serving, end := d.extend(signaled)
	defer end()
	url, begun, release, ended := slow(t, serving, d)
	answer := make(chan string, 1)
	go func() {
		response, err := http.Get(url)
		if err != nil {
			answer <- err.Error()
			return
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			body = []byte(err.Error())
		}
		answer <- string(body)
	}()
	<-begun
	stop()
	<-serving.Done()
	close(release)
	assert.Equal(t, "answered", <-answer)
	assert.NoError(t, <-ended)
}

func TestARequestEndsWithItsClient(t *testing.T) {
	url, begun, _, ended := slow(t, t.Context(), &drain{clock: clocktesting.NewFakeClock(time.Unix(100, 0))})
	client, leave := context.WithCancel(t.Context())
	request, err := http.NewRequestWithContext(client, http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	go func() {
		response, err := http.DefaultClient.Do(request)
		if err == nil {
			response.Body.Close()
		}
	}()
	<-begun
	leave()
	assert.ErrorIs(t, <-ended, context.Canceled)
}

func TestADrainingReplicaClosesConnections(t *testing.T) {
	d := &drain{}
	server := httptest.NewServer(d.finish(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "answered")
	})))
	t.Cleanup(server.Close)
	for _, leaving := range []bool{false, true} {
		d.isDraining.Store(leaving)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
		require.NoError(t, err)
		response, err := server.Client().Do(request)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		assert.Equal(t, leaving, response.Close, "a kept one would end under the next request")
	}
}
