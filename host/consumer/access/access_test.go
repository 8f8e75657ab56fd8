package access

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
	"github.com/longshore-dev/longshore/host/forge/virtualkubelet"
	"github.com/longshore-dev/longshore/host/kit/podend"
	"github.com/longshore-dev/longshore/host/peering/authentication"
)

// pods are the pods on virtual nodes, by node.
type pods struct {
	unknown  bool
	of       map[string][]*metav1.PartialObjectMetadata
	followed map[string]bool
}

func (p *pods) Follow(nodes map[string]bool) error {
	p.followed = nodes
	return nil
}

func (p *pods) In(node, namespace string) ([]*metav1.PartialObjectMetadata, bool) {
	var in []*metav1.PartialObjectMetadata
	for _, pod := range p.of[node] {
		if pod.Namespace == namespace {
			in = append(in, pod)
		}
	}
	return in, !p.unknown
}

func on(node string, objects ...*corev1.Pod) *pods {
	p := &pods{of: map[string][]*metav1.PartialObjectMetadata{}}
	for _, pod := range objects {
		p.of[node] = append(p.of[node], &metav1.PartialObjectMetadata{ObjectMeta: pod.ObjectMeta})
	}
	return p
}

func pod(change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: "p"}, Status: corev1.PodStatus{Phase: corev1.PodPending}}
	if change != nil {
		change(p)
	}
	return p
}

func terminatingPod(p *corev1.Pod) {
	now := metav1.Now()
	p.DeletionTimestamp, p.Finalizers = &now, []string{"example.com/test"}
}

// objects is a cluster with one peer, of which alter changes something.
type objects struct {
	namespace, tenant *corev1.Namespace
	virtualNode       *offloadingv1beta1.VirtualNode
	offloading        *offloadingv1beta1.NamespaceOffloading
	namespaceMap      *offloadingv1beta1.NamespaceMap
	binding           *rbacv1.RoleBinding
}

func (o *objects) existing() []client.Object {
	list := []client.Object{o.namespace, o.tenant, o.virtualNode, o.namespaceMap}
	if o.offloading != nil {
		list = append(list, o.offloading)
	}
	if o.binding != nil {
		list = append(list, o.binding)
	}
	return list
}

func cluster(alter func(*objects)) *objects {
	o := &objects{
		namespace:    &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}},
		tenant:       authentication.TenantNamespace("milan"),
		virtualNode:  &offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Name: "milan-1", Namespace: "liqo-tenant-milan"}, Spec: offloadingv1beta1.VirtualNodeSpec{ClusterID: "milan"}},
		offloading:   &offloadingv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Name: "offloading", Namespace: "shop"}},
		namespaceMap: &offloadingv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Name: "milan", Namespace: "liqo-tenant-milan", Labels: map[string]string{"liqo.io/replication": "true", "liqo.io/remoteID": "milan"}}},
	}
	if alter != nil {
		alter(o)
	}
	return o
}

func (o *objects) granted() { o.binding = virtualkubelet.NamespaceBinding(o.virtualNode, "shop") }

func (o *objects) mapped() {
	o.namespaceMap.Spec.DesiredMapping = map[string]string{"shop": "shop-rome"}
	o.current()
}

func (o *objects) current() {
	o.namespaceMap.Status.CurrentMapping = map[string]offloadingv1beta1.RemoteNamespaceStatus{"shop": {RemoteNamespace: "shop-rome", Phase: offloadingv1beta1.MappingAccepted}}
}

func markDeleted(o client.Object) {
	now := metav1.Now()
	o.SetDeletionTimestamp(&now)
	o.SetFinalizers(append(o.GetFinalizers(), "example.com/test"))
}

func selecting(label string) corev1.NodeSelector {
	return corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
		{Key: label, Operator: corev1.NodeSelectorOpExists},
	}}}}
}

// pass makes one reconcile of namespace shop and returns the client and the events.
func pass(t *testing.T, o *objects, p *pods, more ...client.Object) (client.Client, []string) {
	t.Helper()
	c := fakeclient.Builder(append(o.existing(), more...)...).WithStatusSubresource(&corev1.Pod{}).WithInterceptorFuncs(interceptor.Funcs{Delete: releaseEnded}).Build()
	recorder := events.NewFakeRecorder(10)
	r := &Reconciler{Client: c, APIReader: c, Events: recorder, Pods: p, Clock: testclock.NewFakePassiveClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))}
	_, err := r.Reconcile(t.Context(), request("shop"))
	require.NoError(t, err)
	close(recorder.Events)
	var recorded []string
	for event := range recorder.Events {
		recorded = append(recorded, event)
	}
	assert.True(t, p.followed["milan-1"])
	return c, recorded
}

// releaseEnded deletes objects as an API server whose controller of Jobs releases pods that have ended.
func releaseEnded(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
	if pod, isPod := object.(*corev1.Pod); isPod {
		current := &corev1.Pod{}
		if err := c.Get(ctx, client.ObjectKeyFromObject(pod), current); err != nil {
			return err
		}
		if podend.IsTerminal(current.Status.Phase) && controllerutil.RemoveFinalizer(current, batchv1.JobTrackingFinalizer) {
			return c.Update(ctx, current)
		}
	}
	return c.Delete(ctx, object, options...)
}

func granted(ctx context.Context, t *testing.T, c client.Client, o *objects) bool {
	t.Helper()
	binding := &rbacv1.RoleBinding{}
	err := c.Get(ctx, client.ObjectKey{Namespace: "shop", Name: virtualkubelet.NamespaceBindingName(o.virtualNode.Namespace, o.virtualNode.Name)}, binding)
	require.NoError(t, client.IgnoreNotFound(err))
	if err != nil {
		return false
	}
	assert.Equal(t, "longshore-virtual-kubelet-namespace", binding.RoleRef.Name)
	assert.Equal(t, []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "liqo-tenant-milan", Name: "milan-1"}}, binding.Subjects)
	return true
}

func TestAccess(t *testing.T) {
	for name, tc := range map[string]struct {
		alter func(*objects)
		pods  *pods
		want  bool
	}{
		"an offloaded namespace":                                                      {nil, on("milan-1"), true},
		"a namespace that is not offloaded":                                           {func(o *objects) { o.offloading = nil }, on("milan-1"), false},
		"a namespace offloaded to another provider":                                   {func(o *objects) { o.offloading.Spec.ClusterSelector = selecting("region") }, on("milan-1"), false},
		"an offloading of another name":                                               {func(o *objects) { o.offloading.Name = "other" }, on("milan-1"), false},
		"a mapping that only the peer wrote":                                          {func(o *objects) { o.offloading = nil; o.mapped() }, on("milan-1"), false},
		"a mapping that the peer wrote for a namespace offloaded to another provider": {func(o *objects) { o.offloading.Spec.ClusterSelector = selecting("region"); o.mapped() }, on("milan-1"), false},
		"a virtual node outside of a tenant namespace":                                {func(o *objects) { o.tenant.Labels = nil }, on("milan-1"), false},
		"a virtual node in the tenant namespace of another provider":                  {func(o *objects) { o.tenant.Labels[liqocorev1beta1.RemoteClusterIDLabel] = "turin" }, on("milan-1"), false},
		"a namespace that is being deleted":                                           {func(o *objects) { markDeleted(o.namespace) }, on("milan-1"), false},
		"a pod in a namespace that is not offloaded":                                  {func(o *objects) { o.offloading = nil }, on("milan-1", pod(nil)), false},
		"granted, and still offloaded":                                                {func(o *objects) { o.granted(); o.mapped() }, on("milan-1"), true},
		"granted, and the NamespaceOffloading is deleted":                             {func(o *objects) { o.granted(); o.offloading = nil }, on("milan-1"), false},
		"granted, and only the provider still has the mapping":                        {func(o *objects) { o.granted(); markDeleted(o.offloading); o.current() }, on("milan-1"), false},
		"granted, and the mapping is still requested":                                 {func(o *objects) { o.granted(); markDeleted(o.offloading); o.mapped() }, on("milan-1"), true},
		"granted, and a pod is left":                                                  {func(o *objects) { o.granted(); o.offloading = nil }, on("milan-1", pod(nil)), true},
		"granted, and the pods are not known yet":                                     {func(o *objects) { o.granted(); o.offloading = nil }, &pods{unknown: true}, true},
		"granted, and a pod is left on another node":                                  {func(o *objects) { o.granted(); o.offloading = nil }, on("turin-1", pod(nil)), false},
		"granted, the namespace is being deleted and a pod is left": {func(o *objects) {
			o.granted()
			markDeleted(o.binding)
			markDeleted(o.namespace)
			markDeleted(o.offloading)
		}, on("milan-1", pod(nil)), true},
		"granted, and the virtual node is being drained":         {func(o *objects) { o.granted(); o.mapped(); markDeleted(o.virtualNode) }, on("milan-1", pod(nil)), true},
		"not granted yet, and the virtual node is being drained": {func(o *objects) { o.mapped(); markDeleted(o.virtualNode) }, on("milan-1", pod(nil)), true},
		"not granted yet, and the virtual node has no pod":       {func(o *objects) { o.mapped(); markDeleted(o.virtualNode) }, on("milan-1"), false},
		"granted, and only the status has the mapping":           {func(o *objects) { o.granted(); o.offloading = nil; o.current() }, on("milan-1"), false},
	} {
		t.Run(name, func(t *testing.T) {
			o := cluster(tc.alter)
			c, recorded := pass(t, o, tc.pods, pod(nil))
			assert.Equal(t, tc.want, granted(t.Context(), t, c, o))
			if !tc.want {
				return
			}
			assert.Empty(t, recorded)
			left := &corev1.Pod{}
			require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(pod(nil)), left))
			assert.Empty(t, left.Status.Reason, "where the virtual kubelet has access, its pods are its own")
		})
	}
}

func TestAccessOfADeletedVirtualNodeIsRevoked(t *testing.T) {
	o := cluster(nil)
	gone := o.virtualNode.DeepCopy()
	gone.Name = "milan-2"
	binding := virtualkubelet.NamespaceBinding(gone, "shop")
	ofAnEarlierVersion := virtualkubelet.NamespaceBinding(o.virtualNode, "shop")
	ofAnEarlierVersion.Name = "longshore-virtual-kubelet.liqo-tenant-milan.vk-shared-1"
	delete(ofAnEarlierVersion.Labels, offloadingv1beta1.VirtualNodeLabel)
	c, _ := pass(t, o, on("milan-1"), binding, ofAnEarlierVersion)
	for _, revoked := range []*rbacv1.RoleBinding{binding, ofAnEarlierVersion} {
		assert.True(t, apierrors.IsNotFound(c.Get(t.Context(), client.ObjectKeyFromObject(revoked), &rbacv1.RoleBinding{})), revoked.Name)
	}
	assert.True(t, granted(t.Context(), t, c, o))
}

// A VirtualNode that was deleted without its finalizer is withdrawn when it is created again. Until then
// its virtual kubelet runs, and reports the status of the pods.
func TestAccessOfAVirtualNodeThatWasNotWithdrawnIsKept(t *testing.T) {
	user := func(names string) func(*objects) {
		return func(o *objects) {
			o.mapped()
			o.namespaceMap.Annotations = map[string]string{offloadingv1beta1.VirtualNodesAnnotation: names}
		}
	}
	both := func(changes ...func(*objects)) func(*objects) {
		return func(o *objects) {
			for _, change := range changes {
				change(o)
			}
		}
	}
	named := user("liqo-tenant-milan/milan-1,liqo-tenant-milan/milan-2")
	for name, tc := range map[string]struct {
		alter func(*objects)
		want  bool
	}{
		"the NamespaceMap names it":                                  {named, true},
		"the NamespaceMap names others":                              {user("liqo-tenant-milan/milan-1,liqo-tenant-turin/milan-2"), false},
		"the namespace is not mapped any more":                       {both(named, func(o *objects) { o.namespaceMap.Spec.DesiredMapping = nil }), false},
		"the namespace is not offloaded any more":                    {both(named, func(o *objects) { o.offloading = nil }), false},
		"the namespace is being deleted":                             {both(named, func(o *objects) { markDeleted(o.namespace) }), false},
		"only the NamespaceMap of another tenant namespace names it": {both(named, func(o *objects) { o.namespaceMap.Namespace = "liqo-tenant-turin" }), false},
	} {
		t.Run(name, func(t *testing.T) {
			o := cluster(tc.alter)
			gone := o.virtualNode.DeepCopy()
			gone.Name = "milan-2"
			binding := virtualkubelet.NamespaceBinding(gone, "shop")
			c, _ := pass(t, o, on("milan-1"), binding)
			err := c.Get(t.Context(), client.ObjectKeyFromObject(binding), &rbacv1.RoleBinding{})
			assert.Equal(t, tc.want, err == nil, "got %v", err)
		})
	}
}

func TestADeletedBindingIsReleasedAndCreatedAgain(t *testing.T) {
	o := cluster(func(o *objects) { o.granted(); now := metav1.Now(); o.binding.DeletionTimestamp = &now })
	c, _ := pass(t, o, on("milan-1", pod(nil)))
	assert.False(t, granted(t.Context(), t, c, o), "the event of its end creates it again")
}

// Another controller adds its finalizer, which the cache does not have yet.
func TestFinalizersOfOthersStay(t *testing.T) {
	o := cluster(func(o *objects) { o.granted(); o.offloading = nil })
	stored := fakeclient.Builder(o.existing()...).Build()
	stale := interceptor.NewClient(stored, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			err := c.List(ctx, list, options...)
			if bindings, ok := list.(*rbacv1.RoleBindingList); ok && len(bindings.Items) == 1 {
				other := bindings.Items[0].DeepCopy()
				if controllerutil.AddFinalizer(other, "example.com/audit") {
					require.NoError(t, c.Update(ctx, other))
				}
			}
			return err
		},
	})
	r := &Reconciler{Client: stale, APIReader: stale, Events: events.NewFakeRecorder(10), Pods: on("milan-1"), Clock: testclock.NewFakePassiveClock(time.Now())}
	_, err := r.Reconcile(t.Context(), request("shop"))
	require.True(t, apierrors.IsConflict(err), "%v", err)
	_, err = r.Reconcile(t.Context(), request("shop"))
	require.NoError(t, err)
	require.NoError(t, stored.Get(t.Context(), client.ObjectKeyFromObject(o.binding), o.binding))
	assert.Equal(t, []string{"example.com/audit"}, o.binding.Finalizers)
	assert.False(t, o.binding.DeletionTimestamp.IsZero())
}

func TestAnUnmanagedBindingIsReported(t *testing.T) {
	o := cluster(nil)
	other := virtualkubelet.NamespaceBinding(o.virtualNode, "shop")
	other.RoleRef.Name, other.Finalizers = "view", nil
	c, recorded := pass(t, o, on("milan-1"), other)
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(other), other))
	assert.Equal(t, "view", other.RoleRef.Name)
	require.Len(t, recorded, 1)
	assert.True(t, strings.HasPrefix(recorded[0], "Warning "+reasonNameTaken+" "), recorded[0])
}

func TestPodsInANamespaceWithoutAccess(t *testing.T) {
	without := func(o *objects) { o.offloading = nil }
	for name, tc := range map[string]struct {
		alter  func(*objects)
		pod    *corev1.Pod
		gone   bool
		reason string
	}{
		"a terminating pod is deleted": {without, pod(terminatingPod), true, ""},
		"a new pod stays pending":      {without, pod(nil), false, "OffloadingBackOff"},
		"a new pod of a DaemonSet has a reason of its own": {without, pod(func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent", UID: "agent", Controller: ptr.To(true)}}
		}), false, "DaemonSetNotOffloaded"},
		"a pod that ran is aborted":           {without, pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }), false, "OffloadingAborted"},
		"a finished pod is kept":              {without, pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }), false, ""},
		"a pod of a mapped namespace is kept": {func(o *objects) { without(o); o.mapped() }, pod(terminatingPod), false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			tc.pod.Finalizers = nil
			stored := tc.pod.DeepCopy()
			if stored.DeletionTimestamp != nil {
				stored.Finalizers = []string{batchv1.JobTrackingFinalizer}
			}
			c, recorded := pass(t, cluster(tc.alter), on("milan-1", tc.pod), stored)
			err := c.Get(t.Context(), client.ObjectKeyFromObject(stored), stored)
			if tc.gone {
				assert.True(t, apierrors.IsNotFound(err))
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tc.reason, stored.Status.Reason)
			assert.Equal(t, tc.reason != "", len(recorded) == 1)
		})
	}
	t.Run("another pod of the same name is kept", func(t *testing.T) {
		stored := pod(func(p *corev1.Pod) { p.UID = "other" })
		c, _ := pass(t, cluster(without), on("milan-1", pod(nil)), stored)
		require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(stored), stored))
		assert.Empty(t, stored.Status.Reason)
	})
}

// Pods reach a virtual node without an offloading: those of a DaemonSet that tolerates everything,
// and those that were created before their namespace was no longer offloaded.
func TestPodsOfANodeAreFollowedWithoutOffloadedNamespaces(t *testing.T) {
	o, p := cluster(func(o *objects) { o.offloading = nil }), on("milan-1")
	c := fakeclient.Builder(o.existing()...).Build()
	r := &Reconciler{Client: c, APIReader: c, Events: events.NewFakeRecorder(10), Pods: p, Clock: testclock.NewFakePassiveClock(time.Now())}
	for _, each := range r.all(t.Context()) {
		_, err := r.Reconcile(t.Context(), each)
		require.NoError(t, err)
	}
	assert.True(t, p.followed["milan-1"])
}
