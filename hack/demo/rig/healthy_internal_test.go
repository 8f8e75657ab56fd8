package rig

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
)

func node(name string, status corev1.ConditionStatus, reason string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse, Reason: "Enough"},
			{Type: corev1.NodeReady, Status: status, Reason: reason},
		}},
	}
}

func TestHealthyAsksTheNodes(t *testing.T) {
	ready := func(name string) *corev1.Node { return node(name, corev1.ConditionTrue, "KubeletReady") }
	virtual := node("milan", corev1.ConditionFalse, "KubeletNotReady")
	virtual.Labels = map[string]string{offloadingv1beta1.NodeTypeLabel: offloadingv1beta1.NodeTypeVirtual}
	unknown := node("milan-worker-1", corev1.ConditionUnknown, "NodeStatusUnknown")
	unknown.Status.Conditions[1].Message = "Kubelet stopped posting node status."
	given := errors.New("not done after a minute")
	cases := map[string]struct {
		rome, milan []client.Object
		fails       error
		want        []string // of the error; none: healthy
	}{
		"every node is ready":       {rome: []client.Object{ready("rome-processes"), virtual}, milan: []client.Object{ready("milan-worker-1")}},
		"a node whose kwok is gone": {rome: []client.Object{ready("rome-processes")}, milan: []client.Object{ready("a"), unknown}, want: []string{`cluster "milan"`, "node milan-worker-1 is not ready: NodeStatusUnknown: Kubelet stopped posting node status.", given.Error()}},
		"a node without conditions": {rome: []client.Object{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "new"}}}, want: []string{`cluster "rome"`, "node new is not ready: it has no Ready condition"}},
		"no node at all":            {rome: []client.Object{ready("rome-processes")}, want: []string{`cluster "milan"`, "it has no nodes"}},
		"no answer":                 {fails: errors.New("connection refused"), want: []string{`cluster "rome" does not answer`, "connection refused"}},
	}
	for name, tc := range cases {
		// Its time is over from the start: it asks once.
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(given)
		answer := interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if tc.fails != nil {
				return tc.fails
			}
			return c.List(ctx, list, options...)
		}}
		cluster := func(name string, nodes []client.Object) *Cluster {
			return &Cluster{Name: name, Client: fakeclient.Builder(nodes...).WithInterceptorFuncs(answer).Build()}
		}
		r := &Rig{Rome: cluster("rome", tc.rome), Milan: cluster("milan", tc.milan)}
		err := r.Healthy(ctx, func(string) {})
		if len(tc.want) == 0 {
			require.NoError(t, err, name)
			continue
		}
		require.Error(t, err, name)
		for _, want := range tc.want {
			assert.ErrorContains(t, err, want, name)
		}
	}
}
