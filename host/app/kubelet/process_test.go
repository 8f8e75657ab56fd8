package kubelet_test

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/longshore-dev/longshore/host/app/kubelet"
	"github.com/longshore-dev/longshore/host/internal/testkit/chartrights"
)

// childVariable is set for a child process that runs a virtual kubelet, so that tests can kill
// it. Its value is a file with childOptions.
const childVariable = "LONGSHORE_TEST_VIRTUAL_KUBELET"

func TestMain(m *testing.M) {
	if file := os.Getenv(childVariable); file != "" {
		os.Exit(runChild(file))
	}
	ctrl.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// childOptions are the options of a virtual kubelet in a child process.
type childOptions struct {
	Kubeconfig, NodeIP, PolicyCache string
	ClientTimeout                   time.Duration
	// Identity and ListenPort are set for a second replica.
	Identity   string
	ListenPort int
	// SharedProcess is set for a shared process.
	SharedProcess string
}

// runChild runs a virtual kubelet until it is killed or its parent ends.
func runChild(file string) (code int) {
	log := funcr.NewJSON(func(line string) { _, _ = os.Stderr.WriteString(line + "\n") }, funcr.Options{LogTimestamp: true, Verbosity: 1})
	ctrl.SetLogger(log)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // ends with the parent
		cancel()
	}()
	if err := serveChild(ctrl.LoggerInto(ctx, log), file); err != nil {
		log.Error(err, "The virtual kubelet ended")
		return 1
	}
	return 0
}

func serveChild(ctx context.Context, file string) error {
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var options childOptions
	if err := json.Unmarshal(raw, &options); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", options.Kubeconfig)
	if err != nil {
		return err
	}
	account := nodeName
	if options.SharedProcess != "" {
		account = options.SharedProcess
	}
	o := optionsFor(chartrights.ImpersonateAndLog(config, tenant, account, os.Stderr), options.NodeIP, options.PolicyCache)
	o.CertificateType, o.ClientTimeout = string(kubelet.CertificateSelfSigned), options.ClientTimeout
	if options.Identity != "" {
		o.Identity, o.ListenPort = options.Identity, options.ListenPort
	}
	if options.SharedProcess != "" {
		o.SharedProcess, o.NodeName, o.ForeignKubeconfigSecretName = options.SharedProcess, kubelet.DefaultOptions().NodeName, ""
	}
	app, err := kubelet.New(ctx, o)
	if err != nil {
		return err
	}
	return app.Run(ctx)
}

// child is a virtual kubelet in a child process.
type child struct {
	command *exec.Cmd
	stdin   io.Closer
	ended   bool
}

// startChild starts a virtual kubelet and kills it when the test ends. If the test has failed,
// the end of its log is printed.
func startChild(t *testing.T, options childOptions) *child {
	t.Helper()
	dir := t.TempDir()
	raw, err := json.Marshal(options)
	require.NoError(t, err)
	file, logFile := filepath.Join(dir, "options.json"), filepath.Join(dir, "log")
	require.NoError(t, os.WriteFile(file, raw, 0o600))
	log, err := os.Create(logFile)
	require.NoError(t, err)
	t.Cleanup(func() { log.Close() })
	binary, err := os.Executable()
	require.NoError(t, err)
	command := exec.Command(binary)
	command.Env = append(os.Environ(), childVariable+"="+file)
	command.Stdout, command.Stderr = log, log
	stdin, err := command.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	c := &child{command: command, stdin: stdin}
	t.Cleanup(func() {
		c.kill(t)
		content, err := os.ReadFile(logFile)
		assert.NoError(t, err)
		chartrights.AssertNoneDenied(t, content)
		if t.Failed() {
			const tail = 20000
			t.Logf("the virtual kubelet's log:\n%s", content[max(0, len(content)-tail):])
		}
	})
	return c
}

// kill kills the process and waits until it has ended.
func (c *child) kill(t *testing.T) {
	t.Helper()
	if c.ended {
		return
	}
	c.ended = true
	require.NoError(t, c.command.Process.Kill())
	require.ErrorContains(t, c.command.Wait(), "signal: killed", "the process did not end before")
	c.stdin.Close()
}

// end ends the process and waits until it has ended.
func (c *child) end(t *testing.T) {
	t.Helper()
	c.ended = true
	c.stdin.Close()
	require.NoError(t, c.command.Wait())
}

// awaitExit waits until the process ends by itself with an error.
func (c *child) awaitExit(t *testing.T) {
	t.Helper()
	c.ended = true
	require.ErrorContains(t, c.command.Wait(), "exit status 1")
	c.stdin.Close()
}
