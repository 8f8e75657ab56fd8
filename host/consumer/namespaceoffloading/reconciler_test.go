package namespaceoffloading

import (
	"context"
	"fmt"
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
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
)

func offloading(change func(*offloadingv1beta1.NamespaceOffloading)) *offloadingv1beta1.NamespaceOffloading {
	nso := &offloadingv1beta1.NamespaceOffloading{
		ObjectMeta: metav1.ObjectMeta{Name: "offloading", Namespace: "shop", Finalizers: []string{offloadingv1beta1.NamespaceOffloadingFinalizer}},
		Spec: offloadingv1beta1.NamespaceOffloadingSpec{
			NamespaceMappingStrategy: offloadingv1beta1.DefaultNameMappingStrategyType,
			PodOffloadingStrategy:    offloadingv1beta1.LocalAndRemotePodOffloadingStrategyType,
		},
	}
	if change != nil {
		change(nso)
	}
	return nso
}

func namespaceMap(id string, desired map[string]string, current map[string]offloadingv1beta1.RemoteNamespaceStatus) *offloadingv1beta1.NamespaceMap {
	return &offloadingv1beta1.NamespaceMap{
		ObjectMeta: metav1.ObjectMeta{Name: id, Namespace: "liqo-tenant-" + id, Labels: map[string]string{
			liqocorev1beta1.ReplicationLabel: "true", liqocorev1beta1.RemoteIDLabel: id,
		}},
		Spec:   offloadingv1beta1.NamespaceMapSpec{DesiredMapping: desired},
		Status: offloadingv1beta1.NamespaceMapStatus{CurrentMapping: current},
	}
}

func node(name, id string) *offloadingv1beta1.VirtualNode {
	vn := virtualNode(name, id, nil)
	vn.Namespace = "liqo-tenant-" + id
	return &vn
}

type outcome struct {
	client.Client
	nso    *offloadingv1beta1.NamespaceOffloading
	err    error
	events []string
	writes int
	lists  int
	again  time.Duration
}

// withTenants adds the tenant namespaces of NamespaceMaps whose namespace does not exist.
func withTenants(objects []client.Object) []client.Object {
	existing := map[string]bool{}
	for _, obj := range objects {
		if namespace, ok := obj.(*corev1.Namespace); ok {
			existing[namespace.Name] = true
		}
	}
	for _, obj := range objects {
		if nm, ok := obj.(*offloadingv1beta1.NamespaceMap); ok && !existing[nm.Namespace] {
			existing[nm.Namespace] = true
			objects = append(objects, tenant(nm.Namespace, nm.Labels[liqocorev1beta1.RemoteIDLabel]))
		}
	}
	return objects
}

func tenant(name, cluster string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		liqocorev1beta1.TenantNamespaceLabel: "true", liqocorev1beta1.RemoteClusterIDLabel: cluster,
	}}}
}

func pass(t *testing.T, nso *offloadingv1beta1.NamespaceOffloading, existing ...client.Object) outcome {
	t.Helper()
	var out outcome
	recount := func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		pods, ok := list.(*corev1.PodList)
		if !ok {
			return c.List(ctx, list, opts...)
		}
		out.lists++
		return listPods(ctx, c, pods, opts)
	}
	out.Client = fakeclient.Builder(nso).WithObjects(withTenants(existing)...).
		WithInterceptorFuncs(interceptor.Funcs{
			List: recount,
			Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, p client.Patch, opts ...client.PatchOption) error {
				out.writes++
				return c.Patch(ctx, obj, p, opts...)
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
				out.writes++
				return c.SubResource(sub).Patch(ctx, obj, p, opts...)
			},
		}).Build()
	recorder := events.NewFakeRecorder(10)
	r := &Reconciler{Client: out.Client, APIReader: out.Client, Events: recorder, ClusterID: "rome",
		Clock: testclock.NewFakePassiveClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))}
	current := &offloadingv1beta1.NamespaceOffloading{}
	require.NoError(t, out.Get(t.Context(), client.ObjectKeyFromObject(nso), current))
	result, err := r.Reconcile(t.Context(), current)
	out.err, out.again = err, result.RequeueAfter
	out.nso = &offloadingv1beta1.NamespaceOffloading{}
	if err := out.Get(t.Context(), client.ObjectKeyFromObject(nso), out.nso); apierrors.IsNotFound(err) {
		out.nso = nil
	}
	close(recorder.Events)
	for e := range recorder.Events {
		out.events = append(out.events, e)
	}
	return out
}

func (o outcome) desired(t *testing.T, id string) map[string]string {
	t.Helper()
	nm := &offloadingv1beta1.NamespaceMap{}
	require.NoError(t, o.Get(t.Context(), client.ObjectKey{Namespace: "liqo-tenant-" + id, Name: id}, nm))
	return nm.Spec.DesiredMapping
}

func (o outcome) labeled(t *testing.T) bool {
	t.Helper()
	namespace := &corev1.Namespace{}
	require.NoError(t, o.Get(t.Context(), client.ObjectKey{Name: "shop"}, namespace))
	return namespace.Labels[offloadingv1beta1.SchedulingEnabledLabel] == "true"
}

func shop(labels ...string) *corev1.Namespace {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{}}}
	for _, label := range labels {
		namespace.Labels[label] = "true"
	}
	return namespace
}

func TestANamespaceIsMappedAndLabeled(t *testing.T) {
	out := pass(t, offloading(nil), shop(), node("a", "milan"), namespaceMap("milan", map[string]string{"other": "kept"}, nil))
	require.NoError(t, out.err)
	assert.Equal(t, map[string]string{"other": "kept", "shop": "shop-rome"}, out.desired(t, "milan"))
	assert.True(t, out.labeled(t))
	assert.Equal(t, offloadingv1beta1.InProgressOffloadingPhaseType, out.nso.Status.OffloadingPhase)
	assert.Equal(t, "shop-rome", out.nso.Status.RemoteNamespaceName)
}

func TestOnlyNamespaceMapsInTheTenantNamespaceOfTheirClusterCount(t *testing.T) {
	forged := func(namespace string) *offloadingv1beta1.NamespaceMap {
		nm := namespaceMap("milan", nil, map[string]offloadingv1beta1.RemoteNamespaceStatus{
			"shop": {RemoteNamespace: "shop-rome", Phase: offloadingv1beta1.MappingAccepted},
		})
		nm.Namespace, nm.Name = namespace, "zz-forged"
		return nm
	}
	for name, namespace := range map[string]*corev1.Namespace{
		"a namespace of a user":                    {ObjectMeta: metav1.ObjectMeta{Name: "zz-user"}},
		"the tenant namespace of another provider": tenant("zz-tenant", "oslo"),
		"a namespace with the label of a cluster only": {ObjectMeta: metav1.ObjectMeta{
			Name: "zz-labeled", Labels: map[string]string{liqocorev1beta1.RemoteClusterIDLabel: "milan"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			nm := forged(namespace.Name)
			out := pass(t, offloading(nil), shop(), node("a", "milan"), namespaceMap("milan", nil, nil), namespace, nm)
			require.NoError(t, out.err)
			assert.Contains(t, out.desired(t, "milan"), "shop")
			current := &offloadingv1beta1.NamespaceMap{}
			require.NoError(t, out.Get(t.Context(), client.ObjectKeyFromObject(nm), current))
			assert.Empty(t, current.Spec.DesiredMapping)
			assert.Equal(t, offloadingv1beta1.InProgressOffloadingPhaseType, out.nso.Status.OffloadingPhase)
			assert.NotContains(t, out.nso.Status.RemoteNamespacesConditions, "zz-forged")
		})
	}
}

func TestTheOldestOfTwoNamespaceMapsOfAClusterCounts(t *testing.T) {
	older := namespaceMap("milan", nil, nil)
	older.CreationTimestamp = metav1.NewTime(noon.Add(-time.Hour))
	newer := namespaceMap("milan", nil, nil)
	newer.Namespace, newer.CreationTimestamp = "liqo-tenant-zz", metav1.NewTime(noon)
	out := pass(t, offloading(nil), shop(), node("a", "milan"), older, newer)
	require.NoError(t, out.err)
	assert.Contains(t, out.desired(t, "milan"), "shop")
	current := &offloadingv1beta1.NamespaceMap{}
	require.NoError(t, out.Get(t.Context(), client.ObjectKeyFromObject(newer), current))
	assert.Empty(t, current.Spec.DesiredMapping)
}

func TestATenantNamespaceThatGetsItsLabelsEnqueuesEveryOffloading(t *testing.T) {
	r := &Reconciler{Client: fakeclient.Builder(offloading(nil)).Build()}
	want := reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "shop", Name: "offloading"}}
	assert.Contains(t, r.relatedToNamespace(t.Context(), tenant("liqo-tenant-milan", "milan")), want)
	assert.Equal(t, []reconcile.Request{want}, r.relatedToNamespace(t.Context(), shop()))
}

func TestReconcileWithoutAChangeWritesNothing(t *testing.T) {
	first := pass(t, offloading(nil), shop(), node("a", "milan"), namespaceMap("milan", nil, nil))
	again := pass(t, first.nso, shop(offloadingv1beta1.SchedulingEnabledLabel), node("a", "milan"),
		namespaceMap("milan", map[string]string{"shop": "shop-rome"}, nil))
	require.NoError(t, again.err)
	assert.Zero(t, again.writes)
}

func TestTheStrategyLocalRemovesTheLabel(t *testing.T) {
	local := offloading(func(n *offloadingv1beta1.NamespaceOffloading) {
		n.Spec.PodOffloadingStrategy = offloadingv1beta1.LocalPodOffloadingStrategyType
	})
	out := pass(t, local, shop(offloadingv1beta1.SchedulingEnabledLabel), node("a", "milan"), namespaceMap("milan", nil, nil))
	require.NoError(t, out.err)
	assert.False(t, out.labeled(t))
	assert.Contains(t, out.desired(t, "milan"), "shop", "the namespace is mapped")
}

func TestAProviderWithoutANamespaceMapDoesNotBlockOthers(t *testing.T) {
	// The virtual kubelet of oslo lacks its kubeconfig, so oslo has no NamespaceMap.
	out := pass(t, offloading(nil), shop(), node("a", "milan"), node("b", "oslo"), namespaceMap("milan", nil, nil))
	require.NoError(t, out.err, "its NamespaceMap is watched")
	assert.Contains(t, out.desired(t, "milan"), "shop")
	assert.True(t, out.labeled(t), "pods may go to milan")
	conditions := out.nso.Status.RemoteNamespacesConditions["oslo"]
	require.Len(t, conditions, 2)
	assert.Equal(t, corev1.ConditionTrue, conditions[0].Status)
	assert.Equal(t, corev1.ConditionFalse, conditions[1].Status)
	assert.Contains(t, conditions[1].Message, "VirtualNode")
}

func TestAFullNamespaceMapIsReported(t *testing.T) {
	desired := map[string]string{}
	for i := range offloadingv1beta1.MaxMappings {
		desired[fmt.Sprint("other-", i)] = "other"
	}
	out := pass(t, offloading(nil), node("milan", "milan"), namespaceMap("milan", desired, nil))
	require.ErrorContains(t, out.err, "NamespaceMap liqo-tenant-milan/milan has 1000 namespaces")
	require.Len(t, out.events, 1)
	assert.Contains(t, out.events[0], "NamespaceMapFull Not offloaded: NamespaceMap liqo-tenant-milan/milan has 1000 namespaces, the most that one provider gets")
}

func TestAnInvalidSelectorIsReportedAndChangesNothing(t *testing.T) {
	broken := offloading(func(n *offloadingv1beta1.NamespaceOffloading) {
		n.Spec.ClusterSelector = corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "region", Operator: "Is"}},
		}}}
	})
	out := pass(t, broken, shop(), node("a", "milan"), namespaceMap("milan", map[string]string{"shop": "shop-rome"}, nil))
	require.Error(t, out.err)
	require.Len(t, out.events, 1)
	assert.Contains(t, out.events[0], "Invalid")
	assert.Contains(t, out.desired(t, "milan"), "shop")
}

func TestDeletionRemovesLabelMappingAndFinalizerInOrder(t *testing.T) {
	now := metav1.Now()
	deleting := func(n *offloadingv1beta1.NamespaceOffloading) { n.DeletionTimestamp = &now }
	accepted := map[string]offloadingv1beta1.RemoteNamespaceStatus{
		"shop": {RemoteNamespace: "shop-rome", Phase: offloadingv1beta1.MappingAccepted},
	}
	out := pass(t, offloading(deleting), shop(offloadingv1beta1.SchedulingEnabledLabel), node("a", "milan"),
		namespaceMap("milan", map[string]string{"shop": "shop-rome"}, accepted))
	require.NoError(t, out.err)
	assert.False(t, out.labeled(t))
	assert.Empty(t, out.desired(t, "milan"))
	require.NotNil(t, out.nso, "it is kept while the provider has the namespace")
	assert.Equal(t, offloadingv1beta1.TerminatingOffloadingPhaseType, out.nso.Status.OffloadingPhase)

	held := map[string]offloadingv1beta1.RemoteNamespaceStatus{
		"shop": {RemoteNamespace: "shop-rome", Phase: offloadingv1beta1.MappingTerminating, Message: "The namespace has the finalizers example.com/keep"},
	}
	out = pass(t, offloading(deleting), shop(), node("a", "milan"), namespaceMap("milan", nil, held))
	require.NoError(t, out.err)
	require.NotNil(t, out.nso)
	require.Len(t, out.events, 1)
	assert.Contains(t, out.events[0], "RemoteFinalizers The remote namespace is being deleted. It waits in cluster milan: The namespace has the finalizers example.com/keep.")
	conditions := out.nso.Status.RemoteNamespacesConditions["milan"]
	assert.Equal(t, "Deleting", conditions[0].Reason, "not that no cluster is selected")
	assert.Contains(t, conditions[1].Message, "example.com/keep")

	out = pass(t, offloading(deleting), shop(), node("a", "milan"), namespaceMap("milan", nil, nil))
	require.NoError(t, out.err)
	assert.Nil(t, out.nso, "released")
}
