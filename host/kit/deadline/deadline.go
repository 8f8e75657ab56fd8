// Package deadline limits the duration of requests to an API server, apart from those that are
// meant to last: watches, logs, exec, attach and port-forward.
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

// Default is the default limit. It is the default request timeout of an API server.
const Default = time.Minute

// Wrap returns a copy of a client configuration whose requests end after limit, or after
// [Default] if limit is zero. For watches and logs it limits the time until the response
// begins. Exec, attach, port-forward and proxy requests are not limited. It removes the timeout
// of the configuration, which would apply to all of them.
//
// Watches and logs are not compressed: an API server compresses a watch that begins with a list, and
// the reader of each holds 44 KiB from then on.
func Wrap(config *rest.Config, limit time.Duration) *rest.Config {
	if limit == 0 {
		limit = Default
	}
	bounded := rest.CopyConfig(config)
	bounded.Timeout = 0
	bounded.Wrap(func(next http.RoundTripper) http.RoundTripper { return &transport{next: next, limit: limit} })
	return bounded
}

// Error is returned for a request that exceeds its limit. It implements net.Error.
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

// WrappedRoundTripper implements net.RoundTripperWrapper: client-go looks for the TLS
// configuration of the wrapped transport.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	if isTunnel(request) {
		return t.next.RoundTrip(request) //nolint:wrapcheck // Passed on as it is.
	}
	ctx, cancel := context.WithCancelCause(request.Context())
	timer := time.AfterFunc(t.limit, func() { cancel(&Error{Limit: t.limit}) })
	request = request.WithContext(ctx)
	if IsStream(request) {
		request.Header = request.Header.Clone()
		request.Header.Set("Accept-Encoding", "identity")
	}
	response, err := t.next.RoundTrip(request)
	if err != nil {
		timer.Stop()
		err = replaceByDeadline(ctx, err)
		cancel(nil)
		return response, err
	}
	if IsStream(request) {
		timer.Stop()
	}
	response.Body = &body{ReadCloser: response.Body, ctx: ctx, end: func() {
		timer.Stop()
		cancel(nil)
	}}
	return response, nil
}

// body stops the deadline when it is closed.
type body struct {
	io.ReadCloser
	ctx context.Context
	end func()
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	return n, replaceByDeadline(b.ctx, err)
}

// Close implements io.Closer.
func (b *body) Close() error {
	err := b.ReadCloser.Close()
	b.end()
	return err //nolint:wrapcheck // Passed on as it is.
}

// replaceByDeadline returns the deadline error if it caused the error. A server that learns of the end of a
// request may end its answer properly before the client sees the end: io.EOF is no sign of a whole answer.
func replaceByDeadline(ctx context.Context, err error) error {
	var exceeded *Error
	if err != nil && errors.As(context.Cause(ctx), &exceeded) {
		return exceeded
	}
	return err
}

// IsStream reports whether the response to a request is a stream: a watch or a log.
func IsStream(request *http.Request) bool {
	query := request.URL.Query()
	isSet := func(key string) bool { value := query.Get(key); return value == "true" || value == "1" }
	return isSet("watch") || IsLog(request)
}

// IsLog reports whether the response to a request is the log of a container.
func IsLog(request *http.Request) bool { return subresource(request) == "log" }

// isTunnel reports whether a request hijacks its connection.
func isTunnel(request *http.Request) bool {
	switch subresource(request) {
	case "exec", "attach", "portforward", "proxy":
		return true
	default:
		return request.Header.Get("Upgrade") != ""
	}
}

// subresource returns the subresource of a namespaced core resource or a node, or "".
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
