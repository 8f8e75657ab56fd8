package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// reports collects the reports of a Node.
type reports struct {
	mu  sync.Mutex
	all []string
}

func (r *reports) add(_ context.Context, vn *offloadingv1beta1.VirtualNode, reason Reason, message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, fmt.Sprintf("%s %s: %s", vn.Name, reason, message))
}

func (r *reports) list() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.all...)
}

// rejectLabel makes the API server reject Nodes with the label "bad".
func rejectLabel(clientset *fake.Clientset, rejected chan<- struct{}) {
	clientset.PrependReactor("create", "nodes", func(action clienttesting.Action) (bool, runtime.Object, error) {
		node, ok := action.(clienttesting.CreateAction).GetObject().(*corev1.Node)
		if !ok || node.Labels["bad"] == "" {
			return false, nil, nil
		}
		select {
		case rejected <- struct{}{}:
		default:
		}
		return true, nil, apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Node").GroupKind(), node.Name,
			field.ErrorList{field.Invalid(field.NewPath("metadata", "labels"), "bad", "must be good")})
	})
}

func TestRejectedNodeIsReportedOnceAndRetriedAfterAChange(t *testing.T) {
	clientset := fake.NewClientset()
	rejected := make(chan struct{}, 100)
	rejectLabel(clientset, rejected)
	recorded := &reports{}
	labeled := func(value, other string) *offloadingv1beta1.VirtualNode {
		vn := virtualNode()
		vn.Spec.Labels = map[string]string{"other": other}
		if value != "" {
			vn.Spec.Labels["bad"] = value
		}
		return vn
	}
	n := newNode(t, clientset, func(o *Options) { o.VirtualNode, o.Report = labeled("yes", "1"), recorded.add })
	run(t, n)
	<-rejected
	require.Eventually(t, func() bool { return len(recorded.list()) == 1 }, patience, time.Millisecond)
	assert.Contains(t, recorded.list()[0], `milan-1 NodeRefused: The API server rejects the Node. Correct the VirtualNode:`)
	assert.Contains(t, recorded.list()[0], "metadata.labels: Invalid value")

	n.VirtualNodeChanged(labeled("yes", "2"))
	<-rejected
	n.VirtualNodeChanged(labeled("", "3"))
	require.Eventually(t, func() bool {
		_, err := clientset.CoreV1().Nodes().Get(t.Context(), "milan-1", metav1.GetOptions{})
		return err == nil
	}, patience, time.Millisecond)
	assert.Len(t, recorded.list(), 1, "one report of the same cause")
	assert.Empty(t, rejected, "an unchanged node is not sent again")
}

func TestUnreachableProviderIsReported(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		nodeExists bool
		pings      []error
		// pauses are the times before each ping.
		pauses []time.Duration
		want   int
	}{
		"at once without a Node":                 {pings: []error{errUnreachable}, want: 1},
		"once for messages with different ports": {pings: []error{errUnreachable, errors.New("from :4711 to :443: reset")}, want: 1},
		"again after the report interval":        {pings: []error{errUnreachable, errUnreachable}, pauses: []time.Duration{0, reportInterval}, want: 2},
		"not for one failed ping of a Node":      {nodeExists: true, pings: []error{errUnreachable, nil, errUnreachable}, want: 0},
		"for two failed pings of a Node":         {nodeExists: true, pings: []error{errUnreachable, errUnreachable}, want: 1},
		"again after an answer":                  {nodeExists: true, pings: []error{errUnreachable, errUnreachable, nil, errUnreachable, errUnreachable}, want: 2},
		"not while the provider answers":         {pings: []error{nil, nil}},
	} {
		t.Run(name, func(t *testing.T) {
			now, recorded := start, &reports{}
			var result error
			n := newNode(t, fake.NewClientset(), func(o *Options) {
				o.Now, o.Report = func() time.Time { return now }, recorded.add
				o.CheckProvider = func(context.Context) error { return result }
			})
			if tc.nodeExists {
				n.server = &corev1.Node{}
			}
			for i, ping := range tc.pings {
				if len(tc.pauses) > i {
					now = now.Add(tc.pauses[i])
				}
				result = ping
				assert.Equal(t, ping == nil, n.Ping(t.Context()) == nil)
			}
			require.Len(t, recorded.list(), tc.want)
			for _, message := range recorded.list() {
				assert.Contains(t, message, `milan-1 ProviderUnreachable: The Node is not registered or not renewed, because the provider cannot be reached: checking the API server of cluster "milan": connection refused`)
			}
		})
	}
}

func TestConditionsOfOtherClientsAreReportedAndUndone(t *testing.T) {
	recorded := &reports{}
	n := newNode(t, fake.NewClientset(), func(o *Options) { o.Report = recorded.add })
	n.server = n.desired()
	n.published = n.desired()
	n.reportForeignConditions(t.Context(), n.desired())
	assert.Empty(t, recorded.list())
	withoutNetwork(n.server, corev1.ConditionTrue)
	for range 2 {
		n.reportForeignConditions(t.Context(), n.desired())
	}
	require.Len(t, recorded.list(), 1, "a client that sets it again and again is reported once")
	assert.Equal(t, "milan-1 ForeignCondition: Another client set the condition NetworkUnavailable of the Node to True, and the virtual kubelet sets it back. "+
		"Exclude Nodes with the label liqo.io/type=virtual-node from that client. Its reason: NoRouteCreated: RouteController failed to create a route", recorded.list()[0])
}

func TestLaterRejectionsAreReported(t *testing.T) {
	rejection := apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Node").GroupKind(), "milan-1", nil)
	t.Run("of the status", func(t *testing.T) {
		recorded := &reports{}
		n := newNode(t, fake.NewClientset(), func(o *Options) { o.Report = recorded.add })
		for range 3 {
			require.ErrorIs(t, n.recreate(t.Context(), rejection), rejection)
		}
		assert.Len(t, recorded.list(), 1)
	})
	t.Run("of the taints", func(t *testing.T) {
		recorded, clientset := &reports{}, fake.NewClientset()
		clientset.PrependReactor("patch", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, rejection })
		n := newNode(t, clientset, func(o *Options) { o.Report = recorded.add })
		n.server = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "milan-1"}}
		n.applySpec(t.Context(), n.desired())
		assert.Len(t, recorded.list(), 1)
	})
}
