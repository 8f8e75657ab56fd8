package kubelet

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
)

// noticingWriter calls leave when the user leaves a connection that a handler has taken over: net/http does not
// notice that.
type noticingWriter struct {
	http.ResponseWriter

	leave func()
}

// Unwrap is for http.ResponseController.
func (w *noticingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Hijack implements http.Hijacker.
func (w *noticingWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	connection, buffered, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, fmt.Errorf("taking over the connection: %w", err)
	}
	noticing := &noticingConnection{Conn: connection, leave: w.leave}
	// What was read ahead comes first.
	begin := io.LimitReader(buffered.Reader, int64(buffered.Reader.Buffered()))
	return noticing, bufio.NewReadWriter(bufio.NewReader(io.MultiReader(begin, noticing)), bufio.NewWriter(noticing)), nil
}

type noticingConnection struct {
	net.Conn

	leave func()
}

// Read implements net.Conn.
func (c *noticingConnection) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		c.leave()
	}
	return n, err //nolint:wrapcheck // Passed on as it is.
}
