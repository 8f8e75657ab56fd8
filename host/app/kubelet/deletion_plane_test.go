package kubelet_test

import (
	"context"
	"testing"
	"time"

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
		Client: mgr.GetClient(), APIReader: tenantsecrets.Reader(mgr), Events: events.New(mgr, "longshore-manager", time.Now), Clock: clock.RealClock{},
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
func (r *rig) runProcess(o kubelet.Options) *runningKubelet {
	r.t.Helper()
	list := &corev1.PodList{}
	require.Eventually(r.t, func() bool {
		return r.rome.List(r.t.Context(), list, client.InNamespace(tenant), client.MatchingLabels{offloadingv1beta1.VirtualNodeLabel: o.NodeName}) == nil && len(list.Items) == 1
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

// withDeployment is a VirtualNode whose Deployment the manager creates.
func withDeployment(name string) *offloadingv1beta1.VirtualNode {
	vn := virtualNode()
	vn.Name = name
	labels := map[string]string{offloadingv1beta1.ComponentLabel: offloadingv1beta1.ComponentVirtualKubelet, offloadingv1beta1.VirtualNodeLabel: name}
	vn.Spec.Template = &offloadingv1beta1.DeploymentTemplate{ObjectMeta: metav1.ObjectMeta{Name: "vk-" + name, Labels: labels}}
	vn.Spec.Template.Spec.Selector, vn.Spec.Template.Spec.Template.Labels = &metav1.LabelSelector{MatchLabels: labels}, labels
	vn.Spec.Template.Spec.Template.Spec.Containers = []corev1.Container{{Name: "virtual-kubelet", Image: "longshore"}}
	return vn
}

func (r *rig) isGone(c client.Client, namespace, name string, object client.Object) bool {
	return apierrors.IsNotFound(c.Get(r.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, object))
}

// A VirtualNode is deleted: its pods are evicted, and nothing of it is left in the provider. Another
// virtual node of the provider goes on.
func TestLongDeletionOfAVirtualNodeBesideAnother(t *testing.T) {
	t.Parallel()
	r := newPeeredRig(t)
	names := []string{"milan-1", "milan-2"}
	for _, name := range names {
		chartrights.GrantAccess(t, r.rome, withDeployment(name), "shop")
		require.NoError(t, r.rome.Create(t.Context(), withDeployment(name))) // The manager grants the other rights.
	}
	r.runVirtualNodes()
	running := map[string]*runningKubelet{}
	for i, name := range names {
		o := r.options()
		o.Config, o.NodeName, o.CertificateType, o.ListenPort = r.asKubelet(name), name, string(kubelet.CertificateSelfSigned), 10250+i
		running[name] = r.runProcess(o)
	}
	recorded := r.recordUIDs(t)
	for _, name := range names {
		r.awaitNode(name)
		r.create(r.rome, podOn(name, "web-"+name))
		r.awaitRunning("web-" + name)
	}
	const deleted = "milan-2"
	require.NoError(t, r.rome.Delete(t.Context(), &offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: deleted}}))
	r.endWith(running[deleted], "vk-"+deleted)
	require.Eventually(t, func() bool {
		return r.isGone(r.rome, tenant, deleted, &offloadingv1beta1.VirtualNode{}) && r.isGone(r.rome, "", deleted, &corev1.Node{}) &&
			r.isGone(r.rome, "shop", "web-"+deleted, &corev1.Pod{}) && r.isGone(r.milan, "shop-rome", "web-"+deleted, &corev1.Pod{}) &&
			r.isGone(r.milan, "shop-rome", "web-"+deleted, &offloadingv1beta1.ShadowPod{})
	}, soon, tick, "VirtualNode %s is gone on both sides", deleted)
	r.create(r.rome, podOn("milan-1", "after"))
	r.awaitRunning("after")
	r.awaitRunning("web-milan-1")
	recorded.checkOnce(t, "after")
	require.Empty(t, running["milan-1"].ended, "the other virtual kubelet runs")
}
