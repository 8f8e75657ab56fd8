package processnode

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"
)

// dialTimeout bounds the wait for a backend. On loopback the kernel refuses a connection at
// once if no process listens; the timeout is for an overloaded machine.
const dialTimeout = 10 * time.Second

// connections are those that forwarders have open. They outlive the forwarder that made
// them, as connections through kube-proxy outlive its rules.
type connections struct {
	mu      sync.Mutex
	open    map[*net.TCPConn]bool
	closed  bool
	running sync.WaitGroup
}

func newConnections() *connections { return &connections{open: map[*net.TCPConn]bool{}} }

// add takes a connection into care, unless all are to end.
func (c *connections) add(conn *net.TCPConn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.open[conn] = true
	}
	return !c.closed
}

func (c *connections) drop(conn *net.TCPConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, conn)
	// The only error is that it is closed.
	_ = conn.Close()
}

// close ends all and waits; the forwarders are closed before.
func (c *connections) close() {
	c.mu.Lock()
	c.closed = true
	for conn := range c.open {
		abort(conn)
	}
	c.mu.Unlock()
	c.running.Wait()
}

// abort resets a connection; an error means that it was closed already.
func abort(conn *net.TCPConn) {
	_ = conn.SetLinger(0)
	_ = conn.Close()
}

// forwarder listens at one address and passes each connection on to one of its backends,
// in turn. One that does not answer is passed over, as long as another does.
type forwarder struct {
	listener    *net.TCPListener
	connections *connections

	mu       sync.Mutex
	backends []string
	turn     int
}

// forward listens at once and serves until the forwarder is closed.
func forward(listen string, backends []string, connections *connections) (*forwarder, error) {
	address, err := net.ResolveTCPAddr("tcp", listen)
	if err != nil {
		return nil, fmt.Errorf("reading the address %s: %w", listen, err)
	}
	listener, err := net.ListenTCP("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	f := &forwarder{listener: listener, connections: connections, backends: backends}
	connections.running.Go(f.serve)
	return f, nil
}

// close stops listening; what is connected stays.
func (f *forwarder) close() {
	// The only error is that it is closed.
	_ = f.listener.Close()
}

// set replaces the backends.
func (f *forwarder) set(backends []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.backends = backends
}

// candidates are the backends in the order in which the next connection tries them.
func (f *forwarder) candidates() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.backends) == 0 {
		return nil
	}
	f.turn = (f.turn + 1) % len(f.backends)
	return slices.Concat(f.backends[f.turn:], f.backends[:f.turn])
}

func (f *forwarder) serve() {
	for {
		client, err := f.listener.AcceptTCP()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // Out of file descriptors, or reset before it was accepted.
		}
		if !f.connections.add(client) {
			abort(client)
			continue
		}
		f.connections.running.Go(func() {
			defer f.connections.drop(client)
			f.pass(client)
		})
	}
}

// pass finds a backend and moves bytes until both directions have ended.
func (f *forwarder) pass(client *net.TCPConn) {
	server := f.dial()
	if server == nil || !f.connections.add(server) {
		abort(client)
		return
	}
	defer f.connections.drop(server)
	move := func(to, from *net.TCPConn) {
		if _, err := io.Copy(to, from); err != nil || to.CloseWrite() != nil {
			// One end is gone; the other shall know at once.
			abort(to)
			abort(from)
		}
	}
	var both sync.WaitGroup
	both.Go(func() { move(server, client) })
	both.Go(func() { move(client, server) })
	both.Wait()
}

// dial connects to the first backend that answers; nil when none does.
func (f *forwarder) dial() *net.TCPConn {
	for _, backend := range f.candidates() {
		conn, err := net.DialTimeout("tcp", backend, dialTimeout)
		if err != nil {
			continue
		}
		if tcp, ok := conn.(*net.TCPConn); ok {
			return tcp
		}
	}
	return nil
}
