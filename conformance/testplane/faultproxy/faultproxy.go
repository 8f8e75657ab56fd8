// Package faultproxy is a TCP proxy on loopback that stands between a client and an API
// server and fails on demand, for tests of lost links. TLS passes through it, so it
// counts connections and bytes; requests are counted from the API server's audit log.
package faultproxy

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
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

// move copies one direction, and its end, through the gate.
func (p *Proxy) move(l *link, to, from net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if !p.pass(l) {
			return
		}
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				l.reset()
				return
			}
			p.bytes.Add(int64(n))
		}
		if errors.Is(err, io.EOF) {
			if tcp, ok := to.(*net.TCPConn); ok && tcp.CloseWrite() == nil {
				return
			}
		}
		if err != nil {
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
