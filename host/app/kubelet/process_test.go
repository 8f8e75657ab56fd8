package kubelet_test

import (
	"context"
	"os"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/longshore-dev/longshore/host/app/kubelet"
	"github.com/longshore-dev/longshore/host/internal/testkit/chartrights"
	"github.com/longshore-dev/longshore/host/internal/testkit/childprocess"
)

func TestMain(m *testing.M) { childprocess.Main(m, runKubelet) }

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

// runKubelet runs a virtual kubelet in a child process.
func runKubelet(ctx context.Context, options childOptions) error {
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
