package kubelet

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/virtual-kubelet/virtual-kubelet/node/api"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
)

// A user who leaves ends the connection to the remote pod, which may say nothing more and close nothing.
func TestAForwardedPortEndsWithItsUser(t *testing.T) {
	forwarded, ended := make(chan struct{}), make(chan struct{})
	pod := api.PodHandler(api.PodHandlerConfig{
		PortForward: func(_ context.Context, _, _ string, _ int32, stream io.ReadWriteCloser) error {
			if _, err := io.ReadFull(stream, make([]byte, len("ping"))); err != nil {
				return err
			}
			close(forwarded)
			<-ended
			return nil
		},
	}, false)
	provider := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.URL.Path = "/portForward/shop-rome/web"
		pod.ServeHTTP(w, r) // until the connection is closed
		close(ended)
	}))
	t.Cleanup(provider.Close)
	config := serveFor(t, &rest.Config{Host: provider.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}})

	transport, upgrader, err := spdy.RoundTripperFor(config)
	require.NoError(t, err)
	target, err := url.Parse(config.Host + "/portForward/shop/web")
	require.NoError(t, err)
	connection, _, err := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, target).Dial(portforward.PortForwardProtocolV1Name)
	require.NoError(t, err)
	headers := http.Header{}
	headers.Set(corev1.PortHeader, "8080")
	headers.Set(corev1.PortForwardRequestIDHeader, "1")
	headers.Set(corev1.StreamType, corev1.StreamTypeError)
	_, err = connection.CreateStream(headers)
	require.NoError(t, err)
	headers.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err := connection.CreateStream(headers)
	require.NoError(t, err)
	_, err = data.Write([]byte("ping"))
	require.NoError(t, err)
	<-forwarded
	require.NoError(t, connection.Close())
	<-ended
}
