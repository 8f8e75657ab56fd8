package processnode

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/virtual-kubelet/virtual-kubelet/errdefs"
	"github.com/virtual-kubelet/virtual-kubelet/node/api"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
)

const (
	// followEvery is how often a followed log is looked at.
	followEvery   = 200 * time.Millisecond
	headerTimeout = 10 * time.Second
)

// serveAPI serves the part of the kubelet's API that a process node has, logs, at its
// address until stop is called. Clients show a certificate of Options.ClientCA and need
// the right to nodes/proxy, as with the kubelet. Without certificates port is 0.
func (p *provider) serveAPI() (port int32, stop func(), err error) {
	if p.options.ServingCert == nil {
		return 0, func() {}, nil
	}
	certPEM, keyPEM, err := p.options.ServingCert(p.hostIP)
	if err != nil {
		return 0, nil, fmt.Errorf("issuing the certificate of the kubelet API: %w", err)
	}
	certificate, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return 0, nil, fmt.Errorf("reading the certificate of the kubelet API: %w", err)
	}
	clients := x509.NewCertPool()
	if !clients.AppendCertsFromPEM(p.options.ClientCA) {
		return 0, nil, errors.New("option ClientCA holds no PEM certificate")
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(p.hostIP, "0"))
	if err != nil {
		return 0, nil, fmt.Errorf("listening for the kubelet API: %w", err)
	}
	handler := api.PodHandler(api.PodHandlerConfig{GetContainerLogs: p.containerLogs, GetPods: p.GetPods, GetPodsFromKubernetes: p.GetPods}, false)
	server := &http.Server{
		Handler: p.authorized(handler), ReadHeaderTimeout: headerTimeout,
		ErrorLog:  log.New(io.Discard, "", 0),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12},
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		// It ends when stop closes it.
		_ = server.ServeTLS(listener, "", "")
	}()
	address, _ := listener.Addr().(*net.TCPAddr)
	return int32(address.Port), func() {
		_ = server.Close()
		<-served
	}, nil
}

func (p *provider) authorized(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who := r.TLS.PeerCertificates[0].Subject
		review, err := p.client.AuthorizationV1().SubjectAccessReviews().Create(r.Context(), &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{User: who.CommonName, Groups: who.Organization, ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: "get", Version: "v1", Resource: "nodes", Subresource: "proxy", Name: p.options.Name,
			}},
		}, metav1.CreateOptions{})
		switch {
		case err != nil:
			http.Error(w, fmt.Sprintf("asking the API server about %q: %v", who.CommonName, err), http.StatusInternalServerError)
		case !review.Status.Allowed:
			http.Error(w, fmt.Sprintf("user %q may not get nodes/proxy of %q", who.CommonName, p.options.Name), http.StatusForbidden)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// containerLogs implements api.ContainerLogsHandlerFunc over the log files.
func (p *provider) containerLogs(ctx context.Context, namespace, name, container string, opts api.ContainerLogOpts) (io.ReadCloser, error) {
	w := p.find(namespace, name)
	if w == nil {
		return nil, errdefs.NotFoundf("pod %s does not run here", key(namespace, name))
	}
	if _, known := w.running(container); !known {
		return nil, errdefs.NotFoundf("pod %s has no container %q", key(namespace, name), container)
	}
	if opts.Timestamps || opts.SinceSeconds > 0 || !opts.SinceTime.IsZero() {
		return nil, errdefs.InvalidInput("the process node keeps output as it comes, without times: ask without --since and --timestamps")
	}
	path := p.options.logFile(namespace, name, container)
	if opts.Previous {
		path += ".1"
	}
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errdefs.NotFoundf("container %q of pod %s has no log yet", container, key(namespace, name))
	}
	if err != nil {
		return nil, fmt.Errorf("opening the log: %w", err)
	}
	if err := skipToTail(file, opts.Tail); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	out := &logReader{Reader: file, file: file}
	if opts.Follow && !opts.Previous {
		out.Reader = &follower{ctx: ctx, file: file, clock: p.options.Clock, live: func() bool { running, _ := w.running(container); return running }}
	}
	if opts.LimitBytes > 0 {
		out.Reader = io.LimitReader(out.Reader, int64(opts.LimitBytes))
	}
	return out, nil
}

type logReader struct {
	io.Reader
	file *os.File
}

func (l *logReader) Close() error {
	if err := l.file.Close(); err != nil {
		return fmt.Errorf("closing the log: %w", err)
	}
	return nil
}

// skipToTail leaves the last lines to be read; 0 leaves all.
func skipToTail(file *os.File, lines int) error {
	if lines <= 0 {
		return nil
	}
	content, err := io.ReadAll(file)
	if err != nil {
		return fmt.Errorf("reading the log: %w", err)
	}
	if _, err := file.Seek(int64(tailStart(content, lines)), io.SeekStart); err != nil {
		return fmt.Errorf("reading the log: %w", err)
	}
	return nil
}

// tailStart is where the last lines begin.
func tailStart(content []byte, lines int) int {
	end := len(content)
	if strings.HasSuffix(string(content), "\n") {
		end--
	}
	for range lines {
		end = bytes.LastIndexByte(content[:max(end, 0)], '\n')
		if end < 0 {
			return 0
		}
	}
	return end + 1
}

// follower reads a log as it grows, until the process has ended and all is read.
type follower struct {
	ctx   context.Context // It is the request's, as the reader is.
	file  *os.File
	clock clock.WithTicker
	live  func() bool
}

func (f *follower) Read(buffer []byte) (int, error) {
	for {
		live := f.live()
		n, err := f.file.Read(buffer)
		if n > 0 || (err != nil && !errors.Is(err, io.EOF)) || !live {
			return n, err //nolint:wrapcheck // A reader: io.EOF must stay io.EOF.
		}
		timer := f.clock.NewTimer(followEvery)
		select {
		case <-f.ctx.Done():
			timer.Stop()
			return 0, io.EOF
		case <-timer.C():
		}
	}
}
