package testplane

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestAPortThatIsHeldForAMomentIsFree has a listener that closes, as that of a process which is forked
// while a port is tried, and one that stays.
func TestAPortThatIsHeldForAMomentIsFree(t *testing.T) {
	t.Parallel()
	address, err := ReserveAddress()
	require.NoError(t, err)
	defer address.Release()
	listener, err := net.Listen("tcp", net.JoinHostPort(address.IP, "6443"))
	require.NoError(t, err)
	require.ErrorContains(t, portFree(address.IP, DefaultPort), "another process serves")
	time.AfterFunc(portPatience/20, func() { _ = listener.Close() })
	assert.NoError(t, portFree(address.IP, DefaultPort))
}
