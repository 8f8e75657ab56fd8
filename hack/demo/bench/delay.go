package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// delayQueue is how many pieces may be under way in one direction of a connection.
const delayQueue = 4096

// delayProxy forwards connections to a target. What it forwards arrives after half of a round trip, in
// each direction; the bandwidth is not limited.
type delayProxy struct {
	listener net.Listener
	target   string
	// oneWay is a time.Duration.
	oneWay atomic.Int64

	mu          sync.Mutex
	connections map[net.Conn]bool
	running     sync.WaitGroup
}

// startDelayProxy starts a proxy, without delay, at an address for which the certificates of the
// clusters' API servers are valid.
func startDelayProxy(target string) (*delayProxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("starting the proxy between the clusters: %w", err)
	}
	p := &delayProxy{listener: listener, target: target, connections: map[net.Conn]bool{}}
	p.running.Go(p.serve)
	return p, nil
}

func (p *delayProxy) url() string { return "https://" + p.listener.Addr().String() }

func (p *delayProxy) setRoundTrip(d time.Duration) { p.oneWay.Store(int64(d / 2)) }

func (p *delayProxy) serve() {
	for {
		client, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // it was reset before it was accepted
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = client.Close() // the client sees it
			continue
		}
		p.mu.Lock()
		p.connections[client], p.connections[server] = true, true
		p.mu.Unlock()
		p.running.Go(func() { p.relay(server, client) })
		p.running.Go(func() { p.relay(client, server) })
	}
}

type delayed struct {
	due  time.Time
	data []byte
}

// relay forwards one direction until a connection ends, and then closes both.
func (p *delayProxy) relay(to, from net.Conn) {
	pieces := make(chan delayed, delayQueue)
	p.running.Go(func() {
		defer close(pieces)
		for {
			buffer := make([]byte, 16<<10)
			n, err := from.Read(buffer)
			if n > 0 {
				pieces <- delayed{time.Now().Add(time.Duration(p.oneWay.Load())), buffer[:n]}
			}
			if err != nil {
				return
			}
		}
	})
	for piece := range pieces {
		time.Sleep(time.Until(piece.due))
		if _, err := to.Write(piece.data); err != nil {
			break
		}
	}
	for _, connection := range []net.Conn{to, from} {
		_ = connection.Close() // it may be closed already
	}
	for range pieces { // The reader ends when its connection is closed.
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.connections, to)
	delete(p.connections, from)
}

// Close implements io.Closer. It ends all connections.
func (p *delayProxy) Close() error {
	err := p.listener.Close()
	p.mu.Lock()
	for connection := range p.connections {
		_ = connection.Close() // its relays end
	}
	p.mu.Unlock()
	p.running.Wait()
	if err != nil {
		return fmt.Errorf("closing the proxy between the clusters: %w", err)
	}
	return nil
}

var _ io.Closer = (*delayProxy)(nil)
