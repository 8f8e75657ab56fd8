package processnode

import (
	"bufio"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// echo greets with its name and then sends back what it gets; stop ends its listening.
func echo(t *testing.T, name string) (address string, stop func()) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if _, err := conn.Write([]byte(name + "\n")); err == nil {
					_, _ = io.Copy(conn, conn)
				}
			}()
		}
	}()
	return listener.Addr().String(), func() { listener.Close() }
}

func forwarding(t *testing.T, backends ...string) (*forwarder, *connections) {
	t.Helper()
	all := newConnections()
	f, err := forward("127.0.0.1:0", backends, all)
	require.NoError(t, err)
	t.Cleanup(func() { f.close(); all.close() })
	return f, all
}

// dialed is a connection through the forwarder and the name of the backend that answered.
func dialed(t *testing.T, f *forwarder) (*net.TCPConn, *bufio.Reader, string) {
	t.Helper()
	conn, err := net.Dial("tcp", f.listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	reader := bufio.NewReader(conn)
	name, err := reader.ReadString('\n')
	require.NoError(t, err)
	return conn.(*net.TCPConn), reader, strings.TrimSpace(name)
}

func TestConnectionsGoToTheBackendsInTurn(t *testing.T) {
	a, _ := echo(t, "a")
	b, _ := echo(t, "b")
	f, _ := forwarding(t, a, b)
	answered := map[string]int{}
	for range 4 {
		_, _, name := dialed(t, f)
		answered[name]++
	}
	assert.Equal(t, map[string]int{"a": 2, "b": 2}, answered)
}

func TestABackendThatRefusesIsPassedOver(t *testing.T) {
	a, stop := echo(t, "a")
	b, _ := echo(t, "b")
	stop()
	f, _ := forwarding(t, a, b)
	for range 3 {
		_, _, name := dialed(t, f)
		assert.Equal(t, "b", name)
	}
}

func TestOpenConnectionsOutliveABackendsPlace(t *testing.T) {
	a, _ := echo(t, "a")
	b, _ := echo(t, "b")
	f, all := forwarding(t, a)
	conn, reader, name := dialed(t, f)
	require.Equal(t, "a", name)
	f.set([]string{b})
	_, _, name = dialed(t, f)
	assert.Equal(t, "b", name)
	f.close()
	_, err := net.Dial("tcp", f.listener.Addr().String())
	require.ErrorIs(t, err, syscall.ECONNREFUSED)

	_, err = conn.Write([]byte("still there\n"))
	require.NoError(t, err)
	require.NoError(t, conn.CloseWrite(), "an end in one direction is passed on")
	rest, err := io.ReadAll(reader)
	require.NoError(t, err)
	assert.Equal(t, "still there\n", string(rest))

	other, err := forward("127.0.0.1:0", []string{b}, all)
	require.NoError(t, err)
	open, reader, _ := dialed(t, other)
	other.close()
	all.close()
	_, err = reader.ReadByte()
	require.Error(t, err, "when all end, so do those that are open")
	assert.False(t, all.add(open), "and no other begins")
}

func TestWithoutAnyBackendTheClientIsReset(t *testing.T) {
	a, stop := echo(t, "a")
	stop()
	f, _ := forwarding(t, a)
	conn, err := net.Dial("tcp", f.listener.Addr().String())
	if errors.Is(err, syscall.ECONNRESET) {
		return
	}
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Read(make([]byte, 1))
	assert.ErrorIs(t, err, syscall.ECONNRESET)
}
