package kubelet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
)

// maxPorts is the number of ports, from --listen-port on, of the kubelet APIs of a shared process.
const maxPorts = 1000

// listenFrom listens on the lowest free port from first on, and returns it.
func listenFrom(ctx context.Context, ip string, first int) (net.Listener, int, error) {
	last := min(first+maxPorts-1, 65535)
	for port := first; port <= last; port++ {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(ip, strconv.Itoa(port)))
		if err == nil {
			return listener, port, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return nil, 0, fmt.Errorf("listening for the kubelet API (--node-ip, --listen-port): %w", err)
		}
	}
	return nil, 0, fmt.Errorf("listening for the kubelet API: ports %d to %d of %s are in use", first, last, ip)
}
