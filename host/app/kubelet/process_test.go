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
}

// runKubelet runs a virtual kubelet in a child process.
func runKubelet(ctx context.Context, options childOptions) error {
	config, err := clientcmd.BuildConfigFromFlags("", options.Kubeconfig)
	if err != nil {
		return err
	}
	o := optionsFor(chartrights.ImpersonateAndLog(config, tenant, nodeName, os.Stderr), options.NodeIP, options.PolicyCache)
	o.CertificateType, o.ClientTimeout = string(kubelet.CertificateSelfSigned), options.ClientTimeout
	if options.Identity != "" {
		o.Identity, o.ListenPort = options.Identity, options.ListenPort
	}
	app, err := kubelet.New(ctx, o)
	if err != nil {
		return err
	}
	return app.Run(ctx)
}
