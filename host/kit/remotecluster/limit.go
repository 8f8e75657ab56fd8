package remotecluster

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"net/http"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/longshore-dev/longshore/host/kit/deadline"
)

const (
	// MaxResponse limits a response of another cluster, in bytes: 16,000 ShadowPods of 4 KiB are fewer.
	// Watches count from their beginning; clients continue one that ends.
	MaxResponse = 64 << 20
	// MaxValues limits the values of a response: the largest NamespaceMap has 20,000.
	MaxValues = 400_000
	// AnyNumber of values is not counted.
	AnyNumber = math.MaxInt
	// maxFrame limits an event of a watch without a line break, which client-go reads whole, in bytes. An API
	// server stores objects of 1.5 MiB.
	maxFrame = 4 << 20
	// maxErrorBody limits a response that is not a success, in bytes. It is a Status, or a text.
	maxErrorBody = 1 << 20
)

// smallerLimits is the key of a request's own limits.
type smallerLimits struct{}

// WithLimits returns a context for requests whose responses have smaller limits than those of their client.
// Values are counted in JSON: the client must ask for it.
func WithLimits(ctx context.Context, response int64, values int) context.Context {
	return context.WithValue(ctx, smallerLimits{}, Limits{Response: response, Values: values})
}

// TooLargeError is returned by the reader of a response that exceeds its limit.
type TooLargeError struct {
	// Limit is in bytes; zero if there are more values than Values.
	Limit  int64
	Values int
}

// Error implements error.
func (e *TooLargeError) Error() string {
	if e.Values > 0 {
		return fmt.Sprintf("the answer has more than %d values", e.Values)
	}
	if e.Limit < 1<<20 {
		return fmt.Sprintf("the answer is larger than %d KiB", e.Limit>>10)
	}
	return fmt.Sprintf("the answer is larger than %d MiB", e.Limit>>20)
}

// PagesError is the error of a list with a further page.
type PagesError struct{}

// Error implements error.
func (e *PagesError) Error() string { return "the answer has a further page, which was not asked for" }

// AskWhole has a request ask for a whole list, which is limited: pages have no end, and client-go keeps all
// of them until the last one is there. A request for one object stays: package restore makes it, and follows
// no page.
func AskWhole(options *metav1.ListOptions) {
	if options.Limit != 1 {
		options.Limit = 0
	}
}

// CheckWhole returns an error for a list with a further page that [AskWhole] did not ask for.
func CheckWhole(options *metav1.ListOptions, list runtime.Object) error {
	if accessor, err := meta.ListAccessor(list); err == nil && options.Limit == 0 && accessor.GetContinue() != "" {
		return &PagesError{}
	}
	return nil
}

// limiter ends responses with a [TooLargeError] after limit bytes: another cluster could send without
// end. Compressed responses count as they are read, without compression. Logs have no end by nature,
// and are not kept.
type limiter struct {
	next   http.RoundTripper
	limit  int64
	values int
}

// WrappedRoundTripper implements net.RoundTripperWrapper: client-go looks for the TLS
// configuration of the wrapped transport.
func (l *limiter) WrappedRoundTripper() http.RoundTripper { return l.next }

// RoundTrip implements http.RoundTripper.
func (l *limiter) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := l.next.RoundTrip(request)
	if err != nil || response.StatusCode == http.StatusSwitchingProtocols {
		return response, err //nolint:wrapcheck // Passed on as it is.
	}
	limit, values := l.limit, l.values
	if own, ok := request.Context().Value(smallerLimits{}).(Limits); ok {
		limit, values = min(limit, own.Response), min(values, own.Values)
	}
	switch {
	case response.StatusCode/100 != 2:
		limit = min(limit, maxErrorBody)
	case deadline.IsLog(request):
		return response, nil
	case deadline.IsStream(request):
		response.Body = &framedBody{ReadCloser: response.Body, left: maxFrame}
	}
	response.Body = &limitedBody{ReadCloser: response.Body, limit: limit, left: limit}
	if values != AnyNumber {
		response.Body = &countedBody{ReadCloser: response.Body, limit: values, isStream: deadline.IsStream(request)}
	}
	return response, nil
}

// countedBody is the body of a response in JSON, or of a watch, whose events are counted one by one.
type countedBody struct {
	io.ReadCloser
	limit, count        int
	isStream            bool
	isInText, isEscaped bool
}

// Read implements io.Reader.
func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	for _, c := range p[:n] {
		switch {
		case b.isEscaped:
			b.isEscaped = false
		case b.isInText:
			b.isEscaped, b.isInText = c == '\\', c != '"'
		case c == '"':
			b.isInText = true
		case c == ',', c == '{', c == '[':
			b.count++
		case c == '\n' && b.isStream:
			b.count = 0
		}
	}
	if b.count > b.limit {
		return 0, &TooLargeError{Values: b.limit}
	}
	return n, err //nolint:wrapcheck // Passed on as it is.
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

// framedBody is the body of a watch. An API server ends each event in JSON with a line break. One in
// Protocol Buffers begins with its length, which client-go limits; it has such a byte too.
type framedBody struct {
	io.ReadCloser
	left int
}

// Read implements io.Reader.
func (b *framedBody) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, &TooLargeError{Limit: maxFrame}
	}
	n, err := b.ReadCloser.Read(p)
	for rest := p[:n]; len(rest) > 0; {
		end := bytes.IndexByte(rest, '\n') + 1
		if end == 0 {
			b.left -= len(rest)
			break
		}
		if b.left -= end; b.left < 0 {
			break
		}
		b.left, rest = maxFrame, rest[end:]
	}
	if b.left < 0 {
		return 0, &TooLargeError{Limit: maxFrame}
	}
	return n, err //nolint:wrapcheck // Passed on as it is.
}
