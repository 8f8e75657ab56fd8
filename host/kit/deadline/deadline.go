// Package deadline bounds how long a request to an API server may take without cutting
// what is meant to last: watches, logs, exec, attach and port-forward.
package deadline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"k8s.io/client-go/rest"
)

// Default is how long a request may take when nothing else is asked for: the time that an
// API server gives a request by default.
const Default = time.Minute

// Wrap returns a copy of a client configuration whose requests end after limit, or after
// [Default] when limit is zero. A watch or a log may take that long to begin, and then
// lasts; exec, attach, port-forward and proxy requests are not bounded. The timeout of the
// configuration, which would cut them all, is replaced.
func Wrap(config *rest.Config, limit time.Duration) *rest.Config {
	if limit == 0 {
		limit = Default
	}
	bounded := rest.CopyConfig(config)
	bounded.Timeout = 0
	bounded.Wrap(func(next http.RoundTripper) http.RoundTripper { return &transport{next: next, limit: limit} })
	return bounded
}

// Error says that a request took too long. It is a timeout in the sense of net.Error.
type Error struct{ Limit time.Duration }

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("no answer within %s", e.Limit) }

// Timeout implements net.Error.
func (e *Error) Timeout() bool { return true }

// Temporary implements net.Error.
func (e *Error) Temporary() bool { return true }

type transport struct {
	next  http.RoundTripper
	limit time.Duration
}

// WrappedRoundTripper lets client-go find the TLS configuration below.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	if isTunnel(request) {
		return t.next.RoundTrip(request) //nolint:wrapcheck // Passed on as it is.
	}
	ctx, cancel := context.WithCancelCause(request.Context())
	timer := time.AfterFunc(t.limit, func() { cancel(&Error{Limit: t.limit}) })
	response, err := t.next.RoundTrip(request.WithContext(ctx))
	if err != nil {
		timer.Stop()
		err = because(ctx, err)
		cancel(nil)
		return response, err
	}
	if isStream(request) {
		timer.Stop()
	}
	response.Body = &body{ReadCloser: response.Body, ctx: ctx, end: func() {
		timer.Stop()
		cancel(nil)
	}}
	return response, nil
}

// body ends the deadline when it is closed.
type body struct {
	io.ReadCloser
	ctx context.Context //nolint:containedctx // that of the response
	end func()
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	return n, because(b.ctx, err)
}

// Close implements io.Closer.
func (b *body) Close() error {
	err := b.ReadCloser.Close()
	b.end()
	return err //nolint:wrapcheck // Passed on as it is.
}

// because returns the deadline in place of the error that it caused.
func because(ctx context.Context, err error) error {
	var exceeded *Error
	if err != nil && !errors.Is(err, io.EOF) && errors.As(context.Cause(ctx), &exceeded) {
		return exceeded
	}
	return err
}

// isStream reports whether the answer to a request lasts.
func isStream(request *http.Request) bool {
	query := request.URL.Query()
	isSet := func(key string) bool { value := query.Get(key); return value == "true" || value == "1" }
	return isSet("watch") || subresource(request) == "log"
}

// isTunnel reports whether the connection of a request is taken over.
func isTunnel(request *http.Request) bool {
	switch subresource(request) {
	case "exec", "attach", "portforward", "proxy":
		return true
	default:
		return request.Header.Get("Upgrade") != ""
	}
}

// subresource returns what follows /namespaces/{namespace}/{resource}/{name}/ in the path
// of a core resource, and the element after that of nodes.
func subresource(request *http.Request) string {
	_, path, found := strings.Cut(request.URL.Path, "/api/v1/")
	if !found {
		return ""
	}
	parts := strings.Split(path, "/")
	if parts[0] == "namespaces" && len(parts) > 4 {
		return parts[4]
	}
	if parts[0] == "nodes" && len(parts) > 2 {
		return parts[2]
	}
	return ""
}
