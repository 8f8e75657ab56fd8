package namespaceoffloading

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// inEurope is a reconciled NamespaceOffloading that selects nodes of region eu.
func inEurope(change func(*offloadingv1beta1.NamespaceOffloading)) *offloadingv1beta1.NamespaceOffloading {
	return offloading(func(n *offloadingv1beta1.NamespaceOffloading) {
		n.Generation, n.Status.ObservedGeneration = 3, 3
		n.Spec.ClusterSelector = corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "region", Operator: corev1.NodeSelectorOpIn, Values: []string{"eu"}}},
		}}}
		if change != nil {
			change(n)
		}
	})
}

// deselected sets the condition of milan since when no node matches.
func deselected(since time.Time) func(*offloadingv1beta1.NamespaceOffloading) {
	return func(n *offloadingv1beta1.NamespaceOffloading) {
		n.Status.RemoteNamespacesConditions = map[string]offloadingv1beta1.RemoteNamespaceConditions{"milan": {{
			Type: offloadingv1beta1.NamespaceOffloadingRequired, Status: corev1.ConditionTrue, Reason: "WithdrawalPending", LastTransitionTime: metav1.NewTime(since),
		}}}
	}
}

func labeled(name, region string) *offloadingv1beta1.VirtualNode {
	vn := node(name, "milan")
	vn.Spec.Labels = map[string]string{"region": region}
	return vn
}

func realNode(name string, labels map[string]string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{offloadingv1beta1.NodeTypeLabel: offloadingv1beta1.NodeTypeVirtual}}}
	for k, v := range labels {
		n.Labels[k] = v
	}
	return n
}

func usedBy(virtualNodes string) *offloadingv1beta1.NamespaceMap {
	nm := namespaceMap("milan", map[string]string{"shop": "shop-rome"}, nil)
	if virtualNodes != "" {
		nm.Annotations = map[string]string{"longshore.dev/virtual-nodes": virtualNodes}
	}
	return nm
}

func TestRetain(t *testing.T) {
	const a, b = "liqo-tenant-milan/a", "liqo-tenant-milan/b"
	us := map[string]string{"region": "us"}
	for name, tc := range map[string]struct {
		nso      *offloadingv1beta1.NamespaceOffloading
		existing []client.Object
		kept     bool
		reason   string
	}{
		"the only virtual node is gone without its finalizer": {
			nso: inEurope(nil), existing: []client.Object{usedBy(a)}, kept: true, reason: "VirtualNodeMissing"},
		"the same with a NamespaceMap of an earlier version": {
			nso: inEurope(nil), existing: []client.Object{usedBy("")}, kept: true, reason: "VirtualNodeMissing"},
		"the virtual node has another cluster ID": {
			nso: inEurope(nil), existing: []client.Object{usedBy(a), func() client.Object { vn := labeled("a", "eu"); vn.Spec.ClusterID = "oslo"; return vn }()},
			kept: true, reason: "VirtualNodeMissing"},
		"the virtual node that matched is gone without its finalizer, and another does not match": {
			nso: inEurope(deselected(noon.Add(-time.Hour))), existing: []client.Object{usedBy(a + "," + b), labeled("b", "us")}, kept: true, reason: "VirtualNodeMissing"},
		"the Node has lost a label that the virtual kubelet restores": {
			nso: inEurope(deselected(noon.Add(-time.Hour))), existing: []client.Object{usedBy(a), labeled("a", "eu"), realNode("a", nil)}, kept: true, reason: "ClusterSelected"},
		"the Node has lost a label that a user set": {
			nso: inEurope(nil), existing: []client.Object{usedBy(a), labeled("a", "us"), realNode("a", us)}, kept: true, reason: "WithdrawalPending"},
		"the label of a user is missing within the grace period": {
			nso: inEurope(deselected(noon.Add(-30 * time.Second))), existing: []client.Object{usedBy(a), labeled("a", "us"), realNode("a", us)}, kept: true, reason: "WithdrawalPending"},
		"the label of a user is missing after the grace period": {
			nso: inEurope(deselected(noon.Add(-2 * time.Minute))), existing: []client.Object{usedBy(a), labeled("a", "us"), realNode("a", us)}},
		"the user set the label again": {
			nso: inEurope(deselected(noon.Add(-time.Hour))), existing: []client.Object{usedBy(a), labeled("a", "us"), realNode("a", map[string]string{"region": "eu"})},
			kept: true, reason: "ClusterSelected"},
		"the selector has changed": {
			nso:      inEurope(func(n *offloadingv1beta1.NamespaceOffloading) { n.Generation = 4 }),
			existing: []client.Object{usedBy(a), labeled("a", "us"), realNode("a", us)}},
		"the virtual node that matched was withdrawn, and another does not match": {
			nso: inEurope(deselected(noon.Add(-2 * time.Minute))), existing: []client.Object{usedBy(b), labeled("b", "us")}},
	} {
		t.Run(name, func(t *testing.T) {
			out := pass(t, tc.nso, append(tc.existing, shop(offloadingv1beta1.SchedulingEnabledLabel))...)
			require.NoError(t, out.err)
			if !tc.kept {
				assert.Empty(t, out.desired(t, "milan"))
				return
			}
			assert.Contains(t, out.desired(t, "milan"), "shop")
			conditions := out.nso.Status.RemoteNamespacesConditions["milan"]
			require.NotEmpty(t, conditions)
			assert.Equal(t, corev1.ConditionTrue, conditions[0].Status)
			assert.Equal(t, tc.reason, conditions[0].Reason, conditions[0].Message)
			assert.Equal(t, tc.reason == "WithdrawalPending", out.again > 0, "a requeue at the end of the grace period")
		})
	}
}

func TestRemovingTheLastMappingNeedsTheCurrentVersion(t *testing.T) {
	now := metav1.NewTime(noon)
	nso := offloading(func(n *offloadingv1beta1.NamespaceOffloading) { n.DeletionTimestamp = &now })
	nm := usedBy("")
	c := fakeclient.Builder(nso, nm, shop(), tenant(nm.Namespace, "milan")).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if obj.GetName() == "milan" { // Another pass maps "store" after this one has read the map.
				other := &offloadingv1beta1.NamespaceMap{}
				require.NoError(t, c.Get(ctx, client.ObjectKeyFromObject(nm), other))
				other.Spec.DesiredMapping["store"] = "store-rome"
				require.NoError(t, c.Update(ctx, other))
			}
			return c.Patch(ctx, obj, patch, opts...)
		},
	}).Build()
	r := &Reconciler{Client: c, Events: events.NewFakeRecorder(10), ClusterID: "rome", Clock: testclock.NewFakePassiveClock(noon)}
	current := &offloadingv1beta1.NamespaceOffloading{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(nso), current))
	_, err := r.Reconcile(t.Context(), current)
	assert.True(t, apierrors.IsConflict(err), "want a conflict, got %v", err)
	after := &offloadingv1beta1.NamespaceMap{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(nm), after))
	assert.Contains(t, after.Spec.DesiredMapping, "store")
}
