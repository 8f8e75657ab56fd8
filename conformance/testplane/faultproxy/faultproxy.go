// Package faultproxy is a TCP proxy on loopback that stands between a client and an API
// server, and fails or is slow on demand, for tests of lost and long links. TLS passes through it, so it
// counts connections and bytes; requests are counted from the API server's audit log.
package faultproxy

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// pieceSize is the most bytes of a read, and queueLength is the most reads that are under way in
	// one direction of a connection: 8 MiB.
	pieceSize   = 32 << 10
	queueLength = 256
)

// Fault is what is wrong with the link.
type Fault int

const (
	// None lets everything through.
	None Fault = iota
	// Reset resets connections, old and new ones, as when the peer's host refuses.
	Reset
	// Blackhole drops all bytes silently, as when packets are lost.
	// Bytes that were under way arrive after Heal.
	Blackhole
)

// Proxy forwards connections from its own address to a target. Its methods may be
// called concurrently.
type Proxy struct {
	listener net.Listener
	target   string

	connections, bytes atomic.Int64
	// oneWay is a time.Duration.
	oneWay atomic.Int64

	mu      sync.Mutex
	fault   Fault
	changed chan struct{} // closed and replaced with each change of fault
	open    map[*link]struct{}
	closed  bool
	running sync.WaitGroup
}

// Start listens on 127.0.0.1, on a port that the kernel gives, and forwards to target
// (host:port). The certificates of plane's API servers are valid for that address.
func Start(target string) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("starting a fault proxy: %w", err)
	}
	p := &Proxy{listener: listener, target: target, changed: make(chan struct{}), open: map[*link]struct{}{}}
	p.running.Go(p.serve)
	return p, nil
}

// Endpoint is host:port to connect to.
func (p *Proxy) Endpoint() string { return p.listener.Addr().String() }

// URL is Endpoint for a kubeconfig.
func (p *Proxy) URL() string { return "https://" + p.Endpoint() }

// Connections is how many connections were accepted so far.
func (p *Proxy) Connections() int64 { return p.connections.Load() }

// Bytes is how many bytes came through so far, both ways together.
func (p *Proxy) Bytes() int64 { return p.bytes.Load() }

// SetRoundTrip makes all bytes arrive later, each way by half of d. It holds for bytes that are sent
// from now on. The time to connect and the bandwidth do not change.
func (p *Proxy) SetRoundTrip(d time.Duration) { p.oneWay.Store(int64(d / 2)) }

// Cut breaks the link.
func (p *Proxy) Cut(fault Fault) { p.set(fault) }

// Heal repairs the link.
func (p *Proxy) Heal() { p.set(None) }

// Close ends the proxy and all its connections.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	p.resetAll()
	p.mu.Unlock()
	err := p.listener.Close()
	p.running.Wait()
	if err != nil {
		return fmt.Errorf("closing a fault proxy: %w", err)
	}
	return nil
}

func (p *Proxy) set(fault Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = fault
	close(p.changed)
	p.changed = make(chan struct{})
	if fault == Reset {
		p.resetAll()
	}
}

// resetAll needs the lock.
func (p *Proxy) resetAll() {
	for l := range p.open {
		l.reset()
	}
}

func (p *Proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // out of file descriptors, or reset before it was accepted
		}
		p.connections.Add(1)
		l := &link{client: client, done: make(chan struct{})}
		if !p.add(l) {
			l.reset()
			continue
		}
		p.running.Go(func() {
			defer p.remove(l)
			p.forward(l)
		})
	}
}

func (p *Proxy) add(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.fault == Reset {
		return false
	}
	p.open[l] = struct{}{}
	return true
}

func (p *Proxy) remove(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l.close(false)
	delete(p.open, l)
}

// pass waits until the link works. It returns false when l is gone.
func (p *Proxy) pass(l *link) bool {
	for {
		p.mu.Lock()
		fault, changed := p.fault, p.changed
		p.mu.Unlock()
		if fault != Blackhole {
			return true
		}
		select {
		case <-changed:
		case <-l.done:
			return false
		}
	}
}

// forward connects to the target and moves bytes until both directions have ended.
func (p *Proxy) forward(l *link) {
	if !p.pass(l) {
		return
	}
	server, err := net.Dial("tcp", p.target)
	if err != nil || !l.attach(server) {
		l.reset() // the target is down, or we are: the client sees it at once
		return
	}
	var both sync.WaitGroup
	both.Go(func() { p.move(l, server, l.client) })
	both.Go(func() { p.move(l, l.client, server) })
	both.Wait()
}

// piece is the result of a read, and when it arrives.
type piece struct {
	due  time.Time
	data []byte
	err  error
}

// read reads one direction until an error, which is the last piece, or until the link is gone.
func (p *Proxy) read(l *link, from net.Conn, into chan<- piece) {
	buffer := make([]byte, pieceSize)
	for {
		n, err := from.Read(buffer)
		select {
		case into <- piece{time.Now().Add(time.Duration(p.oneWay.Load())), slices.Clone(buffer[:n]), err}:
		case <-l.done:
			return
		}
		if err != nil {
			return
		}
	}
}

// move copies one direction, and its end, through the delay and the gate.
func (p *Proxy) move(l *link, to, from net.Conn) {
	pieces := make(chan piece, queueLength)
	p.running.Go(func() {
		defer close(pieces)
		p.read(l, from, pieces)
	})
	for next := range pieces {
		if !l.awaitTime(next.due) || !p.pass(l) {
			return
		}
		if len(next.data) > 0 {
			if _, err := to.Write(next.data); err != nil {
				l.reset()
				return
			}
			p.bytes.Add(int64(len(next.data)))
		}
		if errors.Is(next.err, io.EOF) {
			if tcp, ok := to.(*net.TCPConn); ok && tcp.CloseWrite() == nil {
				return
			}
		}
		if next.err != nil {
			l.reset()
			return
		}
	}
}

// link is one connection of a client and its counterpart.
type link struct {
	client net.Conn
	done   chan struct{} // closed by close

	mu     sync.Mutex
	server net.Conn
	gone   bool
}

// awaitTime waits until a time. It returns false when l is gone.
func (l *link) awaitTime(due time.Time) bool {
	delay := time.Until(due)
	if delay <= 0 {
		return true
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.done:
		return false
	}
}

// attach gives the link its other end, unless it was reset meanwhile.
func (l *link) attach(server net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gone {
		_ = server.Close() // it was never used
		return false
	}
	l.server = server
	return true
}

// reset ends both connections at once; what is under way is lost, the peers see a reset.
func (l *link) reset() { l.close(true) }

func (l *link) close(abort bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gone {
		return
	}
	l.gone = true
	close(l.done)
	for _, connection := range []net.Conn{l.client, l.server} {
		if tcp, ok := connection.(*net.TCPConn); ok {
			// An error means that the peer closed the connection first.
			if abort {
				_ = tcp.SetLinger(0)
			}
			_ = tcp.Close()
		}
	}
}
