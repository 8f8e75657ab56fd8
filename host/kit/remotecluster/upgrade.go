package remotecluster

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/httpstream"                     //nolint:staticcheck // client-go 0.37.0 takes these types.
	httpstreamspdy "k8s.io/apimachinery/pkg/util/httpstream/spdy" //nolint:staticcheck // client-go 0.37.0 takes these types.
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"

	"github.com/longshore-dev/longshore/host/kit/deadline"
)

const (
	// maxHandshake limits the answer to a request for exec, attach or port-forward before the streams begin.
	maxHandshake = 64 << 10
	// maxStreamError limits the error with which such a stream ends, which is read whole.
	maxStreamError = 64 << 10
	// pingPeriod is client-go's.
	pingPeriod = 5 * time.Second
	// closeTimeout is how long a connection lasts after its user has closed it.
	closeTimeout = time.Second
)

// Executor returns an executor for the URL of exec or attach in another cluster. config is one of [Guard].
//
// client-go's own reads the answer before the streams, and the error behind them, without a limit, and
// waits for the answer without end.
func Executor(config *rest.Config, address *url.URL) (remotecommand.Executor, error) {
	transport, upgrader, err := upgrade(config)
	if err != nil {
		return nil, err
	}
	executor, err := remotecommand.NewSPDYExecutorForTransports(transport, upgrader, http.MethodPost, address)
	if err != nil {
		return nil, fmt.Errorf("preparing the connection: %w", err)
	}
	return executor, nil
}

// Dial opens a connection for the URL of port-forward in another cluster. config is one of [Guard].
func Dial(ctx context.Context, config *rest.Config, address *url.URL, protocol string) (httpstream.Connection, error) {
	transport, upgrader, err := upgrade(config)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address.String(), http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("preparing the request: %w", err)
	}
	connection, _, err := spdy.Negotiate(upgrader, &http.Client{Transport: transport}, request, protocol)
	return connection, err //nolint:wrapcheck // The caller says what failed.
}

func upgrade(config *rest.Config) (http.RoundTripper, *upgrader, error) {
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the certificates: %w", err)
	}
	proxy := http.ProxyFromEnvironment
	if config.Proxy != nil {
		proxy = config.Proxy
	}
	dialer, err := httpstreamspdy.NewRoundTripperWithConfig(httpstreamspdy.RoundTripperConfig{TLS: tlsConfig, Proxier: proxy})
	if err != nil {
		return nil, nil, fmt.Errorf("preparing the connection: %w", err)
	}
	u := &upgrader{SpdyRoundTripper: dialer}
	transport, err := rest.HTTPWrappersForConfig(config, u)
	if err != nil {
		return nil, nil, fmt.Errorf("preparing the connection: %w", err)
	}
	return transport, u, nil
}

// upgrader makes one connection, as SpdyRoundTripper does, with limits.
type upgrader struct {
	*httpstreamspdy.SpdyRoundTripper

	connection net.Conn
}

// RoundTrip implements http.RoundTripper. The connection is closed with the body of a response that does not
// upgrade it.
func (u *upgrader) RoundTrip(request *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeoutCause(request.Context(), deadline.Default, &deadline.Error{Limit: deadline.Default})
	defer cancel()
	request = request.Clone(ctx)
	request.Header.Set(httpstream.HeaderConnection, httpstream.HeaderUpgrade)
	request.Header.Set(httpstream.HeaderUpgrade, httpstreamspdy.HeaderSpdy31)
	connection, err := u.Dial(request)
	if err != nil {
		return nil, orCause(ctx, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = connection.Close() })
	defer stop()
	limited := &limitedBody{ReadCloser: connection, limit: maxHandshake, left: maxHandshake}
	response, err := http.ReadResponse(bufio.NewReader(limited), request)
	if err != nil {
		_ = connection.Close()
		return nil, orCause(ctx, err)
	}
	if response.StatusCode != http.StatusSwitchingProtocols {
		// Its end is awaited no longer than its beginning.
		content, err := io.ReadAll(response.Body)
		_ = connection.Close()
		if err != nil {
			return nil, orCause(ctx, err)
		}
		response.Body = io.NopCloser(strings.NewReader(string(content)))
		return response, nil
	}
	u.connection = connection
	return response, nil
}

func orCause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause //nolint:wrapcheck // The caller says what failed.
	}
	return err
}

// NewConnection implements spdy.Upgrader.
func (u *upgrader) NewConnection(response *http.Response) (httpstream.Connection, error) {
	has := func(key, value string) bool {
		return strings.Contains(strings.ToLower(response.Header.Get(key)), strings.ToLower(value))
	}
	if response.StatusCode != http.StatusSwitchingProtocols || !has(httpstream.HeaderConnection, httpstream.HeaderUpgrade) ||
		!has(httpstream.HeaderUpgrade, httpstreamspdy.HeaderSpdy31) {
		if u.connection != nil {
			_ = u.connection.Close()
		}
		return u.SpdyRoundTripper.NewConnection(response) //nolint:wrapcheck // It makes the error of the response.
	}
	connection, err := httpstreamspdy.NewClientConnectionWithPings(&frames{Conn: u.connection}, pingPeriod)
	if err != nil {
		return nil, fmt.Errorf("beginning the streams: %w", err)
	}
	return limitedConnection{connection, u.connection}, nil
}

// limitedConnection limits the errors of streams, and ends when its user closes it.
type limitedConnection struct {
	httpstream.Connection

	raw net.Conn
}

// Close implements httpstream.Connection. The library waits for the streams to end, and another cluster may keep
// them, and send for ever.
func (c limitedConnection) Close() error {
	time.AfterFunc(closeTimeout, func() { _ = c.raw.Close() })
	return c.Connection.Close() //nolint:wrapcheck // Passed on as it is.
}

// CreateStream implements httpstream.Connection.
func (c limitedConnection) CreateStream(headers http.Header) (httpstream.Stream, error) {
	stream, err := c.Connection.CreateStream(headers)
	if err != nil || headers.Get(corev1.StreamType) != corev1.StreamTypeError {
		return stream, err //nolint:wrapcheck // Passed on as it is.
	}
	return limitedStream{stream, &limitedBody{ReadCloser: stream, limit: maxStreamError, left: maxStreamError}}, nil
}

// limitedStream is a stream of which a part can be read.
type limitedStream struct {
	httpstream.Stream

	limited io.Reader
}

// Read implements io.Reader.
func (s limitedStream) Read(p []byte) (int, error) {
	return s.limited.Read(p) //nolint:wrapcheck // Passed on as it is.
}
