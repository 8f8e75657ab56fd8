package remotecluster_test

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/longshore-dev/longshore/host/kit/remotecluster"
)

// A user who leaves ends the connection, whatever the other cluster does with it: it may answer nothing, or send
// for ever what belongs to no stream.
func TestConnectionsEndWithTheirUser(t *testing.T) {
	users := map[string]func(context.Context, *rest.Config, *url.URL) error{
		"exec": func(ctx context.Context, config *rest.Config, address *url.URL) error {
			executor, err := remotecluster.Executor(config, address)
			if err != nil {
				return err
			}
			return executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: io.Discard})
		},
		"port-forward": func(ctx context.Context, config *rest.Config, address *url.URL) error {
			connection, err := remotecluster.Dial(ctx, config, address, portforward.PortForwardProtocolV1Name)
			if err != nil {
				return err
			}
			defer connection.Close()
			go func() { _, _ = connection.CreateStream(http.Header{}) }()
			<-ctx.Done()
			return ctx.Err()
		},
	}
	for name, content := range map[string]string{
		"silence": "", "frames without end": "\x80\x03\x00\x06\x00\x00\x00\x04\x00\x00\x00\x02", "half a frame without end": strings.Repeat("\x41", 1<<16),
	} {
		for verb, use := range users {
			t.Run(verb+": "+name, func(t *testing.T) {
				ctx, leave := context.WithCancel(t.Context())
				closed := make(chan struct{})
				config := hostile(t, remotecluster.Limits{}, func(w http.ResponseWriter, _ *http.Request) {
					connection, _, err := http.NewResponseController(w).Hijack()
					if !assert.NoError(t, err) {
						return
					}
					defer close(closed)
					defer connection.Close()
					_, err = io.WriteString(connection, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"+
						"X-Stream-Protocol-Version: v4.channel.k8s.io\r\n\r\n"+content)
					// The user asks for a stream before it leaves.
					_, readErr := connection.Read(make([]byte, 1))
					assert.NoError(t, readErr)
					leave()
					for err == nil && content != "" {
						_, err = io.WriteString(connection, content)
					}
					_, _ = io.Copy(io.Discard, connection)
				})
				address, err := url.Parse(config.Host)
				require.NoError(t, err)
				require.ErrorIs(t, use(ctx, config, address), context.Canceled)
				<-closed
			})
		}
	}
}
