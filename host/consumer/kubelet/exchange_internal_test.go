package kubelet

import (
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// endpoint is one end of a forwarded port.
type endpoint struct {
	io.Reader
	io.Writer
}

func (endpoint) Close() error { return nil }

// disconnected is a client that has disconnected.
type disconnected struct{}

func (disconnected) Read([]byte) (int, error)  { return 0, io.EOF }
func (disconnected) Write([]byte) (int, error) { return 0, syscall.EPIPE }
func (disconnected) Close() error              { return nil }

func TestExchangeEnds(t *testing.T) {
	t.Run("after the client has disconnected, although the remote end stays open", func(t *testing.T) {
		errorStream, remote := io.Pipe()
		err := exchange(disconnected{}, endpoint{strings.NewReader("more and more"), io.Discard}, errorStream, func() { _ = remote.Close() })
		require.ErrorIs(t, err, syscall.EPIPE)
	})
	t.Run("with the error of the remote end", func(t *testing.T) {
		err := exchange(endpoint{strings.NewReader(""), io.Discard}, endpoint{strings.NewReader("half"), io.Discard},
			strings.NewReader("connection refused"), func() { t.Error("the connection must not be closed") })
		require.EqualError(t, err, "connection refused")
	})
	t.Run("with the error of the remote end instead of the error of its data", func(t *testing.T) {
		err := exchange(endpoint{strings.NewReader(""), io.Discard}, endpoint{iotest.ErrReader(errors.New("reset")), io.Discard},
			strings.NewReader("the container has ended"), func() { t.Error("the connection must not be closed") })
		require.EqualError(t, err, "the container has ended")
	})
	t.Run("without an error", func(t *testing.T) {
		var got strings.Builder
		err := exchange(endpoint{strings.NewReader("ping"), &got}, endpoint{strings.NewReader("pong"), io.Discard},
			strings.NewReader(""), func() { t.Error("the connection must not be closed") })
		require.NoError(t, err)
		assert.Equal(t, "pong", got.String())
	})
}
