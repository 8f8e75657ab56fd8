package virtualnode

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
)

const tenantOfMilan = "liqo-tenant-milan"

// sharing is a VirtualNode that is to share its process.
func sharing(vn *offloadingv1beta1.VirtualNode) {
	withContainer(vn)
	metav1.SetMetaDataAnnotation(&vn.ObjectMeta, offloadingv1beta1.ProcessAnnotation, offloadingv1beta1.ProcessShared)
}

// servedBy assigns a VirtualNode to a shared process.
func servedBy(process string) func(*offloadingv1beta1.VirtualNode) {
	return func(vn *offloadingv1beta1.VirtualNode) {
		withContainer(vn)
		metav1.SetMetaDataAnnotation(&vn.ObjectMeta, offloadingv1beta1.SharedProcessKey, process)
	}
}

func all(changes ...func(*offloadingv1beta1.VirtualNode)) func(*offloadingv1beta1.VirtualNode) {
	return func(vn *offloadingv1beta1.VirtualNode) {
		for _, change := range changes {
			change(vn)
		}
	}
}

func sharedDeployment(t *testing.T, available int32) *appsv1.Deployment {
	t.Helper()
	deployment, err := ForgeSharedDeployment(virtualNode(sharing))
	require.NoError(t, err)
	deployment.Status.AvailableReplicas = available
	return deployment
}

func ownDeployment(t *testing.T, available int32) *appsv1.Deployment {
	t.Helper()
	deployment, err := ForgeDeployment(virtualNode(withContainer))
	require.NoError(t, err)
	deployment.Status.AvailableReplicas = available
	return deployment
}

// exists reports whether an object exists.
func (w world) exists(t *testing.T, object client.Object) bool {
	t.Helper()
	err := w.Get(t.Context(), client.ObjectKeyFromObject(object), object)
	require.NoError(t, client.IgnoreNotFound(err))
	return !apierrors.IsNotFound(err)
}

func TestAVirtualNodeWithoutAProcessSharesOneAtOnce(t *testing.T) {
	w := pass(t, virtualNode(sharing), peered(kubeconfig)...)
	shared := sharedDeployment(t, 0)
	require.True(t, w.exists(t, shared))
	assert.False(t, w.exists(t, ownDeployment(t, 0)))
	assert.Equal(t, shared.Name, w.vn.Annotations[offloadingv1beta1.SharedProcessKey])
	rights := ForgeSharedRights(shared)
	assert.IsType(t, &corev1.ServiceAccount{}, rights[len(rights)-1], "a pod is created when the ServiceAccount exists, and has its rights then")
	for _, right := range rights {
		require.True(t, w.exists(t, right), title(right))
		assert.True(t, metav1.IsControlledBy(right, shared))
	}
	account := rbacv1.Subject{Kind: "ServiceAccount", Namespace: tenantOfMilan, Name: shared.Name}
	for _, right := range ForgeRights(virtualNode(sharing)) {
		require.True(t, w.exists(t, right))
		if subjects, isBinding := subjectsOf(right); isBinding {
			assert.Equal(t, []rbacv1.Subject{Account(w.vn), account}, subjects, title(right))
		}
	}
}

func TestAVirtualNodeMovesBetweenProcesses(t *testing.T) {
	name := sharedDeployment(t, 0).Name
	for sentence, tc := range map[string]struct {
		change      func(*offloadingv1beta1.VirtualNode)
		own, shared *int32 // available replicas
		// wantProcess is the recorded shared process.
		wantProcess         string
		wantOwn, wantShared bool
	}{
		"its own process serves until the shared one is available": {change: sharing, own: ptr.To[int32](1), shared: ptr.To[int32](0), wantOwn: true, wantShared: true},
		"then it is served by the shared one":                      {change: sharing, own: ptr.To[int32](1), shared: ptr.To[int32](1), wantProcess: name, wantShared: true},
		"and stays when that is not available":                     {change: all(sharing, servedBy(name)), shared: ptr.To[int32](0), wantProcess: name, wantShared: true},
		"the shared process serves until its own is available":     {change: servedBy(name), own: ptr.To[int32](0), shared: ptr.To[int32](1), wantProcess: name, wantOwn: true, wantShared: true},
		"then it is served by its own, and the unused one ends":    {change: servedBy(name), own: ptr.To[int32](1), shared: ptr.To[int32](1), wantOwn: true},
		"another shared process serves until the new one is available": {change: all(sharing, servedBy("vk-shared-old")), shared: ptr.To[int32](0),
			wantProcess: "vk-shared-old", wantShared: true},
		"then the new one serves it": {change: all(sharing, servedBy("vk-shared-old")), shared: ptr.To[int32](1), wantProcess: name, wantShared: true},
	} {
		t.Run(sentence, func(t *testing.T) {
			existing := peered(kubeconfig)
			if tc.own != nil {
				existing = append(existing, ownDeployment(t, *tc.own))
			}
			if tc.shared != nil {
				existing = append(existing, sharedDeployment(t, *tc.shared))
			}
			w := pass(t, virtualNode(tc.change), existing...)
			assert.Equal(t, tc.wantProcess, w.vn.Annotations[offloadingv1beta1.SharedProcessKey])
			assert.Equal(t, tc.wantOwn, w.exists(t, ownDeployment(t, 0)), "own process")
			assert.Equal(t, tc.wantShared, w.exists(t, sharedDeployment(t, 0)), "shared process")
		})
	}
}

func TestASharedProcessEndsWithItsLastVirtualNode(t *testing.T) {
	second := virtualNode(all(sharing, func(vn *offloadingv1beta1.VirtualNode) { vn.Name, vn.UID = "second", "vn-2" }))
	name := sharedDeployment(t, 0).Name
	for sentence, tc := range map[string]struct {
		second     *offloadingv1beta1.VirtualNode
		wantShared bool
	}{
		"the last":   {},
		"one of two": {second: second, wantShared: true},
		"one of two that are deleted": {wantShared: true, second: deleted(func() *offloadingv1beta1.VirtualNode {
			vn := second.DeepCopy()
			vn.Annotations[offloadingv1beta1.SharedProcessKey] = name
			return vn
		}())},
	} {
		t.Run(sentence, func(t *testing.T) {
			existing := append(peered(kubeconfig), sharedDeployment(t, 1))
			if tc.second != nil {
				existing = append(existing, tc.second.DeepCopy())
			}
			w := pass(t, deleted(virtualNode(all(sharing, servedBy(name)))), existing...)
			assert.Nil(t, w.vn)
			assert.Equal(t, tc.wantShared, w.exists(t, sharedDeployment(t, 0)))
		})
	}
}

// A ShadowPod may be deleted only after the process has stopped the virtual node.
func TestAVirtualNodeIsWithdrawnAfterTheSharedProcessHasStoppedIt(t *testing.T) {
	name := sharedDeployment(t, 0).Name
	for sentence, tc := range map[string]struct {
		served    []string
		withdrawn bool
	}{
		"served":            {served: []string{"another", "mynode"}},
		"stopped":           {served: []string{"another"}, withdrawn: true},
		"the pod has ended": {withdrawn: true},
	} {
		t.Run(sentence, func(t *testing.T) {
			existing := append(peered(kubeconfig), sharedDeployment(t, 1))
			if tc.served != nil {
				existing = append(existing, &policyv1alpha1.PolicyComponent{
					ObjectMeta: metav1.ObjectMeta{Namespace: tenantOfMilan, Name: name}, Status: policyv1alpha1.PolicyComponentStatus{VirtualNodes: tc.served},
				})
			}
			w := pass(t, deleted(virtualNode(all(sharing, servedBy(name)))), existing...)
			assert.Equal(t, tc.withdrawn, w.vn == nil)
			assert.Equal(t, !tc.withdrawn, w.exists(t, sharedDeployment(t, 1)))
			if w.vn != nil {
				assert.NotContains(t, w.vn.Annotations, offloadingv1beta1.SharedProcessKey, "the process stops the virtual node")
			}
		})
	}
}

func TestTheReportOfAnEndedOwnProcessIsDeleted(t *testing.T) {
	report := &policyv1alpha1.PolicyComponent{ObjectMeta: metav1.ObjectMeta{Namespace: tenantOfMilan, Name: "mynode"}}
	w := pass(t, virtualNode(sharing), append(peered(kubeconfig), ownDeployment(t, 1), sharedDeployment(t, 0), report.DeepCopy())...)
	assert.True(t, w.exists(t, report.DeepCopy()), "its own process still decides")
	w = pass(t, virtualNode(sharing), append(peered(kubeconfig), ownDeployment(t, 1), sharedDeployment(t, 1), report.DeepCopy())...)
	assert.False(t, w.exists(t, report.DeepCopy()))
}

func TestSyncSubjects(t *testing.T) {
	account := func(name string) rbacv1.Subject {
		return rbacv1.Subject{Kind: "ServiceAccount", Namespace: tenantOfMilan, Name: name}
	}
	other := rbacv1.Subject{Kind: "User", Name: "vk-shared-alice"}
	for sentence, tc := range map[string]struct{ current, desired, want []rbacv1.Subject }{
		"equal":                               {[]rbacv1.Subject{account("a")}, []rbacv1.Subject{account("a")}, nil},
		"an account is added":                 {[]rbacv1.Subject{account("a")}, []rbacv1.Subject{account("a"), account("vk-shared-1")}, []rbacv1.Subject{account("a"), account("vk-shared-1")}},
		"one of an unused process is removed": {[]rbacv1.Subject{account("a"), account("vk-shared-1")}, []rbacv1.Subject{account("a")}, []rbacv1.Subject{account("a")}},
		"those of an administrator are kept":  {[]rbacv1.Subject{other, account("b"), account("a")}, []rbacv1.Subject{account("a")}, nil},
		"an account that is missing is added": {[]rbacv1.Subject{other}, []rbacv1.Subject{account("a")}, []rbacv1.Subject{other, account("a")}},
	} {
		t.Run(sentence, func(t *testing.T) {
			got, hasChanged := SyncSubjects(tc.current, tc.desired)
			assert.Equal(t, tc.want != nil, hasChanged)
			if tc.want == nil {
				tc.want = tc.current
			}
			assert.Equal(t, tc.want, got)
		})
	}
}

func TestTheRightsOfASharedProcessAreThoseOfThisVersion(t *testing.T) {
	shared := sharedDeployment(t, 1)
	outdated := ForgeSharedRights(shared)[0].(*rbacv1.Role)
	want := outdated.DeepCopy().Rules
	outdated.Rules = outdated.Rules[:1]
	w := pass(t, virtualNode(all(sharing, servedBy(shared.Name))), append(peered(kubeconfig), shared, outdated)...)
	require.True(t, w.exists(t, outdated))
	assert.Equal(t, want, outdated.Rules)
}

// A virtual kubelet that starts changes its VirtualNode and its Node several times. With 50 virtual
// nodes, lists of all VirtualNodes were a quarter of the work of the manager.
func TestVirtualNodesAreNotListedAtTheAPIServerForAProcessInUse(t *testing.T) {
	shared := sharedDeployment(t, 1)
	w := pass(t, virtualNode(all(sharing, servedBy(shared.Name))), append(peered(kubeconfig), shared)...)
	refused := interceptor.NewClient(w.Client.(client.WithWatch), interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return errors.New("read from the API server")
		},
	})
	r := &Reconciler{Client: w.Client, APIReader: refused, Events: events.NewFakeRecorder(20), Clock: testclock.NewFakePassiveClock(time.Now())}
	_, err := r.Reconcile(t.Context(), w.vn)
	require.NoError(t, err)
}

func TestRequestsForASharedDeployment(t *testing.T) {
	w := pass(t, virtualNode(sharing), append(peered(kubeconfig), virtualNode(func(vn *offloadingv1beta1.VirtualNode) { vn.Name = "other" }))...)
	r := &Reconciler{Client: w.Client}
	assert.Len(t, r.requestsForDeployment(t.Context(), sharedDeployment(t, 0)), 1)
	assert.Equal(t, "mynode", r.requestsForDeployment(t.Context(), ownDeployment(t, 0))[0].Name)
	assert.Empty(t, r.requestsForDeployment(t.Context(), &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: tenantOfMilan, Name: "vk-shared-2"}}))
}
