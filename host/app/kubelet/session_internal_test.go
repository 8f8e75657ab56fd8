package kubelet

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// part is a part of a session. It is closed when it starts.
type part chan struct{}

func (p part) Run(ctx context.Context) error {
	close(p)
	<-ctx.Done()
	return nil
}

// serverPart is a part that takes the context of streams.
type serverPart struct{ part }

func (p serverPart) Run(ctx, _ context.Context) error { return p.part.Run(ctx) }

func (part) VirtualNodeChanged(*offloadingv1beta1.VirtualNode)     {}
func (part) ForeignClusterChanged(*liqocorev1beta1.ForeignCluster) {}
func (part) Refresh()                                              {}

func TestNodeAndKubeletAPIDoNotWaitForPolicies(t *testing.T) {
	node, server, awaited := make(part), make(part), make(chan struct{})
	s := &session{node: node, server: serverPart{server}, awaitPolicies: func(ctx context.Context) bool {
		close(awaited)
		<-ctx.Done()
		return false
	}}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.run(ctx, ctx) }()
	<-node
	<-server
	<-awaited
	cancel()
	require.NoError(t, <-ended, "the engine, which is nil, does not run")
}
