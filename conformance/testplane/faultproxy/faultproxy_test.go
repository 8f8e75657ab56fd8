package faultproxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/conformance/testplane/faultproxy"
)

const (
	patience = time.Minute
	silence  = 100 * time.Millisecond
)

// echo is a server that sends every line back.
func echo(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer connection.Close()
				lines := bufio.NewScanner(connection)
				for lines.Scan() {
					fmt.Fprintln(connection, lines.Text())
				}
			}()
		}
	}()
	return listener.Addr().String()
}

func startProxy(t *testing.T) *faultproxy.Proxy {
	t.Helper()
	proxy, err := faultproxy.Start(echo(t))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, proxy.Close()) })
	return proxy
}

func dial(t *testing.T, proxy *faultproxy.Proxy) net.Conn {
	t.Helper()
	connection, err := net.Dial("tcp", proxy.Endpoint())
	require.NoError(t, err)
	t.Cleanup(func() { connection.Close() })
	return connection
}

func send(t *testing.T, connection net.Conn, line string) {
	t.Helper()
	_, err := fmt.Fprintln(connection, line)
	require.NoError(t, err)
}

func receive(connection net.Conn, within time.Duration) (string, error) {
	if err := connection.SetReadDeadline(time.Now().Add(within)); err != nil {
		return "", err
	}
	return bufio.NewReader(connection).ReadString('\n')
}

// assertRefused wants a new connection to end at once, not in silence.
func assertRefused(t *testing.T, proxy *faultproxy.Proxy) {
	t.Helper()
	connection, err := net.Dial("tcp", proxy.Endpoint())
	if err == nil { // else it was reset before Dial returned
		defer connection.Close()
		_, err = receive(connection, patience)
	}
	require.Error(t, err)
	assert.NotErrorIs(t, err, os.ErrDeadlineExceeded)
}

func TestWhatIsSentComesThroughAndIsCounted(t *testing.T) {
	proxy := startProxy(t)
	connection := dial(t, proxy)
	send(t, connection, "hello")
	answer, err := receive(connection, patience)
	require.NoError(t, err)
	assert.Equal(t, "hello\n", answer)
	assert.EqualValues(t, 1, proxy.Connections())
	assert.Eventually(t, func() bool { return proxy.Bytes() == 12 }, patience, time.Millisecond)
}

func TestTheEndOfAConnectionComesThrough(t *testing.T) {
	proxy := startProxy(t)
	connection := dial(t, proxy)
	send(t, connection, "last words")
	require.NoError(t, connection.(*net.TCPConn).CloseWrite())
	answer, err := receive(connection, patience)
	require.NoError(t, err)
	assert.Equal(t, "last words\n", answer)
	_, err = receive(connection, patience)
	assert.ErrorContains(t, err, "EOF")
}

func TestResetEndsOldAndNewConnectionsUntilHealed(t *testing.T) {
	proxy := startProxy(t)
	old := dial(t, proxy)
	send(t, old, "hello")
	_, err := receive(old, patience)
	require.NoError(t, err)

	proxy.Cut(faultproxy.Reset)
	_, err = receive(old, patience)
	require.Error(t, err)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "the connection is closed, it does not time out")
	assertRefused(t, proxy)

	proxy.Heal()
	healed := dial(t, proxy)
	send(t, healed, "again")
	answer, err := receive(healed, patience)
	require.NoError(t, err)
	assert.Equal(t, "again\n", answer)
}

func TestBlackholeHoldsOldAndNewConnectionsUntilHealed(t *testing.T) {
	proxy := startProxy(t)
	old := dial(t, proxy)
	send(t, old, "hello")
	_, err := receive(old, patience)
	require.NoError(t, err)

	proxy.Cut(faultproxy.Blackhole)
	fresh := dial(t, proxy)
	for _, connection := range []net.Conn{old, fresh} {
		send(t, connection, "held")
		_, err := receive(connection, silence)
		require.ErrorIs(t, err, os.ErrDeadlineExceeded, "nothing comes back while the link is cut")
	}

	proxy.Heal()
	for _, connection := range []net.Conn{old, fresh} {
		answer, err := receive(connection, patience)
		require.NoError(t, err)
		assert.Equal(t, "held\n", answer, "what was under way arrives")
	}
}

func TestWhatIsSentArrivesAfterTheRoundTrip(t *testing.T) {
	const roundTrip, pieces = 40 * time.Millisecond, 20
	proxy := startProxy(t)
	proxy.SetRoundTrip(roundTrip)
	connection := dial(t, proxy)
	began := time.Now()
	for i := range pieces {
		send(t, connection, fmt.Sprintf("piece %02d", i))
	}
	answers := bufio.NewReader(connection)
	for i := range pieces {
		answer, err := answers.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("piece %02d\n", i), answer, "in order")
	}
	assert.GreaterOrEqual(t, time.Since(began), roundTrip)
	require.NoError(t, connection.(*net.TCPConn).CloseWrite())
	_, err := answers.ReadByte()
	assert.ErrorIs(t, err, io.EOF, "the end comes through")

	proxy.Cut(faultproxy.Blackhole)
	held := dial(t, proxy)
	send(t, held, "held")
	_, err = receive(held, roundTrip+silence)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded, "nothing comes back while the link is cut")
	proxy.Heal()
	answer, err := receive(held, patience)
	require.NoError(t, err)
	assert.Equal(t, "held\n", answer)
}

func TestConnectionsEndWhileBytesAreUnderWay(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *faultproxy.Proxy){
		"the proxy is closed":  func(t *testing.T, p *faultproxy.Proxy) { require.NoError(t, p.Close()) },
		"the link is reset":    func(_ *testing.T, p *faultproxy.Proxy) { p.Cut(faultproxy.Reset) },
		"it is silent, closed": func(t *testing.T, p *faultproxy.Proxy) { p.Cut(faultproxy.Blackhole); require.NoError(t, p.Close()) },
	} {
		t.Run(name, func(t *testing.T) {
			proxy, err := faultproxy.Start(echo(t))
			require.NoError(t, err)
			t.Cleanup(func() { _ = proxy.Close() }) // it may be closed already
			connection := dial(t, proxy)
			send(t, connection, "fast")
			_, err = receive(connection, patience)
			require.NoError(t, err)
			proxy.SetRoundTrip(time.Hour)
			send(t, connection, "under way")
			end(t, proxy)
			_, err = receive(connection, patience)
			require.Error(t, err)
			assert.NotErrorIs(t, err, os.ErrDeadlineExceeded)
		})
	}
}

func TestCloseEndsHeldConnections(t *testing.T) {
	proxy, err := faultproxy.Start(echo(t))
	require.NoError(t, err)
	proxy.Cut(faultproxy.Blackhole)
	connection := dial(t, proxy)
	send(t, connection, "held")
	require.NoError(t, proxy.Close())
	_, err = receive(connection, patience)
	require.Error(t, err)
	assert.NotErrorIs(t, err, os.ErrDeadlineExceeded)
}

func TestADeadTargetEndsTheConnection(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	target := listener.Addr().String()
	require.NoError(t, listener.Close())
	proxy, err := faultproxy.Start(target)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, proxy.Close()) })
	assertRefused(t, proxy)
}
