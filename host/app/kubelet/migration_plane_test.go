package kubelet_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/kubelet"
	"github.com/longshore-dev/longshore/host/consumer/virtualnode"
	"github.com/longshore-dev/longshore/host/internal/testkit/chartrights"
	"github.com/longshore-dev/longshore/host/kit/events"
	"github.com/longshore-dev/longshore/host/peering/tenantsecrets"
)

// runVirtualNodes runs the consumer's controller of VirtualNodes.
func (r *rig) runVirtualNodes() {
	r.t.Helper()
	chartrights.GrantTenantNamespace(r.t, r.rome, tenant)
	mgr, err := ctrl.NewManager(r.asManager(r.consumer), ctrl.Options{
		Scheme: r.runtimeTypes, NewCache: tenantsecrets.New, Metrics: server.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	})
	require.NoError(r.t, err)
	require.NoError(r.t, (&virtualnode.Reconciler{
		Client: mgr.GetClient(), APIReader: tenantsecrets.Reader(mgr), Events: events.New(mgr, "longshore-manager"), Clock: clock.RealClock{},
		Connect: func(config *rest.Config) (client.Client, error) {
			return client.New(config, client.Options{Scheme: r.runtimeTypes})
		},
	}).SetupWithManager(mgr))
	r.background(mgr.Start)
}

// runningKubelet is a virtual kubelet that the test runs in place of a Deployment's pod.
type runningKubelet struct {
	pod    string
	cancel context.CancelFunc
	ended  <-chan error
}

// runProcess runs a virtual kubelet in place of the pod of a Deployment, and reports the pod as ready.
func (r *rig) runProcess(label, value string, o kubelet.Options) *runningKubelet {
	r.t.Helper()
	list := &corev1.PodList{}
	require.Eventually(r.t, func() bool {
		return r.rome.List(r.t.Context(), list, client.InNamespace(tenant), client.MatchingLabels{label: value}) == nil && len(list.Items) == 1
	}, soon, tick, "the pod of the virtual kubelet exists")
	pod := &list.Items[0]
	o.Identity = pod.Name
	app, err := kubelet.New(r.t.Context(), o)
	require.NoError(r.t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.t.Context()))
	ended := make(chan error, 1)
	r.background(func(stop context.Context) error {
		defer context.AfterFunc(stop, cancel)()
		ended <- app.Run(ctx)
		return nil
	})
	before := pod.DeepCopy()
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()})
	require.NoError(r.t, r.rome.Status().Patch(r.t.Context(), pod, client.MergeFrom(before)))
	return &runningKubelet{pod: pod.Name, cancel: cancel, ended: ended}
}

// endWith ends a process after its Deployment was deleted.
func (r *rig) endWith(p *runningKubelet, deployment string) {
	r.t.Helper()
	require.Eventually(r.t, func() bool {
		return apierrors.IsNotFound(r.rome.Get(r.t.Context(), client.ObjectKey{Namespace: tenant, Name: deployment}, &appsv1.Deployment{}))
	}, soon, tick, "Deployment %s is deleted", deployment)
	p.cancel()
	require.NoError(r.t, <-p.ended)
}

func (r *rig) sharedDeployment() string {
	r.t.Helper()
	list := &appsv1.DeploymentList{}
	require.Eventually(r.t, func() bool {
		return r.rome.List(r.t.Context(), list, client.InNamespace(tenant), client.HasLabels{offloadingv1beta1.SharedProcessKey}) == nil && len(list.Items) == 1
	}, soon, tick, "the shared Deployment exists")
	return list.Items[0].Name
}

// newPeeredRig returns a rig with the controllers of the provider and the objects of the peering.
func newPeeredRig(t *testing.T) *rig {
	t.Helper()
	r := newRig(t)
	r.runManager()
	planetest.SimulateNodes(t, r.provider, "milan-worker")
	tenantNamespace := namespace(tenant)
	require.NoError(t, r.rome.Get(t.Context(), client.ObjectKeyFromObject(tenantNamespace), tenantNamespace))
	tenantNamespace.Labels[liqocorev1beta1.TenantNamespaceLabel], tenantNamespace.Labels[liqocorev1beta1.RemoteClusterIDLabel] = "true", "milan"
	require.NoError(t, r.rome.Update(t.Context(), tenantNamespace))
	r.create(r.rome, r.secret(r.kubeconfig), &liqocorev1beta1.ForeignCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "milan", Labels: map[string]string{liqocorev1beta1.RemoteClusterIDLabel: "milan"}},
		Spec:       liqocorev1beta1.ForeignClusterSpec{ClusterID: "milan"},
	})
	r.mapNamespace()
	return r
}

// unassigned is a VirtualNode that the manager has not seen yet.
func unassigned(name string) *offloadingv1beta1.VirtualNode {
	vn := assigned(name, secretName)
	vn.Annotations = nil
	vn.Spec.Template.Name = "vk-" + name
	labels := map[string]string{offloadingv1beta1.ComponentLabel: offloadingv1beta1.ComponentVirtualKubelet, offloadingv1beta1.VirtualNodeLabel: name}
	vn.Spec.Template.Labels, vn.Spec.Template.Spec.Template.Labels, vn.Spec.Template.Spec.Selector.MatchLabels = labels, labels, labels
	vn.Spec.Template.Spec.Template.Spec.Containers[0].Image = "longshore"
	return vn
}

// grantAccess gives the processes that may serve a VirtualNode access to namespace shop, as the
// controller of the access does.
func (r *rig) grantAccess(vn *offloadingv1beta1.VirtualNode) {
	r.t.Helper()
	shares := vn.DeepCopy()
	shares.Annotations = map[string]string{offloadingv1beta1.ProcessAnnotation: offloadingv1beta1.ProcessShared}
	chartrights.GrantAccess(r.t, r.rome, shares, "shop")
}

// A VirtualNode moves from its own process to a shared one and back. Its remote pod stays.
func TestLongAVirtualNodeMovesBetweenProcessesWithoutItsPods(t *testing.T) {
	t.Parallel()
	r := newPeeredRig(t)
	r.grantAccess(unassigned(nodeName))
	r.create(r.rome, unassigned(nodeName))
	r.runVirtualNodes()

	ownOptions := r.options()
	ownOptions.CertificateType = string(kubelet.CertificateSelfSigned)
	own := r.runProcess(offloadingv1beta1.VirtualNodeLabel, nodeName, ownOptions)
	r.awaitNode(nodeName)
	r.create(r.rome, podOn(nodeName, "web"))
	r.awaitRunning("web")
	shadow, remotePod := r.awaitShadow("web"), &corev1.Pod{}
	key := client.ObjectKey{Namespace: "shop-rome", Name: "web"}
	require.NoError(t, r.milan.Get(t.Context(), key, remotePod))
	isServed := func(name string) {
		t.Helper()
		r.create(r.rome, podOn(nodeName, name))
		r.awaitRunning(name)
		current := &corev1.Pod{}
		require.NoError(t, r.milan.Get(t.Context(), key, current))
		assert.Equal(t, remotePod.UID, current.UID)
		assert.Equal(t, shadow.UID, r.awaitShadow("web").UID)
	}

	r.change(t, nodeName, func(vn *offloadingv1beta1.VirtualNode) {
		metav1.SetMetaDataAnnotation(&vn.ObjectMeta, offloadingv1beta1.ProcessAnnotation, offloadingv1beta1.ProcessShared)
	})
	name := r.sharedDeployment()
	assert.Equal(t, own.pod, r.holderOf(t, nodeName), "its own process serves it")
	sharedOptions := r.sharedOptions()
	// The garbage collector deletes the rights with the Deployment, before the process has ended.
	sharedOptions.Config = chartrights.AsWhile(t, r.consumer.RESTConfig(), tenant, name, func() bool {
		err := r.rome.Get(context.WithoutCancel(t.Context()), client.ObjectKey{Namespace: tenant, Name: name}, &appsv1.Deployment{})
		return !apierrors.IsNotFound(err)
	})
	sharedOptions.SharedProcess, sharedOptions.CertificateType = name, string(kubelet.CertificateSelfSigned)
	shared := r.runProcess(offloadingv1beta1.SharedProcessKey, name, sharedOptions)
	r.endWith(own, "vk-"+nodeName)
	planetest.Until(t, func(t planetest.T) bool { return r.holderOf(t, nodeName) == name }, soon, tick, "the shared process serves it")
	isServed("shared")

	r.change(t, nodeName, func(vn *offloadingv1beta1.VirtualNode) {
		vn.Annotations[offloadingv1beta1.ProcessAnnotation] = offloadingv1beta1.ProcessOwn
	})
	ownOptions.ListenPort = 10251
	ownOptions.Config = rest.CopyConfig(ownOptions.Config)
	ownAgain := r.runProcess(offloadingv1beta1.VirtualNodeLabel, nodeName, ownOptions)
	r.endWith(shared, name)
	planetest.Until(t, func(t planetest.T) bool { return r.holderOf(t, nodeName) == ownAgain.pod }, soon, tick, "its own process serves it")
	isServed("own-again")
	all := &offloadingv1beta1.ShadowPodList{}
	require.NoError(t, r.milan.List(t.Context(), all, client.InNamespace("shop-rome")))
	names := []string{}
	for i := range all.Items {
		names = append(names, all.Items[i].Name)
	}
	slices.Sort(names)
	assert.Equal(t, []string{"own-again", "shared", "web"}, names)
}
