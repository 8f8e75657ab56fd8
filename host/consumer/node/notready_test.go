package node

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/longshore-dev/longshore/host/forge/local"
)

func TestNodeIsNotReadyUntilThePodsCanRun(t *testing.T) {
	notReady := &local.NotReady{Reason: "PoliciesNotLoaded", Message: "Policies are being loaded"}
	condition := func(n *Node) corev1.NodeCondition {
		for _, c := range n.desired().Status.Conditions {
			if c.Type == corev1.NodeReady {
				return c
			}
		}
		return corev1.NodeCondition{}
	}
	existing := func(status corev1.ConditionStatus) *corev1.Node {
		return &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}}}
	}
	for name, tc := range map[string]struct {
		server     *corev1.Node
		wantStatus corev1.ConditionStatus
		wantReason string
	}{
		"a new node":                                   {nil, corev1.ConditionFalse, "PoliciesNotLoaded"},
		"a node without conditions":                    {&corev1.Node{}, corev1.ConditionFalse, "PoliciesNotLoaded"},
		"a node that the node controller marked":       {existing(corev1.ConditionUnknown), corev1.ConditionFalse, "PoliciesNotLoaded"},
		"a node that was ready before a restart stays": {existing(corev1.ConditionTrue), corev1.ConditionTrue, "KubeletReady"},
	} {
		t.Run(name, func(t *testing.T) {
			current := notReady
			n := newNode(t, fake.NewClientset(), func(o *Options) { o.NotReady = func() *local.NotReady { return current } })
			n.server = tc.server
			assert.Equal(t, tc.wantStatus, condition(n).Status)
			assert.Equal(t, tc.wantReason, condition(n).Reason)
			n.setPublished(n.desired())
			current = nil
			assert.Equal(t, corev1.ConditionTrue, condition(n).Status)
		})
	}
}

// TestARefreshIsPublishedAtOnce compares it with other changes, which wait for the record of a ping.
func TestARefreshIsPublishedAtOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Node)
		want   time.Duration
	}{
		"policies were loaded": {(*Node).Refresh, 0},
		"a ping succeeded":     {(*Node).wake, publishDelay},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, fake.NewClientset(), func(*Options) {})
			synctest.Test(t, func(t *testing.T) {
				n.changed, n.refreshed = make(chan struct{}, 1), make(chan struct{}, 1)
				ctx, cancel := context.WithCancel(t.Context())
				var group sync.WaitGroup
				published := make(chan time.Time, 1)
				(&notifier{node: n, group: &group}).NotifyNodeStatus(ctx, func(*corev1.Node) { published <- time.Now() })
				began := time.Now()
				tc.change(n)
				assert.Equal(t, tc.want, (<-published).Sub(began))
				cancel()
				group.Wait()
			})
		})
	}
}
