package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/virtual-kubelet/virtual-kubelet/errdefs"
	"github.com/virtual-kubelet/virtual-kubelet/node/api"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	utilexec "k8s.io/client-go/util/exec"
	metricsv1beta1client "k8s.io/metrics/pkg/client/clientset/versioned/typed/metrics/v1beta1"

	"github.com/longshore-dev/longshore/host/kit/remotecluster"
)

// Provider accesses the subresources and the metrics of remote pods.
type Provider struct {
	config  *rest.Config
	core    corev1client.CoreV1Interface
	metrics metricsv1beta1client.MetricsV1beta1Interface
	options ProviderOptions
}

// ProviderOptions configure a [Provider]. All are required; Config is one of [remotecluster.Guard].
type ProviderOptions struct {
	Config                                    *rest.Config
	NodeName, HomeClusterID, ForeignClusterID string
	Now                                       func() time.Time
}

// NewProvider returns a Provider that sends nothing yet.
func NewProvider(options ProviderOptions) (*Provider, error) {
	core, err := corev1client.NewForConfig(options.Config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the provider's pods: %w", err)
	}
	// The values of an answer are counted in JSON.
	inJSON := rest.CopyConfig(options.Config)
	inJSON.ContentType, inJSON.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	metrics, err := metricsv1beta1client.NewForConfig(inJSON)
	if err != nil {
		return nil, fmt.Errorf("connecting to the provider's metrics: %w", err)
	}
	return &Provider{config: options.Config, core: core, metrics: metrics, options: options}, nil
}

// remotePods serves requests for local pods from their remote pods.
type remotePods struct {
	pods     Pods
	provider *Provider
	counters counters
}

// remoteNamespace returns the remote namespace of a local pod. Pods of other nodes are not
// found, so that the provider's own pods cannot be accessed by their names.
func (p *remotePods) remoteNamespace(namespace, name string) (string, error) {
	remote, ok := p.pods.Remote(namespace, name)
	if !ok {
		return "", errdefs.NotFoundf("pod %s/%s is not offloaded through this node", namespace, name)
	}
	return remote, nil
}

func (p *remotePods) logs(ctx context.Context, namespace, name, container string, opts api.ContainerLogOpts) (io.ReadCloser, error) {
	remote, err := p.remoteNamespace(namespace, name)
	if err != nil {
		return nil, err
	}
	stream, err := p.provider.core.Pods(remote).GetLogs(name, logOptions(container, opts)).Stream(ctx)
	if err != nil {
		return nil, withKind(fmt.Errorf("reading the log of the remote pod: %w", err))
	}
	return stream, nil
}

// logOptions converts the library's options, in which zero means unset.
func logOptions(container string, opts api.ContainerLogOpts) *corev1.PodLogOptions {
	out := &corev1.PodLogOptions{
		Container: container, Follow: opts.Follow, Previous: opts.Previous, Timestamps: opts.Timestamps,
		TailLines: nonZero(opts.Tail), LimitBytes: nonZero(opts.LimitBytes), SinceSeconds: nonZero(opts.SinceSeconds),
	}
	if !opts.SinceTime.IsZero() {
		out.SinceTime = &metav1.Time{Time: opts.SinceTime}
	}
	return out
}

func nonZero(n int) *int64 {
	if n == 0 {
		return nil
	}
	value := int64(n)
	return &value
}

func (p *remotePods) exec(ctx context.Context, namespace, name, container string, command []string, io api.AttachIO) error {
	return p.stream(ctx, namespace, name, "exec", &corev1.PodExecOptions{
		Container: container, Command: command, TTY: io.TTY(),
		Stdin: io.Stdin() != nil, Stdout: io.Stdout() != nil, Stderr: io.Stderr() != nil,
	}, io)
}

func (p *remotePods) attach(ctx context.Context, namespace, name, container string, io api.AttachIO) error {
	return p.stream(ctx, namespace, name, "attach", &corev1.PodAttachOptions{
		Container: container, TTY: io.TTY(),
		Stdin: io.Stdin() != nil, Stdout: io.Stdout() != nil, Stderr: io.Stderr() != nil,
	}, io)
}

func (p *remotePods) stream(ctx context.Context, namespace, name, subresource string, options runtime.Object, io api.AttachIO) error {
	remote, err := p.remoteNamespace(namespace, name)
	if err != nil {
		return err
	}
	url := p.provider.core.RESTClient().Post().Namespace(remote).Resource("pods").Name(name).SubResource(subresource).
		VersionedParams(options, clientgoscheme.ParameterCodec).URL()
	executor, err := remotecluster.Executor(p.provider.config, url)
	if err != nil {
		return fmt.Errorf("preparing %s in the remote pod: %w", subresource, err)
	}
	streams := remotecommand.StreamOptions{Stdin: io.Stdin(), Tty: io.TTY()}
	if out := io.Stdout(); out != nil {
		streams.Stdout = out
	}
	if out := io.Stderr(); out != nil {
		streams.Stderr = out
	}
	if io.TTY() {
		streams.TerminalSizeQueue = terminalSizes{ctx: ctx, from: io.Resize()}
	}
	err = executor.StreamWithContext(ctx, streams)
	var exit utilexec.ExitError
	if err == nil || errors.As(err, &exit) {
		return err //nolint:wrapcheck // The library reads the exit code from the error's type.
	}
	return withKind(fmt.Errorf("%s in the remote pod: %w", subresource, err))
}

// terminalSizes forwards the sizes of the client's terminal.
type terminalSizes struct {
	ctx  context.Context
	from <-chan api.TermSize
}

// Next implements remotecommand.TerminalSizeQueue.
func (s terminalSizes) Next() *remotecommand.TerminalSize {
	select {
	case <-s.ctx.Done():
		return nil
	case size, ok := <-s.from:
		if !ok {
			return nil
		}
		return &remotecommand.TerminalSize{Width: size.Width, Height: size.Height}
	}
}

// portForward connects a stream of the client with a port of the remote pod.
func (p *remotePods) portForward(ctx context.Context, namespace, name string, port int32, client io.ReadWriteCloser) error {
	remote, err := p.remoteNamespace(namespace, name)
	if err != nil {
		return err
	}
	url := p.provider.core.RESTClient().Post().Namespace(remote).Resource("pods").Name(name).SubResource("portforward").URL()
	connection, err := remotecluster.Dial(ctx, p.provider.config, url, portforward.PortForwardProtocolV1Name)
	if err != nil {
		return withKind(fmt.Errorf("connecting to the remote pod: %w", err))
	}
	defer func() { _ = connection.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = connection.Close() })
	defer stop()

	headers := http.Header{}
	headers.Set(corev1.PortHeader, strconv.Itoa(int(port)))
	headers.Set(corev1.PortForwardRequestIDHeader, "0")
	headers.Set(corev1.StreamType, corev1.StreamTypeError)
	errorStream, err := connection.CreateStream(headers)
	if err != nil {
		return fmt.Errorf("opening port %d of the remote pod: %w", port, err)
	}
	// The server waits until the client's side is closed; nothing is written to it.
	_ = errorStream.Close()
	headers.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err := connection.CreateStream(headers)
	if err != nil {
		return fmt.Errorf("opening port %d of the remote pod: %w", port, err)
	}
	return exchange(client, data, errorStream, func() { _ = connection.Close() })
}

// exchange copies in both directions until the remote end closes data, and returns the error
// that it reports. It closes the connection when the client has disconnected, because the
// remote end may stay open.
func exchange(client io.ReadWriteCloser, data io.ReadWriteCloser, errorStream io.Reader, closeConnection func()) error {
	var group sync.WaitGroup
	var message []byte
	group.Go(func() { message, _ = io.ReadAll(errorStream) })
	go func() {
		// Not awaited: the client may stay connected after the remote end has closed.
		_, _ = io.Copy(data, client)
		_ = data.Close()
	}()
	writer := &clientWriter{Writer: client}
	_, err := io.Copy(writer, data)
	if writer.hasFailed {
		closeConnection()
	}
	group.Wait()
	switch {
	case len(message) > 0:
		return errors.New(string(message))
	case err != nil:
		return fmt.Errorf("copying from the remote pod: %w", err)
	}
	return nil
}

// clientWriter records whether writing to the client has failed.
type clientWriter struct {
	io.Writer
	hasFailed bool
}

// Write implements io.Writer.
func (w *clientWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	w.hasFailed = err != nil
	return n, err //nolint:wrapcheck // The wrapped writer's error.
}

// withKind converts an API error into the kinds of the library.
func withKind(err error) error {
	switch {
	case apierrors.IsNotFound(err):
		return errdefs.AsNotFound(err)
	case apierrors.IsBadRequest(err), apierrors.IsInvalid(err):
		return errdefs.AsInvalidInput(err)
	default:
		return err
	}
}
