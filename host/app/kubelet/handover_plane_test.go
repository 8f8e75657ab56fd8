package kubelet_test

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/faultproxy"
	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	"github.com/longshore-dev/longshore/host/app/kubelet"
	"github.com/longshore-dev/longshore/host/internal/testkit/childprocess"
)

// adminKubeconfig writes a kubeconfig with which a virtual kubelet reaches the consumer without
// a proxy.
func (r *rig) adminKubeconfig(t *testing.T) string {
	t.Helper()
	certificate, key, err := r.consumer.IssueClientCert("admin", []string{"system:masters"})
	require.NoError(t, err)
	content, err := r.consumer.KubeconfigFor("", certificate, key)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(file, content, 0o600))
	return file
}

// nodeLease returns the lease by which one of several replicas of a virtual kubelet is elected.
func (r *rig) nodeLease(t planetest.T) *coordinationv1.LeaseSpec {
	t.Helper()
	lease := &coordinationv1.Lease{}
	require.NoError(t, r.rome.Get(t.Context(), client.ObjectKey{Namespace: tenant, Name: nodeName}, lease))
	return &lease.Spec
}

// The first replica cannot renew its lease any more, while requests of both replicas to the
// provider fail and pods are created and deleted. The second replica takes over: no pod is lost
// and none runs twice.
func TestLongLeaseOfTheNodeIsHandedOverWhileRequestsFail(t *testing.T) {
	t.Parallel()
	f := newFaults(t)
	stays, ends := f.runPod(t, "stays"), f.runPod(t, "ends")
	remoteStays := f.awaitRemotePod(t, "stays", "")
	standby := f.options
	standby.Identity, standby.ListenPort, standby.Kubeconfig = "replica-2", 10251, f.adminKubeconfig(t)
	childprocess.Start(t, standby)

	// The creation of a ShadowPod is received, but not answered, when the lease is lost.
	f.providerProxy.Break(faultproxy.Unanswered, requests(http.MethodPost, "shadowpods"))
	received := longGracePod("received")
	f.create(f.rome, received)
	shadow, remoteReceived := f.awaitShadow("received"), f.awaitRemotePod(t, "received", "")
	f.consumerProxy.Break(faultproxy.Silent, requests(http.MethodPut, "leases"))
	lastRenewal := f.nodeLease(t).RenewTime
	f.providerProxy.Break(faultproxy.TooManyRequests, func(r *http.Request) bool { return r.Method != http.MethodGet })
	created := longGracePod("created")
	f.create(f.rome, created)
	f.deletePod(t, ends, nil)

	planetest.Until(t, func(t planetest.T) bool {
		return ptr.Deref(f.nodeLease(t).HolderIdentity, "") == "replica-2"
	}, soon, tick, "the second replica takes over")
	assert.GreaterOrEqual(t, f.nodeLease(t).AcquireTime.Sub(lastRenewal.Time), kubelet.DefaultOptions().VKLeaseDuration, "the lease expires before it is taken")
	f.process.AwaitFailure(t)
	f.awaitBroken(t, f.providerProxy, 3, "requests of the second replica fail")
	f.providerProxy.Heal()

	f.reportRunning(t, created, f.awaitRemotePod(t, "created", ""))
	f.reportRunning(t, received, remoteReceived)
	f.finishDeletion(t, ends, f.awaitTerminating(t, "ends", 600))
	f.reportRunning(t, stays, remoteStays)
	assert.Equal(t, remoteStays.UID, f.awaitRemotePod(t, "stays", "").UID)
	assert.Equal(t, remoteReceived.UID, f.awaitRemotePod(t, "received", "").UID)
	assert.Equal(t, shadow.UID, f.awaitShadow("received").UID)
	f.awaitExactly(t, "stays", "received", "created")
	planetest.Until(t, func(planetest.T) bool {
		node, err := f.node()
		return err == nil && readyCondition(node).Status == corev1.ConditionTrue
	}, soon, tick, "the Node is ready")
}
