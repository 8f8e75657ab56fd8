package remotecluster

import (
	"fmt"
	"io"
	"net/http"

	"k8s.io/client-go/rest"
)

// MaxResponse limits a response of a provider to a process that other providers depend on, in
// bytes: 16,000 ShadowPods of 4 KiB are fewer. Watches count from their beginning; clients continue one
// that ends.
const MaxResponse = 64 << 20

// TooLargeError is returned by the reader of a response that exceeds its limit.
type TooLargeError struct {
	// Limit is in bytes.
	Limit int64
}

// Error implements error.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the answer is larger than %d MiB", e.Limit>>20)
}

// LimitResponses returns a copy of a client configuration whose responses end with a
// [TooLargeError] after limit bytes: a provider could send without end. Compressed responses count
// as they are read, without compression.
func LimitResponses(config *rest.Config, limit int64) *rest.Config {
	limited := rest.CopyConfig(config)
	limited.Wrap(func(next http.RoundTripper) http.RoundTripper { return &limiter{next: next, limit: limit} })
	return limited
}

type limiter struct {
	next  http.RoundTripper
	limit int64
}

// WrappedRoundTripper implements net.RoundTripperWrapper: client-go looks for the TLS
// configuration of the wrapped transport.
func (l *limiter) WrappedRoundTripper() http.RoundTripper { return l.next }

// RoundTrip implements http.RoundTripper.
func (l *limiter) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := l.next.RoundTrip(request)
	if err == nil {
		response.Body = &limitedBody{ReadCloser: response.Body, limit: l.limit, left: l.limit}
	}
	return response, err //nolint:wrapcheck // Passed on as it is.
}

// limitedBody is the body of a response of which left bytes may be read.
type limitedBody struct {
	io.ReadCloser
	limit, left int64
}

// Read implements io.Reader.
func (b *limitedBody) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, &TooLargeError{Limit: b.limit}
	}
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	b.left -= int64(n)
	if b.left < 0 {
		return n - 1, &TooLargeError{Limit: b.limit}
	}
	return n, err //nolint:wrapcheck // Passed on as it is.
}
