package remotecluster

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"github.com/longshore-dev/longshore/host/kit/deadline"
	"github.com/longshore-dev/longshore/host/kit/undecodable"
)

// Limits bound what another cluster can make a client of it do. The zero value has the defaults.
type Limits struct {
	// Response bounds each response, in bytes; MaxResponse by default.
	Response int64
	// Values bounds the values of each response in JSON, and of each event of a watch; MaxValues by default.
	// Two bytes of JSON can take thousands when they are decoded. A process of one peer may take AnyNumber.
	Values int
	// Timeout bounds each request but watches, logs and streams, and the time until those begin;
	// deadline.Default by default.
	Timeout time.Duration
	// Types has the kinds that the client decodes, whose amounts are bounded (see undecodable.CheckAnswers).
	Types *runtime.Scheme
}

const (
	// maxRetryAfter limits how long an answer has the client wait before it repeats a request, in seconds: client-go
	// waits as long as the answer says, also before a watch, and no error shows that it has not begun.
	maxRetryAfter = 10
	// failuresBurst is how many answers that are errors are passed on at once, and failuresPerSecond how many more:
	// client-go repeats some requests at once, such as one whose resource version expired.
	failuresBurst     = 500
	failuresPerSecond = 20
	// maxHeader bounds the headers of each response, in bytes; Go's default is 10 MiB.
	maxHeader = 64 << 10
)

// Guard returns a copy of a configuration for a client of another cluster, which may be hostile. All
// clients of another cluster are made of one: [Config] returns them for the kubeconfigs in Secrets, and
// longshorectl makes them of the user's. hack/depcheck looks for others.
//
// Redirections are errors: an API server sends none, and another server could send the client to
// addresses of this cluster's network, and show the answers. Requests to another server than that of the
// configuration are errors too, also if a caller makes them, and so is an answer that switches the protocol
// unasked. Responses and their headers are limited (see [Limits]), those with an amount that takes long to decode are
// errors, and a request ends after a time. Warnings of the server are not logged: it could fill the log. Proxies are
// those of the configuration and the environment. Answers that are errors come at a bounded rate; requests that succeed
// do not wait for them.
func Guard(config *rest.Config, limits Limits) (*rest.Config, error) {
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("parsing the address %q: %w", config.Host, err)
	}
	if limits.Response == 0 {
		limits.Response = MaxResponse
	}
	if limits.Values == 0 {
		limits.Values = MaxValues
	}
	refuseAmounts := undecodable.CheckAnswers(limits.Types)
	failures := rate.NewLimiter(failuresPerSecond, failuresBurst)
	guarded := rest.CopyConfig(config)
	guarded.WarningHandler, guarded.WarningHandlerWithContext = rest.NoWarnings{}, nil
	guarded.Wrap(func(next http.RoundTripper) http.RoundTripper {
		limited := &limiter{next: limitHeaders(next), limit: limits.Response, values: limits.Values}
		return &guard{next: refuseAmounts(limited), server: server, failures: failures}
	})
	return deadline.Wrap(guarded, limits.Timeout), nil
}

// headers guards the limits of transports, which client-go gives to all clients of the same credentials.
var headers sync.Mutex

// plain has the connections to servers without TLS. client-go has those in common with all of a process.
var plain = sync.OnceValue(func() *http.Transport { return http.DefaultTransport.(*http.Transport).Clone() })

// limitHeaders limits the headers of the responses of a transport.
func limitHeaders(next http.RoundTripper) http.RoundTripper {
	innermost := next
	for wrapper, ok := innermost.(utilnet.RoundTripperWrapper); ok; wrapper, ok = innermost.(utilnet.RoundTripperWrapper) {
		innermost = wrapper.WrappedRoundTripper()
	}
	transport, ok := innermost.(*http.Transport)
	if !ok {
		return next
	}
	if innermost == http.DefaultTransport {
		transport, next = plain(), plain()
	}
	headers.Lock()
	defer headers.Unlock()
	if transport.MaxResponseHeaderBytes != maxHeader {
		transport.MaxResponseHeaderBytes = maxHeader
	}
	return next
}

// guard lets requests reach their server only.
type guard struct {
	next   http.RoundTripper
	server *url.URL
	// failures are the answers that are errors, of all connections.
	failures *rate.Limiter
}

// WrappedRoundTripper implements net.RoundTripperWrapper: client-go looks for the TLS
// configuration of the wrapped transport.
func (g *guard) WrappedRoundTripper() http.RoundTripper { return g.next }

// RoundTrip implements http.RoundTripper.
func (g *guard) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Scheme != g.server.Scheme || request.URL.Host != g.server.Host {
		return nil, &OtherServerError{Server: addressOf(g.server), Other: addressOf(request.URL)}
	}
	response, err := g.next.RoundTrip(request)
	if err != nil {
		return response, err //nolint:wrapcheck // Passed on as it is.
	}
	switch {
	case response.StatusCode >= http.StatusBadRequest:
		return g.pace(request, response)
	case response.StatusCode == http.StatusSwitchingProtocols && !asksToSwitch(response):
		_ = response.Body.Close()
		return nil, &SwitchedError{Server: addressOf(g.server)}
	case !isRedirection(response):
		return response, nil
	}
	_ = response.Body.Close()
	refused := &OtherServerError{Server: addressOf(g.server), Status: response.StatusCode}
	if location, err := response.Location(); err == nil {
		refused.Other = addressOf(location)
	}
	return nil, refused
}

// pace returns an answer that is an error, once it is its turn.
func (g *guard) pace(request *http.Request, response *http.Response) (*http.Response, error) {
	if after := response.Header.Get("Retry-After"); after != "" {
		if seconds, err := strconv.Atoi(after); err != nil || seconds < 0 || seconds > maxRetryAfter {
			response.Header.Set("Retry-After", strconv.Itoa(maxRetryAfter))
		}
	}
	if err := g.failures.Wait(request.Context()); err != nil {
		_ = response.Body.Close()
		return nil, fmt.Errorf("waiting after too many answers that are errors: %w", err)
	}
	return response, nil
}

// isRedirection reports whether a response asks the client to send another request. The answer to
// "changed since?" does not.
func isRedirection(response *http.Response) bool {
	return response.StatusCode/100 == 3 && response.StatusCode != http.StatusNotModified
}

// asksToSwitch reports whether the request of a response, as it was sent, asks for another protocol.
func asksToSwitch(response *http.Response) bool {
	return response.Request != nil && response.Request.Header.Get("Upgrade") != ""
}

// SwitchedError is the error of an answer that switches the protocol of a request that did not ask for it. The
// connection would belong to the client from then on: no limit and no deadline ends what comes on it.
type SwitchedError struct{ Server string }

// Error implements error.
func (e *SwitchedError) Error() string {
	return fmt.Sprintf("the answer of %q switches the protocol of a request that did not ask for it: ask the operator of that cluster what answers at its address", e.Server)
}

// OtherServerError is the error of a request that would leave the server of the kubeconfig.
type OtherServerError struct {
	// Server is the address in the kubeconfig, Other the one to which the request was to go.
	Server, Other string
	// Status is that of the redirection; zero if the request itself was for the other server.
	Status int
}

// Error implements error.
func (e *OtherServerError) Error() string {
	if e.Status == 0 {
		return fmt.Sprintf("refused a request to %q: the kubeconfig is for %q", e.Other, e.Server)
	}
	return fmt.Sprintf("refused a redirection (%d) from %q to %q: an API server sends none. "+
		"Let the kubeconfig name the API server itself; if it does, ask the operator of that cluster what answers at its address", e.Status, e.Server, e.Other)
}

// maxAddress is how much of an address is in an error: another cluster writes it.
const maxAddress = 100

// addressOf returns the scheme and the host of a URL, cut: it has no credentials and no query.
func addressOf(u *url.URL) string {
	address := (&url.URL{Scheme: u.Scheme, Host: u.Host}).String()
	return address[:min(len(address), maxAddress)]
}
