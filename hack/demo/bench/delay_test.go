package main

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheProxyDelaysAndForwardsEverything(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, listener.Close()) })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(connection, connection) }() // ends with the connection
		}
	}()
	proxy, err := startDelayProxy(listener.Addr().String())
	require.NoError(t, err)
	proxy.setRoundTrip(40 * time.Millisecond)
	client, err := net.Dial("tcp", proxy.listener.Addr().String())
	require.NoError(t, err)
	const pieces = 20
	began := time.Now()
	for range pieces {
		_, err := client.Write([]byte("ping"))
		require.NoError(t, err)
	}
	answer := make([]byte, 4*pieces)
	_, err = io.ReadFull(client, answer)
	require.NoError(t, err)
	assert.Equal(t, "ping", string(answer[4*pieces-4:]))
	assert.GreaterOrEqual(t, time.Since(began), 40*time.Millisecond, "a round trip")
	require.NoError(t, proxy.Close())
	_, err = client.Read(answer)
	assert.Error(t, err, "the connection has ended")
}
