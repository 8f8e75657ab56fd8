package namespacemap

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
	"github.com/longshore-dev/longshore/host/forge/provider"
	"github.com/longshore-dev/longshore/host/peering/authentication"
)

type mapping = map[string]offloadingv1beta1.RemoteNamespaceStatus

func namespaceMap(desired map[string]string, current mapping) *offloadingv1beta1.NamespaceMap {
	return &offloadingv1beta1.NamespaceMap{
		ObjectMeta: metav1.ObjectMeta{
			Name: "milan", Namespace: "liqo-tenant-rome", Finalizers: []string{offloadingv1beta1.NamespaceMapFinalizer},
			Labels: map[string]string{liqocorev1beta1.OriginIDLabel: "rome", liqocorev1beta1.ReplicatedLabel: "true"},
		},
		Spec:   offloadingv1beta1.NamespaceMapSpec{DesiredMapping: desired},
		Status: offloadingv1beta1.NamespaceMapStatus{CurrentMapping: current},
	}
}

// reconcileOnce makes one pass in a provider with the consumers rome and oslo.
func reconcileOnce(t *testing.T, nm *offloadingv1beta1.NamespaceMap, existing ...client.Object) (client.Client, []string, error) {
	t.Helper()
	return reconcileIn(t, nm, append(existing, authentication.TenantNamespace("rome"), authentication.TenantNamespace("oslo"))...)
}

func reconcileIn(t *testing.T, nm *offloadingv1beta1.NamespaceMap, existing ...client.Object) (client.Client, []string, error) {
	t.Helper()
	c := fakeclient.Builder(nm).WithObjects(existing...).Build()
	recorder := events.NewFakeRecorder(10)
	current := &offloadingv1beta1.NamespaceMap{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(nm), current))
	_, err := (&Reconciler{Clock: clock.RealClock{}, Client: c, APIReader: c, Events: recorder}).Reconcile(t.Context(), current)
	close(recorder.Events)
	var seen []string
	for e := range recorder.Events {
		seen = append(seen, e)
	}
	return c, seen, err
}

func statusOf(t *testing.T, c client.Client) mapping {
	t.Helper()
	nm := &offloadingv1beta1.NamespaceMap{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: "liqo-tenant-rome", Name: "milan"}, nm))
	return nm.Status.CurrentMapping
}

func TestADesiredMappingGetsNamespaceAndRoleBinding(t *testing.T) {
	c, seen, err := reconcileOnce(t, namespaceMap(map[string]string{"shop": "shop-rome"}, nil))
	require.NoError(t, err)
	assert.Empty(t, seen)
	namespace := &corev1.Namespace{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Name: "shop-rome"}, namespace))
	assert.Equal(t, "rome", namespace.Labels["liqo.io/remote-cluster-id"])
	assert.Equal(t, "liqo-tenant-rome/milan", namespace.Annotations["liqo.io/managed-by-namespace-map"])
	assert.Equal(t, "shop", namespace.Annotations["liqo.io/original-name"])
	binding := &rbacv1.RoleBinding{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: "shop-rome", Name: "liqo-tenant-rome"}, binding))
	assert.Equal(t, []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "rome"}}, binding.Subjects)
	assert.Equal(t, "liqo-virtual-kubelet-remote", binding.RoleRef.Name)
	assert.Equal(t, mapping{"shop": {RemoteNamespace: "shop-rome", Phase: offloadingv1beta1.MappingAccepted}}, statusOf(t, c))
}

func TestAnUnmanagedNamespaceIsNotAdopted(t *testing.T) {
	cases := map[string]*corev1.Namespace{
		"an administrator's": {ObjectMeta: metav1.ObjectMeta{Name: "shop-rome"}},
		"another consumer's with a NamespaceMap of the same name": {ObjectMeta: metav1.ObjectMeta{Name: "shop-rome",
			Labels:      map[string]string{liqocorev1beta1.RemoteClusterIDLabel: "oslo"},
			Annotations: map[string]string{offloadingv1beta1.ManagedByNamespaceMapAnnotation: "liqo-tenant-rome/milan"}}},
	}
	for name, namespace := range cases {
		t.Run(name, func(t *testing.T) {
			c, seen, err := reconcileOnce(t, namespaceMap(map[string]string{"shop": "shop-rome"}, nil), namespace)
			require.ErrorIs(t, err, errNotManaged)
			require.Len(t, seen, 1)
			assert.Contains(t, seen[0], errNotManaged.Error())
			assert.Equal(t, offloadingv1beta1.MappingCreationLoopBackOff, statusOf(t, c)["shop"].Phase)
			bindings := &rbacv1.RoleBindingList{}
			require.NoError(t, c.List(t.Context(), bindings))
			assert.Empty(t, bindings.Items, "no subject is bound")
		})
	}
}

func TestAMappingThatIsNoLongerDesiredIsRemovedWithItsNamespace(t *testing.T) {
	nm := namespaceMap(nil, mapping{"shop": {RemoteNamespace: "shop-rome", Phase: offloadingv1beta1.MappingAccepted}})
	c, _, err := reconcileOnce(t, nm, provider.Namespace(nm, "rome", "shop", "shop-rome"))
	require.NoError(t, err)
	assert.Equal(t, offloadingv1beta1.MappingTerminating, statusOf(t, c)["shop"].Phase, "until the namespace is gone")
	assert.Error(t, c.Get(t.Context(), client.ObjectKey{Name: "shop-rome"}, &corev1.Namespace{}))

	current := &offloadingv1beta1.NamespaceMap{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(nm), current))
	_, err = (&Reconciler{Clock: clock.RealClock{}, Client: c, APIReader: c, Events: events.NewFakeRecorder(1)}).Reconcile(t.Context(), current)
	require.NoError(t, err)
	assert.Empty(t, statusOf(t, c))
}

// A namespace that does not end says why, in the status that the consumer reads.
func TestTheConsumerLearnsWhatKeepsANamespace(t *testing.T) {
	nm := namespaceMap(nil, mapping{"shop": {RemoteNamespace: "shop-rome", Phase: offloadingv1beta1.MappingTerminating}})
	namespace := provider.Namespace(nm, "rome", "shop", "shop-rome")
	at := metav1.Now()
	namespace.DeletionTimestamp, namespace.Finalizers = &at, []string{"example.com/keep"}
	namespace.Status.Conditions = []corev1.NamespaceCondition{
		{Type: corev1.NamespaceContentRemaining, Status: corev1.ConditionTrue, Message: "Some resources are remaining: pods. has 1 resource instances"},
		{Type: corev1.NamespaceFinalizersRemaining, Status: corev1.ConditionTrue, Message: "Some content in the namespace has finalizers remaining: a.example/b in 1 resource instances"},
		{Type: corev1.NamespaceDeletionDiscoveryFailure, Status: corev1.ConditionFalse, Message: "All resources successfully discovered"},
	}
	pod := func(name string, ends *metav1.Time, finalizers ...string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", Name: name, DeletionTimestamp: ends, Finalizers: finalizers}}
	}
	c, _, err := reconcileOnce(t, nm, namespace, pod("web", &at, "a.example/b"), pod("not-deleted-yet", nil))
	require.NoError(t, err)
	assert.Equal(t, "The namespace has the finalizers example.com/keep. Some content in the namespace has finalizers remaining: a.example/b in 1 resource instances. "+
		"Pod web has the finalizers a.example/b", statusOf(t, c)["shop"].Message)

	late := metav1.Date(2090, 4, 14, 3, 0, 0, 0, time.UTC)
	patient, usual := pod("web", &late), pod("usual", &late)
	patient.DeletionGracePeriodSeconds, usual.DeletionGracePeriodSeconds = ptr.To[int64](2_000_000_000), ptr.To[int64](30)
	assert.Equal(t, "Pod web may end as late as 2090-04-14T03:00:00Z", heldBy(&corev1.Namespace{}, []corev1.Pod{*patient, *usual}))
}

// A consumer may ask for a namespace without a name: it gets none, and its NamespaceMap ends like any other.
func TestAMappingWithoutRemoteNameEnds(t *testing.T) {
	nm := namespaceMap(map[string]string{"shop": ""}, nil)
	c, seen, _ := reconcileOnce(t, nm)
	assert.Len(t, seen, 1)
	assert.Equal(t, offloadingv1beta1.MappingCreationLoopBackOff, statusOf(t, c)["shop"].Phase)

	nm = namespaceMap(nil, mapping{"shop": {Phase: offloadingv1beta1.MappingCreationLoopBackOff}})
	nm.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	c, _, err := reconcileOnce(t, nm)
	require.NoError(t, err)
	err = c.Get(t.Context(), client.ObjectKeyFromObject(nm), nm)
	assert.True(t, apierrors.IsNotFound(err), "its finalizer is removed: %v", err)
}

func TestAnUnmanagedNamespaceIsNotDeleted(t *testing.T) {
	nm := namespaceMap(nil, mapping{"shop": {RemoteNamespace: "shop-rome", Phase: offloadingv1beta1.MappingCreationLoopBackOff}})
	c, _, err := reconcileOnce(t, nm, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop-rome"}})
	require.NoError(t, err)
	assert.Empty(t, statusOf(t, c))
	assert.NoError(t, c.Get(t.Context(), client.ObjectKey{Name: "shop-rome"}, &corev1.Namespace{}))
}

func TestTwoMappingsToOneRemoteNamespace(t *testing.T) {
	desired := map[string]string{"cart": "shared", "shop": "shared"}
	nm := namespaceMap(desired, nil)
	c, seen, err := reconcileOnce(t, nm)
	require.NoError(t, err)
	require.Len(t, seen, 1)
	assert.Contains(t, seen[0], `already mapped to local namespace "cart"`)
	status := statusOf(t, c)
	assert.Equal(t, offloadingv1beta1.MappingAccepted, status["cart"].Phase)
	assert.Equal(t, offloadingv1beta1.MappingCreationLoopBackOff, status["shop"].Phase)

	// Removing the rejected mapping keeps the namespace of the accepted one.
	current := &offloadingv1beta1.NamespaceMap{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(nm), current))
	delete(current.Spec.DesiredMapping, "shop")
	require.NoError(t, c.Update(t.Context(), current))
	_, err = (&Reconciler{Clock: clock.RealClock{}, Client: c, APIReader: c, Events: events.NewFakeRecorder(1)}).Reconcile(t.Context(), current)
	require.NoError(t, err)
	assert.NoError(t, c.Get(t.Context(), client.ObjectKey{Name: "shared"}, &corev1.Namespace{}))
	assert.NotContains(t, statusOf(t, c), "shop")
}

func TestAnAcceptedMappingKeepsItsRemoteNamespace(t *testing.T) {
	// "cart" comes later, and first in the alphabet.
	desired := map[string]string{"cart": "shared", "shop": "shared"}
	nm := namespaceMap(desired, mapping{"shop": {RemoteNamespace: "shared", Phase: offloadingv1beta1.MappingAccepted}})
	c, seen, err := reconcileOnce(t, nm, provider.Namespace(nm, "rome", "shop", "shared"))
	require.NoError(t, err, "only another mapping can help, and that is an event")
	require.Len(t, seen, 1)
	assert.Contains(t, seen[0], `already mapped to local namespace "shop"`)
	status := statusOf(t, c)
	assert.Equal(t, offloadingv1beta1.MappingAccepted, status["shop"].Phase, "pods run in the namespace")
	assert.Equal(t, offloadingv1beta1.MappingCreationLoopBackOff, status["cart"].Phase)
}

func TestTheRemoteNamespaceOfAnotherMappingIsNotAdopted(t *testing.T) {
	// "shop" is no longer desired, and the cache still has its namespace.
	nm := namespaceMap(map[string]string{"cart": "shared"}, nil)
	c, seen, err := reconcileOnce(t, nm, provider.Namespace(nm, "rome", "shop", "shared"))
	require.NoError(t, err, "the deletion of the namespace causes an event")
	require.Len(t, seen, 1)
	assert.Contains(t, seen[0], `belongs to local namespace "shop"`)
	assert.Equal(t, offloadingv1beta1.MappingCreationLoopBackOff, statusOf(t, c)["cart"].Phase, "it would be deleted under its pods (T75)")
}

func TestATerminatingNamespaceIsWaitedForWithoutAnEvent(t *testing.T) {
	nm := namespaceMap(map[string]string{"shop": "shop-rome"}, mapping{"shop": {RemoteNamespace: "shop-rome", Phase: offloadingv1beta1.MappingTerminating}})
	namespace := provider.Namespace(nm, "rome", "shop", "shop-rome")
	now := metav1.Now()
	namespace.Finalizers, namespace.DeletionTimestamp = []string{"example.com/slow"}, &now
	c, seen, err := reconcileOnce(t, nm, namespace)
	require.NoError(t, err, "the deletion of the namespace causes an event")
	assert.Empty(t, seen)
	assert.Equal(t, mapping{"shop": {RemoteNamespace: "shop-rome", Phase: offloadingv1beta1.MappingTerminating, Message: "The namespace has the finalizers example.com/slow"}}, statusOf(t, c))
}

// A namespace that is deleted although it is requested keeps its phase, so that the consumer ends none of
// its pods, and says so, until it is created again.
func TestTheConsumerLearnsThatItsNamespaceIsDeleted(t *testing.T) {
	nm, namespace, binding := accepted()
	now := metav1.Now()
	namespace.Finalizers, namespace.DeletionTimestamp = []string{"example.com/slow"}, &now
	c, seen, err := reconcileOnce(t, nm, namespace, binding)
	require.NoError(t, err)
	assert.Empty(t, seen)
	status := statusOf(t, c)["shop"]
	assert.True(t, status.IsEnding())
	assert.Equal(t, "The namespace is being deleted, and is created again when it is gone. The namespace has the finalizers example.com/slow", status.Message)

	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(namespace), namespace))
	namespace.Finalizers = nil
	require.NoError(t, c.Update(t.Context(), namespace))
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(nm), nm))
	_, err = (&Reconciler{Clock: clock.RealClock{}, Client: c, APIReader: c, Events: events.NewFakeRecorder(10)}).Reconcile(t.Context(), nm)
	require.NoError(t, err)
	assert.Equal(t, mapping{"shop": {RemoteNamespace: "shop-rome", Phase: offloadingv1beta1.MappingAccepted}}, statusOf(t, c))
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(namespace), namespace))
}

// An accepted namespace whose annotation has changed is withdrawn, also if it is being deleted meanwhile.
func TestAnEndingNamespaceIsMappedFromItsStatus(t *testing.T) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop-rome"}}
	for name, tc := range map[string]struct {
		status offloadingv1beta1.RemoteNamespaceStatus
		want   bool
	}{
		"accepted":           {offloadingv1beta1.RemoteNamespaceStatus{RemoteNamespace: "shop-rome", Phase: offloadingv1beta1.MappingAccepted}, true},
		"accepted, ending":   {offloadingv1beta1.RemoteNamespaceStatus{RemoteNamespace: "shop-rome", Phase: offloadingv1beta1.MappingAccepted, Message: "is being deleted"}, true},
		"of another mapping": {offloadingv1beta1.RemoteNamespaceStatus{RemoteNamespace: "cart-rome", Phase: offloadingv1beta1.MappingAccepted}, false},
		"not accepted":       {offloadingv1beta1.RemoteNamespaceStatus{RemoteNamespace: "shop-rome", Phase: offloadingv1beta1.MappingTerminating}, false},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tc.want, isMappedFrom(namespace, "shop", tc.status)) })
	}
}

func TestANamespaceMapThatIsNotReplicatedIsIgnored(t *testing.T) {
	nm := namespaceMap(map[string]string{"shop": "shop-rome"}, nil)
	nm.Labels, nm.Finalizers = nil, nil
	c, _, err := reconcileOnce(t, nm)
	require.NoError(t, err)
	assert.Error(t, c.Get(t.Context(), client.ObjectKey{Name: "shop-rome"}, &corev1.Namespace{}))
}

// The consumer and administrators can write the status. A mapping in it that is not desired takes no namespace from
// the one that is.
func TestAStatusDoesNotWithdrawTheNamespaceOfADesiredMapping(t *testing.T) {
	accepted := offloadingv1beta1.RemoteNamespaceStatus{RemoteNamespace: "shop-rome", Phase: offloadingv1beta1.MappingAccepted}
	nm := namespaceMap(map[string]string{"shop": "shop-rome"}, mapping{"shop": accepted, "evil": accepted})
	namespace := provider.Namespace(nm, "rome", "shop", "shop-rome")
	namespace.UID = "the first"
	c, _, err := reconcileOnce(t, nm, namespace)
	require.NoError(t, err)
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Name: "shop-rome"}, namespace))
	assert.EqualValues(t, "the first", namespace.UID, "it is not deleted and created again")
	assert.Equal(t, mapping{"shop": accepted}, statusOf(t, c))
}
