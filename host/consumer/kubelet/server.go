// Package kubelet: Pod flow, stage 3: the HTTPS API of a kubelet for the pods that were
// accepted by a virtual node: logs, exec, attach and port-forward, passed on to their
// remote pods.
//
// Nobody is served who is not known (T27): clients show a certificate of the consumer's
// authority, as its API server does, or a token; and each request is authorized by the
// consumer as it would be by a real kubelet.
package kubelet

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	"github.com/virtual-kubelet/virtual-kubelet/node/api"
	corev1 "k8s.io/api/core/v1"
)

const (
	// streamTimeout is how long a session may be silent, as in a real kubelet. The
	// library takes the time to create a stream for the time that a forwarded port may be
	// idle and the reverse, so both are the same.
	streamTimeout = 4 * time.Hour
	headerTimeout = 30 * time.Second
	closeTimeout  = 2 * time.Second
)

// Pods tells which pods are this virtual node's, and where they are in the provider.
type Pods interface {
	// Pods lists the local pods of the virtual node. They are shared: read only.
	Pods() []*corev1.Pod
	// Remote returns the remote namespace of a local pod of this node, and false if there
	// is no such pod or its namespace is not offloaded.
	Remote(namespace, name string) (remoteNamespace string, ok bool)
}

// Options are what a [Server] needs; all are required.
type Options struct {
	// Address and Port are where it listens.
	Address string
	Port    int
	// Certificate returns the serving certificate.
	Certificate func() (*tls.Certificate, error)
	Guard       *Guard
	Pods        Pods
	Provider    *Provider
}

// Server serves the kubelet API.
type Server struct{ options Options }

// New returns a server that does not listen yet.
func New(options Options) (*Server, error) {
	if options.Certificate == nil || options.Guard == nil || options.Pods == nil || options.Provider == nil {
		return nil, errors.New("the kubelet API needs a certificate, a guard, the node's pods and the provider")
	}
	return &Server{options: options}, nil
}

// Run serves until the context ends.
func (s *Server) Run(ctx context.Context) error {
	address := net.JoinHostPort(s.options.Address, strconv.Itoa(s.options.Port))
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listening for the kubelet API (--node-ip, --listen-port): %w", err)
	}
	server := &http.Server{
		Handler: s.options.Guard.protect(s.handler()), ReadHeaderTimeout: headerTimeout,
		BaseContext: func(net.Listener) context.Context { return ctx },
		TLSConfig: &tls.Config{
			MinVersion: tls.VersionTLS12,
			// Streams need the upgrade of HTTP/1.1.
			NextProtos:         []string{"http/1.1"},
			GetConfigForClient: s.clientConfig,
			GetCertificate:     func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return s.options.Certificate() },
		},
		ErrorLog: errorLog(logr.FromContextOrDiscard(ctx)),
	}
	stop := context.AfterFunc(ctx, func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		if server.Shutdown(closing) != nil {
			// Streams that outlive their session are cut.
			_ = server.Close()
		}
	})
	defer stop()
	if err := server.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the kubelet API: %w", err)
	}
	return nil
}

// clientConfig asks clients for a certificate of the authorities as they are now. One
// that is shown must be good; whether one is needed is decided per request.
func (s *Server) clientConfig(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	authorities, err := s.options.Guard.authorities(hello.Context())
	if err != nil {
		logr.FromContextOrDiscard(hello.Context()).V(1).Info("No authority of clients is known, only tokens are accepted", "reason", err.Error())
	}
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return s.options.Certificate() },
	}
	if authorities != nil {
		config.ClientAuth, config.ClientCAs = tls.VerifyClientCertIfGiven, authorities
	}
	return config, nil
}

func (s *Server) handler() http.Handler {
	list := func(context.Context) ([]*corev1.Pod, error) { return s.options.Pods.Pods(), nil }
	remote := &remotePods{pods: s.options.Pods, provider: s.options.Provider}
	return api.PodHandler(api.PodHandlerConfig{
		GetContainerLogs:  remote.logs,
		RunInContainer:    remote.exec,
		AttachToContainer: remote.attach,
		PortForward:       remote.portForward,
		GetPods:           list, GetPodsFromKubernetes: list,
		StreamIdleTimeout: streamTimeout, StreamCreationTimeout: streamTimeout,
	}, true)
}
