// Package kubelet: Pod flow, stage 3: serves the HTTPS API of a kubelet for the pods of a
// virtual node. Logs, exec, attach and port-forward are forwarded to the remote pods; statistics
// come from the provider's metrics.k8s.io API.
//
// Clients authenticate with a certificate of the consumer's authority, as its API server does,
// or with a token, and the consumer authorizes each request, as with a real kubelet.
package kubelet

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	"github.com/virtual-kubelet/virtual-kubelet/node/api"
	corev1 "k8s.io/api/core/v1"
)

const (
	// streamTimeout is the idle timeout of a real kubelet. It is also the creation timeout,
	// because the library exchanges both for forwarded ports.
	streamTimeout = 4 * time.Hour
	headerTimeout = 30 * time.Second
	closeTimeout  = 2 * time.Second
)

// Pods are the pods of this virtual node.
type Pods interface {
	// Pods returns the local pods of the virtual node. They must not be modified.
	Pods() []*corev1.Pod
	// Remote returns the remote namespace of a local pod of this node, and false if the pod
	// does not exist or its namespace is not offloaded.
	Remote(namespace, name string) (remoteNamespace string, ok bool)
}

// Options configure a [Server]. All are required.
type Options struct {
	// Address and Port are the listener's.
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
		return nil, errors.New("composing the kubelet API: Certificate, Guard, Pods and Provider are required")
	}
	return &Server{options: options}, nil
}

// Run serves until ctx ends. The port is free when it returns. Requests that are answered at that
// time, such as `kubectl logs -f` and `kubectl exec`, go on until the context streams ends, which
// must not end before ctx.
func (s *Server) Run(ctx, streams context.Context) error {
	listener, err := s.listen(ctx)
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler: s.options.Guard.protect(s.handler()), ReadHeaderTimeout: headerTimeout,
		BaseContext: func(net.Listener) context.Context { return streams },
		TLSConfig: &tls.Config{
			MinVersion: tls.VersionTLS12,
			// Streams use the upgrade of HTTP/1.1.
			NextProtos:         []string{"http/1.1"},
			GetConfigForClient: s.clientConfig,
			GetCertificate:     func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return s.options.Certificate() },
		},
		ErrorLog: newErrorLog(logr.FromContextOrDiscard(ctx)),
	}
	stop := context.AfterFunc(ctx, func() {
		// The error says that a stream is left.
		_ = server.Shutdown(streams)
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		if server.Shutdown(closing) != nil {
			// Shutdown does not wait for streams.
			_ = server.Close()
		}
	})
	defer stop()
	if err := server.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the kubelet API: %w", err)
	}
	return nil
}

func (s *Server) listen(ctx context.Context) (net.Listener, error) {
	address := net.JoinHostPort(s.options.Address, strconv.Itoa(s.options.Port))
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening for the kubelet API (--node-ip, --listen-port): %w", err)
	}
	return listener, nil
}

// clientConfig verifies a client certificate with the current authorities if the client
// presents one. protect decides per request whether one is required.
func (s *Server) clientConfig(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	authorities, err := s.options.Guard.authorities(hello.Context())
	if err != nil {
		logr.FromContextOrDiscard(hello.Context()).V(1).Info("No certificate authority of clients is available, only tokens are accepted", "reason", err.Error())
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
	mux := http.NewServeMux()
	for _, path := range []string{"/metrics", "/metrics/cadvisor", "/metrics/probes"} {
		mux.HandleFunc("GET "+path, remote.scrape(path))
	}
	pods := api.PodHandlerConfig{
		GetContainerLogs:  remote.logs,
		RunInContainer:    remote.exec,
		AttachToContainer: remote.attach,
		GetPods:           list, GetPodsFromKubernetes: list,
		GetStatsSummary: remote.stats, GetMetricsResource: remote.resourceMetrics,
		StreamIdleTimeout: streamTimeout, StreamCreationTimeout: streamTimeout,
	}
	mux.Handle("/", api.PodHandler(pods, true))
	mux.HandleFunc("/portForward/", func(w http.ResponseWriter, r *http.Request) {
		// The library's context does not end with the user's connection.
		ctx, leave := context.WithCancel(r.Context())
		defer leave()
		own := pods
		own.PortForward = func(_ context.Context, namespace, name string, port int32, client io.ReadWriteCloser) error {
			return remote.portForward(ctx, namespace, name, port, client)
		}
		api.PodHandler(own, true).ServeHTTP(&noticingWriter{ResponseWriter: w, leave: leave}, r)
	})
	return mux
}
