package kubelet

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// started is a part of a session that says when it starts.
type started chan struct{}

func (s started) Run(ctx context.Context) error {
	close(s)
	<-ctx.Done()
	return nil
}

func (s started) VirtualNodeChanged(*offloadingv1beta1.VirtualNode) {}

// The Node has its lease and the kubelet API serves while policies are still compiled;
// nothing is reflected before.
func TestTheNodeDoesNotWaitForPolicies(t *testing.T) {
	node, server, asked := make(started), make(started), make(chan struct{})
	s := &session{node: node, server: server, awaitPolicies: func(ctx context.Context) bool {
		close(asked)
		<-ctx.Done()
		return false
	}}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.run(ctx) }()
	<-node
	<-server
	<-asked
	cancel()
	require.NoError(t, <-ended, "an engine that runs too early would have met a nil pointer")
}
