package kubelet

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// halves is one end of a forwarded port, of which each half is somebody else's.
type halves struct {
	io.Reader
	io.Writer
}

func (halves) Close() error { return nil }

// broken is a client that has gone.
type broken struct{}

func (broken) Read([]byte) (int, error)  { return 0, io.EOF }
func (broken) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }
func (broken) Close() error              { return nil }

func TestAForwardedPortEnds(t *testing.T) {
	t.Run("when the client has gone, though the remote end would go on", func(t *testing.T) {
		failures, remote := io.Pipe()
		err := exchange(broken{}, halves{strings.NewReader("more and more"), io.Discard}, failures, func() { _ = remote.Close() })
		require.ErrorContains(t, err, "broken pipe")
	})
	t.Run("with what the remote end has to say", func(t *testing.T) {
		err := exchange(halves{strings.NewReader(""), io.Discard}, halves{strings.NewReader("half"), io.Discard},
			strings.NewReader("connection refused"), func() { t.Error("nothing is cut off") })
		require.EqualError(t, err, "connection refused")
	})
	t.Run("with what the remote end has to say, though its data broke off", func(t *testing.T) {
		err := exchange(halves{strings.NewReader(""), io.Discard}, halves{iotest.ErrReader(errors.New("reset")), io.Discard},
			strings.NewReader("the container has ended"), func() { t.Error("nothing is cut off") })
		require.EqualError(t, err, "the container has ended")
	})
	t.Run("in peace", func(t *testing.T) {
		var got strings.Builder
		err := exchange(halves{strings.NewReader("ping"), &got}, halves{strings.NewReader("pong"), io.Discard},
			strings.NewReader(""), func() { t.Error("nothing is cut off") })
		require.NoError(t, err)
		assert.Equal(t, "pong", got.String())
	})
}
