package kubelet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"

	"github.com/longshore-dev/longshore/host/forge/virtualkubelet"
)

// listenFrom listens on the lowest free port from first on, and returns it.
func listenFrom(ctx context.Context, ip string, first int) (net.Listener, int, error) {
	last := min(first+virtualkubelet.MaxPorts-1, 65535)
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
