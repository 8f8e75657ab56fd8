package faultproxy

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// RequestFault is what a request meets instead of the API server's answer.
type RequestFault int

const (
	// Answered lets requests through.
	Answered RequestFault = iota
	// Aborted ends a request without an answer, as when the connection is lost.
	Aborted
	// Silent takes a request and never answers; the API server does not see it.
	Silent
	// Unanswered lets the API server carry a request out, and withholds the answer.
	Unanswered
	// TooManyRequests answers 429 and asks the client to come back after a second.
	TooManyRequests
	// Gone answers 410, as an API server does that has compacted what a watch asks for.
	Gone
	// InternalError answers 500 without the API server.
	InternalError
	// Unavailable answers 503 without the API server.
	Unavailable
	// Conflict answers 409 without the API server, as if the object had changed meanwhile.
	Conflict
	// TimedOut lets the API server carry a request out, and answers 504.
	TimedOut
)

// Choice is what a request meets: a fault after a delay.
type Choice struct {
	Fault RequestFault
	Delay time.Duration
}

// Requests is an HTTPS proxy on loopback that stands between a client and an API server
// and breaks requests on demand. Other than [Proxy] it ends TLS, and asks the API server as
// one fixed user. Its methods may be called concurrently.
type Requests struct {
	server   *http.Server
	endpoint string
	done     chan error

	mu     sync.Mutex
	broken int
	// choose chooses what a request meets; it is not nil.
	choose func(*http.Request) Choice
	open   map[*request]struct{}
}

// request is one under way.
type request struct {
	*http.Request

	cancel context.CancelFunc
	// faulty is set when the request met a fault that holds it.
	faulty bool
	// ends is set when what was answered so far is to be the whole answer.
	ends bool
}

// StartRequests listens on 127.0.0.1 with a serving certificate for that address, and
// forwards to the API server of a client configuration, as its user.
func StartRequests(upstream *rest.Config, certPEM, keyPEM []byte) (*Requests, error) {
	certificate, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("reading the serving certificate of a fault proxy: %w", err)
	}
	transport, err := rest.TransportFor(upstream)
	if err != nil {
		return nil, fmt.Errorf("preparing the connection of a fault proxy: %w", err)
	}
	target, err := url.Parse(upstream.Host)
	if err != nil {
		return nil, fmt.Errorf("reading the API server's address %q: %w", upstream.Host, err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("starting a fault proxy: %w", err)
	}
	forward := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
		// The client sees a lost connection, as it does when the API server is down.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	p := &Requests{
		endpoint: listener.Addr().String(), done: make(chan error, 1),
		choose: answerAll, open: map[*request]struct{}{},
	}
	p.server = &http.Server{
		Handler:           p.handler(forward),
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
		ReadHeaderTimeout: time.Minute,
		ErrorLog:          log.New(io.Discard, "", 0),
	}
	go func() { p.done <- p.server.ServeTLS(listener, "", "") }()
	return p, nil
}

// URL is the address for a kubeconfig.
func (p *Requests) URL() string { return "https://" + p.endpoint }

// Break makes the requests that match meet a fault, from now on and in place of an earlier
// fault. Requests that an earlier fault holds are aborted, and so are matching requests that
// are under way; but watches end in order if the fault is an answer: then a client goes on
// with another watch, and after an abort it lists.
func (p *Requests) Break(fault RequestFault, matches func(*http.Request) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.broken = 0
	p.choose = func(r *http.Request) Choice {
		if matches(r) {
			return Choice{Fault: fault}
		}
		return Choice{}
	}
	for r := range p.open {
		if r.faulty || matches(r.Request) {
			r.ends = !r.faulty && (fault == TooManyRequests || fault == Gone)
			r.cancel()
		}
	}
}

// Disturb makes each request meet what is chosen for it, from now on and in place of an earlier
// fault. Calls of choose do not overlap. Requests that an earlier fault holds are aborted;
// others that are under way are not disturbed.
func (p *Requests) Disturb(choose func(*http.Request) Choice) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.broken, p.choose = 0, choose
	for r := range p.open {
		if r.faulty {
			r.cancel()
		}
	}
}

// Heal lets all requests through. Requests that the fault holds are aborted.
func (p *Requests) Heal() { p.Disturb(answerAll) }

func answerAll(*http.Request) Choice { return Choice{} }

// Broken is how many requests met a fault since Break, Disturb or Heal was called last. A delay
// is not a fault.
func (p *Requests) Broken() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.broken
}

// Close ends the proxy and all its connections.
func (p *Requests) Close() error {
	p.Heal()
	err := p.server.Close()
	if served := <-p.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	if err != nil {
		return fmt.Errorf("closing a fault proxy: %w", err)
	}
	return nil
}

// admit returns what a request meets, and keeps the request until it is removed.
func (p *Requests) admit(r *request) Choice {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open[r] = struct{}{}
	choice := p.choose(r.Request)
	if choice.Fault != Answered {
		p.broken++
	}
	r.faulty = choice.Fault != Answered || choice.Delay > 0
	return choice
}

// remove reports whether the answer ends in order, although it is not complete.
func (p *Requests) remove(r *request) (ends bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, r)
	r.cancel()
	return r.ends
}

func (p *Requests) handler(forward http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, original *http.Request) {
		ctx, cancel := context.WithCancel(original.Context())
		r := &request{Request: original.WithContext(ctx), cancel: cancel}
		defer func() {
			if p.remove(r) {
				_ = recover() // the panic that aborts the answer
			}
		}()
		choice := p.admit(r)
		wait(ctx, choice.Delay)
		switch choice.Fault {
		case Answered:
			forward.ServeHTTP(w, r.Request)
			return
		case TooManyRequests, Gone, InternalError, Unavailable, Conflict:
			answer(w, choice.Fault)
			return
		case TimedOut:
			forward.ServeHTTP(nowhere{}, r.Request)
			answer(w, choice.Fault)
			return
		case Unanswered:
			forward.ServeHTTP(nowhere{}, r.Request)
			<-ctx.Done()
		case Silent:
			<-ctx.Done()
		case Aborted:
		}
		panic(http.ErrAbortHandler)
	})
}

// wait returns after a delay, or when the context ends.
func wait(ctx context.Context, delay time.Duration) {
	if delay <= 0 {
		return
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// statusOf returns the error that an API server answers with.
func statusOf(fault RequestFault) *apierrors.StatusError {
	switch fault {
	case TooManyRequests:
		return apierrors.NewTooManyRequests("the server has received too many requests", 1)
	case Gone:
		return apierrors.NewResourceExpired("too old resource version")
	case Unavailable:
		return apierrors.NewServiceUnavailable("the server is shutting down")
	case Conflict:
		return apierrors.NewConflict(schema.GroupResource{}, "object", errors.New("the object has been modified"))
	case TimedOut:
		return apierrors.NewTimeoutError("etcdserver: request timed out", 0)
	default:
		return apierrors.NewInternalError(errors.New("a fault of the proxy"))
	}
}

// answer writes a Status as an API server does. A client that has gone does not read it.
func answer(w http.ResponseWriter, fault RequestFault) {
	status := statusOf(fault).Status()
	status.Kind, status.APIVersion = "Status", "v1"
	w.Header().Set("Content-Type", "application/json")
	if fault == TooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(int(status.Code))
	_ = json.NewEncoder(w).Encode(status)
}

// nowhere takes an answer that is withheld.
type nowhere struct{}

func (nowhere) Header() http.Header         { return http.Header{} }
func (nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (nowhere) WriteHeader(int)             {}
