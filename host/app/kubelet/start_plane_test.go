package kubelet_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/kubelet"
	"github.com/longshore-dev/longshore/host/forge/local"
	"github.com/longshore-dev/longshore/host/internal/testkit/childprocess"
)

func readyCondition(node *corev1.Node) corev1.NodeCondition {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition
		}
	}
	return corev1.NodeCondition{}
}

// Compiling the built-in policies takes longer than the node's lease lasts: the Node is
// registered and its lease is renewed meanwhile, and nothing is offloaded before.
func TestNodeIsMaintainedWhilePoliciesAreCompiled(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create(r.rome, virtualNode(), r.secret(r.kubeconfig))
	r.mapNamespace()
	o := r.options()
	o.NodeLeaseDuration, o.CertificateType = 4*time.Second, string(kubelet.CertificateSelfSigned)
	app, err := kubelet.New(t.Context(), o)
	require.NoError(t, err)
	compiled := make(chan struct{})
	app.HoldPolicies(compiled)
	ended := r.background(app.Run)

	planetest.Until(t, func(t planetest.T) bool {
		node, err := r.node()
		require.NoError(t, err)
		require.Equal(t, corev1.ConditionFalse, readyCondition(node).Status)
		return readyCondition(node).Reason == "PoliciesNotLoaded"
	}, soon, tick, "the Node is registered and not ready")
	r.create(r.rome, podOn(nodeName, "early"))
	renewals := map[metav1.MicroTime]bool{}
	planetest.Until(t, func(t planetest.T) bool {
		lease := &coordinationv1.Lease{}
		require.NoError(t, r.rome.Get(r.t.Context(), client.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: nodeName}, lease))
		renewals[*lease.Spec.RenewTime] = true
		return len(renewals) >= 3
	}, soon, tick, "the lease of the Node is renewed")
	err = r.milan.Get(t.Context(), client.ObjectKey{Namespace: "shop-rome", Name: "early"}, &offloadingv1beta1.ShadowPod{})
	assert.True(t, apierrors.IsNotFound(err), "%v", err)

	close(compiled)
	planetest.Until(t, func(planetest.T) bool {
		node, err := r.node()
		return err == nil && isReady(node)
	}, soon, tick, "the Node becomes ready")
	r.awaitShadow("early")
	assert.Empty(t, ended)
}

// The time from the start to a ready Node, with compiled policies in the cache, is logged: the
// goal is one second.
func TestLongStartWithAWarmCache(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create(r.rome, virtualNode(), r.secret(r.kubeconfig))
	r.mapNamespace()
	watcher, err := client.NewWithWatch(r.consumer.RESTConfig(), client.Options{Scheme: r.runtimeTypes})
	require.NoError(t, err)
	watch, err := watcher.Watch(t.Context(), &corev1.NodeList{})
	require.NoError(t, err)
	defer watch.Stop()
	options := childOptions{Kubeconfig: r.adminKubeconfig(t), NodeIP: r.consumer.Address(), PolicyCache: r.policyCache}
	for _, name := range []string{"the first start", "a restart"} {
		start := time.Now()
		process := childprocess.Start(t, options)
		wasReady := false
		for event := range watch.ResultChan() {
			node, ok := event.Object.(*corev1.Node)
			if wasReady = ok && node.Name == nodeName && isReady(node); wasReady {
				t.Logf("%s: the Node is ready after %s", name, time.Since(start))
				break
			}
		}
		require.True(t, wasReady, name)
		process.Kill(t)
		require.NoError(t, client.IgnoreNotFound(r.rome.Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}})))
		for event := range watch.ResultChan() {
			if event.Type == "DELETED" {
				break
			}
		}
		r.create(r.rome, local.InitialNode(virtualNode())) // as the manager does
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: nodeName}}
		require.NoError(t, client.IgnoreNotFound(r.rome.Delete(t.Context(), lease)))
	}
}
