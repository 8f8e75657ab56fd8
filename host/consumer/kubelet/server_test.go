package kubelet

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/virtual-kubelet/virtual-kubelet/node/api"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	utilexec "k8s.io/client-go/util/exec"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/longshore-dev/longshore/conformance/testplane"
)

func certificatePEM(t *testing.T, s *SelfSigned) []byte {
	t.Helper()
	c, err := s.Certificate()
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]})
}

// onePod has the pod shop/web, whose remote namespace is shop-rome.
type onePod struct{}

func (onePod) Pods() []*corev1.Pod {
	return []*corev1.Pod{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}},
	}}
}

func (onePod) Remote(namespace, name string) (string, bool) {
	return "shop-rome", namespace == "shop" && name == "web"
}

func providerOptions(config *rest.Config) ProviderOptions {
	return ProviderOptions{Config: config, NodeName: "milan-1", HomeClusterID: "rome", ForeignClusterID: "milan", Now: time.Now}
}

// exitError is the error of a command with an exit code.
type exitError struct{ utilexec.CodeExitError }

// newProvider starts an API server with one running pod, shop-rome/web. It maps the pod's
// subresources to the paths of a kubelet.
func newProvider(t *testing.T) *rest.Config {
	t.Helper()
	handler := api.PodHandler(api.PodHandlerConfig{
		GetContainerLogs: func(_ context.Context, namespace, pod, container string, o api.ContainerLogOpts) (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(fmt.Sprintf("%s/%s/%s tail=%d follow=%t", namespace, pod, container, o.Tail, o.Follow))), nil
		},
		RunInContainer: func(_ context.Context, namespace, pod, container string, command []string, streams api.AttachIO) error {
			if command[0] == "false" {
				return exitError{utilexec.CodeExitError{Err: errors.New("exit 3"), Code: 3}}
			}
			input, _ := io.ReadAll(streams.Stdin())
			fmt.Fprintf(streams.Stdout(), "%s/%s/%s %v read %s", namespace, pod, container, command, input)
			return nil
		},
		AttachToContainer: func(_ context.Context, _, _, _ string, streams api.AttachIO) error {
			fmt.Fprint(streams.Stdout(), "attached")
			return nil
		},
		PortForward: func(_ context.Context, _, _ string, port int32, stream io.ReadWriteCloser) error {
			if port == 1 {
				return errors.New("connection refused")
			}
			buffer := make([]byte, 4)
			if _, err := io.ReadFull(stream, buffer); err != nil {
				return err
			}
			fmt.Fprintf(stream, "port %d got %s", port, buffer)
			return nil
		},
	}, false)
	mux := http.NewServeMux()
	mux.HandleFunc("/api/v1/namespaces/{namespace}/pods/{pod}/{subresource}", func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		kubelet := "/" + map[string]string{"log": "containerLogs", "exec": "exec", "attach": "attach", "portforward": "portForward"}[r.PathValue("subresource")] +
			"/" + r.PathValue("namespace") + "/" + r.PathValue("pod")
		if r.PathValue("pod") != "web" {
			http.NotFound(w, r)
			return
		}
		if r.PathValue("subresource") != "portforward" {
			kubelet += "/" + query.Get("container")
		}
		for apiName, kubeletName := range map[string]string{"stdin": "input", "stdout": "output", "stderr": "error"} {
			if query.Get(apiName) == "true" {
				query.Set(kubeletName, "1")
			}
		}
		r.URL.Path, r.URL.RawQuery = kubelet, query.Encode()
		handler.ServeHTTP(w, r)
	})
	mux.HandleFunc("/apis/metrics.k8s.io/v1beta1/namespaces/shop-rome/pods", func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "offloading.liqo.io/destination=milan,offloading.liqo.io/nodename=milan-1,offloading.liqo.io/origin=rome", r.URL.Query().Get("labelSelector"))
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"kind":"PodMetricsList","apiVersion":"metrics.k8s.io/v1beta1","items":[`+
			`{"metadata":{"name":"web"},"timestamp":"2020-11-21T07:00:00Z","window":"15s","containers":[{"name":"main","usage":{"cpu":"250m","memory":"64Mi"}}]},`+
			`{"metadata":{"name":"unknown"},"timestamp":"2020-11-21T07:00:00Z","window":"15s","containers":[{"name":"main","usage":{"cpu":"1","memory":"1Gi"}}]}]}`)
	})
	mux.HandleFunc("/apis/metrics.liqo.io/v1beta1/scrape/rome/metrics/cadvisor", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "cadvisor_version_info 1\n")
	})
	mux.HandleFunc("/apis/metrics.liqo.io/v1beta1/scrape/rome/metrics/probes", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
	})
	server := httptest.NewTLSServer(mux)
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
}

// allowAll returns a consumer in which the token "good" has all rights.
func allowAll() *fake.Clientset {
	var reviewed authorizationv1.SubjectAccessReviewSpec
	clientset := consumer(&reviewed, false)
	clientset.PrependReactor("create", "subjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).DeepCopy()
		review.Status.Allowed = true
		return true, review, nil
	})
	return clientset
}

// serve runs the kubelet API and returns the configuration of a client with all rights.
func serve(t *testing.T) *rest.Config {
	t.Helper()
	return serveFor(t, newProvider(t))
}

// serveFor is serve for pods of another provider.
func serveFor(t *testing.T, of *rest.Config) *rest.Config {
	t.Helper()
	provider, err := NewProvider(providerOptions(of))
	require.NoError(t, err)
	ip := reserveAddress(t)
	serving := NewSelfSigned("milan-1", net.ParseIP(ip), time.Now)
	server, err := New(Options{
		Address: ip, Port: freePort, Certificate: serving.Certificate, Pods: onePod{}, Provider: provider,
		Guard: newGuard(t, allowAll(), noAuthorities),
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx, ctx) }()
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, <-ended)
	})
	address := net.JoinHostPort(ip, strconv.Itoa(freePort))
	awaitServer(t, address)
	return &rest.Config{
		Host: "https://" + address, BearerToken: "good", TLSClientConfig: rest.TLSClientConfig{CAData: certificatePEM(t, serving)},
	}
}

// awaitServer waits until a server listens.
func awaitServer(t *testing.T, address string) {
	t.Helper()
	require.Eventually(t, func() bool {
		connection, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
		if err == nil {
			connection.Close()
		}
		return err == nil
	}, time.Minute, 5*time.Millisecond)
}

// freePort is free at an address that is reserved.
const freePort = 10250

// reserveAddress returns a loopback address at which no other test listens until the test ends. A port
// of 127.0.0.1 that is found free may be in use a moment later.
func reserveAddress(t *testing.T) string {
	t.Helper()
	address, err := testplane.ReserveAddress()
	require.NoError(t, err)
	t.Cleanup(address.Release)
	return address.IP
}

func get(t *testing.T, config *rest.Config, path string) (int, string) {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, config.Host+path, nil)
	require.NoError(t, err)
	response, err := client.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(body)
}

func TestKubeletAPI(t *testing.T) {
	config := serve(t)
	t.Run("a client without credentials is rejected", func(t *testing.T) {
		anonymous := rest.CopyConfig(config)
		anonymous.BearerToken = ""
		code, _ := get(t, anonymous, "/pods")
		assert.Equal(t, http.StatusUnauthorized, code)
	})
	t.Run("the node's pods are listed", func(t *testing.T) {
		code, body := get(t, config, "/pods")
		assert.Equal(t, http.StatusOK, code)
		assert.Contains(t, body, `"name":"web"`)
	})
	t.Run("logs are read from the remote pod", func(t *testing.T) {
		code, body := get(t, config, "/containerLogs/shop/web/main?tailLines=5&follow=true")
		assert.Equal(t, http.StatusOK, code)
		assert.Equal(t, "shop-rome/web/main tail=5 follow=true", body)
	})
	t.Run("pods of other nodes are not found", func(t *testing.T) {
		code, _ := get(t, config, "/containerLogs/shop-rome/web/main")
		assert.Equal(t, http.StatusNotFound, code)
	})
	t.Run("a command runs in the remote pod", func(t *testing.T) {
		var out bytes.Buffer
		require.NoError(t, stream(t, config, "/exec/shop/web/main?command=echo&command=hi&input=1&output=1", strings.NewReader("hello"), &out))
		assert.Equal(t, "shop-rome/web/main [echo hi] read hello", out.String())
	})
	t.Run("the exit code is returned", func(t *testing.T) {
		err := stream(t, config, "/exec/shop/web/main?command=false&output=1", nil, io.Discard)
		var exit utilexec.ExitError
		require.ErrorAs(t, err, &exit)
		assert.Equal(t, 3, exit.ExitStatus())
	})
	t.Run("a terminal attaches to the remote pod", func(t *testing.T) {
		var out bytes.Buffer
		require.NoError(t, stream(t, config, "/attach/shop/web/main?output=1", nil, &out))
		assert.Equal(t, "attached", out.String())
	})
	t.Run("the statistics are those of the remote pods with local names", func(t *testing.T) {
		code, body := get(t, config, "/stats/summary")
		require.Equal(t, http.StatusOK, code, body)
		var summary statsv1alpha1.Summary
		require.NoError(t, json.Unmarshal([]byte(body), &summary))
		require.Len(t, summary.Pods, 1, "a metric without a local pod is ignored (T26)")
		assert.Equal(t, statsv1alpha1.PodReference{Namespace: "shop", Name: "web"}, summary.Pods[0].PodRef)
		assert.EqualValues(t, 250_000_000, *summary.Pods[0].CPU.UsageNanoCores)
		assert.EqualValues(t, 250_000_000, *summary.Node.CPU.UsageNanoCores)
	})
	t.Run("resource metrics are in the format that metrics-server scrapes", func(t *testing.T) {
		code, body := get(t, config, "/metrics/resource")
		require.Equal(t, http.StatusOK, code, body)
		assert.Contains(t, body, `container_cpu_usage_seconds_total{container="main",namespace="shop",pod="web"} 3.75 1605942000000`)
		assert.NotContains(t, body, "unknown")
	})
	t.Run("other metrics are those of the provider's metric agent", func(t *testing.T) {
		code, body := get(t, config, "/metrics/cadvisor")
		assert.Equal(t, http.StatusOK, code)
		assert.Equal(t, "cadvisor_version_info 1\n", body)
	})
	t.Run("a provider without metric agent has no such metrics, and the node is no target that is down", func(t *testing.T) {
		for _, path := range []string{"/metrics", "/metrics/probes"} { // not found, and denied
			code, body := get(t, config, path)
			assert.Equal(t, http.StatusOK, code, path)
			assert.Equal(t, "# The provider does not serve metrics.liqo.io to this cluster.\n", body, path)
			parser := expfmt.NewTextParser(model.UTF8Validation)
			families, err := parser.TextToMetricFamilies(strings.NewReader(body))
			require.NoError(t, err)
			assert.Empty(t, families)
		}
	})
	t.Run("a port is forwarded to the remote pod", func(t *testing.T) {
		assert.Equal(t, "port 8080 got ping", forward(t, config, 8080))
	})
	t.Run("the error of a closed port is returned", func(t *testing.T) {
		assert.Contains(t, forward(t, config, 1), "connection refused")
	})
}

func stream(t *testing.T, config *rest.Config, path string, in io.Reader, out io.Writer) error {
	t.Helper()
	target, err := url.Parse(config.Host + path)
	require.NoError(t, err)
	executor, err := remotecommand.NewSPDYExecutor(config, http.MethodPost, target)
	require.NoError(t, err)
	return executor.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdin: in, Stdout: out})
}

// forward sends "ping" to a port and returns its response and its error.
func forward(t *testing.T, config *rest.Config, port int) string {
	t.Helper()
	transport, upgrader, err := spdy.RoundTripperFor(config)
	require.NoError(t, err)
	target, err := url.Parse(config.Host + "/portForward/shop/web")
	require.NoError(t, err)
	connection, _, err := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, target).Dial(portforward.PortForwardProtocolV1Name)
	require.NoError(t, err)
	defer connection.Close()
	headers := http.Header{}
	headers.Set(corev1.PortHeader, strconv.Itoa(port))
	headers.Set(corev1.PortForwardRequestIDHeader, "1")
	headers.Set(corev1.StreamType, corev1.StreamTypeError)
	errorStream, err := connection.CreateStream(headers)
	require.NoError(t, err)
	require.NoError(t, errorStream.Close())
	headers.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err := connection.CreateStream(headers)
	require.NoError(t, err)
	_, err = data.Write([]byte("ping"))
	require.NoError(t, err)
	response, err := io.ReadAll(data)
	require.NoError(t, err)
	reported, err := io.ReadAll(errorStream)
	require.NoError(t, err)
	return string(response) + string(reported)
}

func TestLogOptions(t *testing.T) {
	since := time.Date(2026, 11, 21, 7, 0, 0, 0, time.UTC)
	assert.Equal(t, &corev1.PodLogOptions{Container: "main"}, logOptions("main", api.ContainerLogOpts{}))
	n := int64(2)
	assert.Equal(t, &corev1.PodLogOptions{
		Container: "main", Previous: true, Timestamps: true, TailLines: &n, LimitBytes: &n, SinceSeconds: &n, SinceTime: &metav1.Time{Time: since},
	}, logOptions("main", api.ContainerLogOpts{Previous: true, Timestamps: true, Tail: 2, LimitBytes: 2, SinceSeconds: 2, SinceTime: since}))
}

func TestUsedPortIsReportedWithTheFlags(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	provider, err := NewProvider(providerOptions(&rest.Config{Host: "https://127.0.0.1"}))
	require.NoError(t, err)
	server, err := New(Options{
		Address: "127.0.0.1", Port: listener.Addr().(*net.TCPAddr).Port, Pods: onePod{}, Provider: provider,
		Certificate: NewSelfSigned("n", nil, time.Now).Certificate, Guard: newGuard(t, allowAll(), noAuthorities),
	})
	require.NoError(t, err)
	err = server.Run(t.Context(), t.Context())
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	require.ErrorContains(t, err, "--node-ip, --listen-port", "the flags to correct")
}
