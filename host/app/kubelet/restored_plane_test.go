package kubelet_test

import (
	"context"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/manager"
	"github.com/longshore-dev/longshore/host/app/process"
	"github.com/longshore-dev/longshore/host/app/replicator"
	"github.com/longshore-dev/longshore/host/forge/remote"
	"github.com/longshore-dev/longshore/host/internal/testkit/chartrights"
	"github.com/longshore-dev/longshore/host/internal/testkit/childprocess"
	"github.com/longshore-dev/longshore/host/kit/podend"
)

const (
	// providerTenant is the consumer's tenant namespace in the provider.
	providerTenant = "liqo-tenant-rome"
	// managerNamespace is where the lease of the provider's managers is.
	managerNamespace = chartrights.Namespace
)

// replicate prepares a rig as newFaults does, with a replicator, whose NamespaceMap the provider's
// managers reconcile, and with two of these, which start again when they end.
func (f *faults) replicate(t *testing.T) {
	t.Helper()
	// The manager creates it.
	shopRome := namespace("shop-rome")
	require.NoError(t, f.milan.Delete(t.Context(), shopRome))
	f.awaitDeleted(t, f.milan, shopRome)

	tenantOf := func(name, cluster string) *corev1.Namespace {
		n := namespace(name)
		n.Labels = map[string]string{liqocorev1beta1.TenantNamespaceLabel: "true", liqocorev1beta1.RemoteClusterIDLabel: cluster}
		return n
	}
	f.create(f.milan, tenantOf(providerTenant, "rome"))
	require.NoError(t, f.rome.Patch(t.Context(), tenantOf(tenant, "milan"), client.MergeFrom(namespace(tenant))))
	certificate, key, err := f.provider.IssueClientCert("rome-control-plane", []string{"system:masters"})
	require.NoError(t, err)
	controlPlane, err := f.provider.KubeconfigFor("", certificate, key)
	require.NoError(t, err)
	f.create(f.rome, virtualNode(), f.secret(f.kubeconfig), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: tenant, Name: "kubeconfig-controlplane-milan",
			Labels: map[string]string{
				liqocorev1beta1.RemoteClusterIDLabel: "milan", authv1beta1.IdentityTypeLabel: string(authv1beta1.ControlPlaneIdentityType),
			},
			Annotations: map[string]string{authv1beta1.RemoteTenantNamespaceAnnotation: providerTenant},
		},
		Data: map[string][]byte{"kubeconfig": controlPlane},
	})

	chartrights.GrantTenantNamespace(t, f.rome, tenant)
	for range 2 {
		f.runManagerAgain(t)
	}
	replication, err := replicator.New(replicator.Options{Options: process.Options{
		Config: f.asManager(f.consumer), ClusterID: "rome", Namespace: "longshore", MetricsAddress: "0", HealthProbeAddress: "0",
	}})
	require.NoError(t, err)
	f.background(replication.Run)
	f.createNodeWithoutKubelet(t)
	f.keepNodeReady(t, "milan-still")
	f.options = childOptions{Kubeconfig: f.adminKubeconfig(t), NodeIP: f.consumer.Address(), PolicyCache: f.policyCache, ClientTimeout: requestTimeout}
	f.process = childprocess.Start(t, f.options)
}

// runManagerAgain runs a replica of the provider's manager until the test ends, and starts it again
// when it ends by itself, as its kubelet does.
func (f *faults) runManagerAgain(t *testing.T) {
	t.Helper()
	// A restored API server answers before it has read the roles.
	config := chartrights.ImpersonateAndLog(f.provider.RESTConfig(), chartrights.Namespace, chartrights.Manager, io.Discard)
	f.background(func(ctx context.Context) error {
		const backoff = 500 * time.Millisecond
		for {
			app, err := manager.New(manager.Options{
				LeaderElection: true, ShadowPodWorkers: 2, ShadowEndpointSliceWorkers: 2, Options: process.Options{
					Config: config, ClusterID: "milan", Namespace: managerNamespace, MetricsAddress: "0", HealthProbeAddress: "0",
				},
			})
			if err == nil {
				err = app.Run(ctx)
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(backoff):
				t.Logf("The manager ended and starts again: %v", err)
			}
		}
	})
}

// managerLease returns the lease of the provider's managers.
func (f *faults) managerLease(t planetest.T) *coordinationv1.LeaseSpec {
	t.Helper()
	lease := &coordinationv1.Lease{}
	require.NoError(t, f.milan.Get(t.Context(), client.ObjectKey{Namespace: managerNamespace, Name: manager.LeaderElectionID}, lease))
	require.NotNil(t, lease.Spec.RenewTime)
	return &lease.Spec
}

// awaitRenewal waits until the lease of the provider's managers was renewed after a time.
func (f *faults) awaitRenewal(t *testing.T, after time.Time) {
	t.Helper()
	planetest.Until(t, func(t planetest.T) bool { return f.managerLease(t).RenewTime.After(after) }, soon, tick, "a manager renews the lease")
}

// replicatedMap returns the NamespaceMap that the replicator copies to the provider.
func replicatedMap(mapping map[string]string) *offloadingv1beta1.NamespaceMap {
	return &offloadingv1beta1.NamespaceMap{
		ObjectMeta: metav1.ObjectMeta{Name: "milan", Namespace: tenant, Labels: map[string]string{
			liqocorev1beta1.RemoteClusterIDLabel: "milan", liqocorev1beta1.RemoteIDLabel: "milan", liqocorev1beta1.ReplicationLabel: "true",
		}},
		Spec: offloadingv1beta1.NamespaceMapSpec{DesiredMapping: mapping},
	}
}

// awaitMapped waits until the consumer's NamespaceMap has each desired mapping as accepted.
func (f *faults) awaitMapped(t *testing.T) {
	t.Helper()
	planetest.Until(t, func(t planetest.T) bool {
		nm := replicatedMap(nil)
		require.NoError(t, f.rome.Get(t.Context(), client.ObjectKeyFromObject(nm), nm))
		accepted := map[string]string{}
		for local, status := range nm.Status.CurrentMapping {
			require.Equal(t, offloadingv1beta1.MappingAccepted, status.Phase, "%s: %s", local, status.Message)
			accepted[local] = status.RemoteNamespace
		}
		return maps.Equal(nm.Spec.DesiredMapping, accepted)
	}, soon, tick, "the provider maps all namespaces")
}

// ends records local pods that ended: Failed or Succeeded.
type ends struct {
	mu  sync.Mutex
	all []string
}

// watchEnds records local pods that end, and are not deleted, until the test ends.
func (f *faults) watchEnds(t *testing.T) *ends {
	t.Helper()
	c, err := client.NewWithWatch(f.consumer.RESTConfig(), client.Options{Scheme: f.runtimeTypes})
	require.NoError(t, err)
	recorded := &ends{}
	planetest.WatchPods(t, c, func(pod *corev1.Pod) {
		if pod.DeletionTimestamp == nil && podend.IsTerminal(pod.Status.Phase) {
			recorded.add(pod.Namespace + "/" + pod.Name + ": " + pod.Status.Reason)
		}
	})
	return recorded
}

func (e *ends) add(pod string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, pod)
}

func (e *ends) list() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.all)
}

// The provider's etcd is replaced by an older one while the virtual kubelet, the replicator and
// the provider's managers run: the provider gets what the consumer has, and loses what the
// consumer deleted.
func TestLongProviderRestoredFromAnOlderEtcd(t *testing.T) {
	t.Parallel()
	f := &faults{rig: newRig(t)}
	f.replicate(t)
	t.Cleanup(func() {
		if t.Failed() {
			f.logRemote(t)
		}
	})
	ended := f.watchEnds(t)
	nm := replicatedMap(map[string]string{"shop": "shop-rome"})
	f.create(f.rome, nm)
	f.awaitMapped(t)
	f.create(f.rome, f.settings("settings", "1"), f.settings("goes", "1"))
	f.awaitRemote("settings", "1")
	f.awaitRemote("goes", "1")
	stays, goes, again := f.runPod(t, "stays"), f.runPod(t, "goes"), f.runPod(t, "again")
	remoteStays := f.awaitRemotePod(t, "stays", "")
	backup, backedUp := filepath.Join(t.TempDir(), "backup"), f.managerLease(t).RenewTime.Time
	require.NoError(t, f.provider.BackUp(t.Context(), backup))

	// What happens after the backup.
	f.update(f.settings("settings", "2"))
	f.awaitRemote("settings", "2")
	require.NoError(t, f.rome.Delete(t.Context(), f.settings("goes", "")))
	require.Eventually(t, func() bool { return f.remote("goes") == nil }, soon, tick)
	f.deletePod(t, goes, nil)
	f.finishDeletion(t, goes, f.awaitTerminating(t, "goes", 600))
	f.deletePod(t, again, nil)
	f.finishDeletion(t, again, f.awaitTerminating(t, "again", 600))
	again, late := f.runPod(t, "again"), f.runPod(t, "late")
	mall := f.offloadLater(t, nm)
	f.raiseVersion(t)
	f.awaitRenewal(t, backedUp)

	require.NoError(t, f.provider.Restore(t.Context(), backup))
	f.logRemote(t)
	restored := time.Now()
	require.NoError(t, f.milan.Delete(t.Context(), f.awaitTerminating(t, "goes", 600), client.GracePeriodSeconds(0)))
	staleAgain := f.awaitTerminating(t, "again", 600)
	require.NoError(t, f.milan.Delete(t.Context(), staleAgain, client.GracePeriodSeconds(0)))
	f.reportRunning(t, again, f.awaitRemotePod(t, "again", staleAgain.UID))
	f.reportRunning(t, late, f.awaitRemotePod(t, "late", ""))
	f.awaitRemote("settings", "2")
	require.Eventually(t, func() bool { return f.remote("goes") == nil }, soon, tick, "the deleted ConfigMap is deleted again")
	f.awaitMapped(t)
	f.reportRunning(t, mall, f.awaitMallPod(t))
	f.awaitExactly(t, "stays", "again", "late")
	f.awaitPhase(t, stays, corev1.PodRunning)
	assert.Equal(t, remoteStays.UID, f.awaitRemotePod(t, "stays", "").UID, "the pod was not replaced")
	f.awaitRenewal(t, restored)
	assert.Empty(t, ended.list(), "no local pod ended")

	// All components see what happens from now on.
	f.update(f.settings("settings", "3"))
	f.awaitRemote("settings", "3")
	f.deletePod(t, late, nil)
	f.finishDeletion(t, late, f.awaitTerminating(t, "late", 600))
	f.runPod(t, "next")
	f.awaitExactly(t, "stays", "again", "next")
	f.offloadMore(t, nm)
}

// offloadLater offloads namespace mall, and runs a pod there.
func (f *faults) offloadLater(t *testing.T, nm *offloadingv1beta1.NamespaceMap) *corev1.Pod {
	t.Helper()
	f.create(f.rome, namespace("mall"))
	chartrights.GrantAccess(t, f.rome, virtualNode(), "mall") // as the controller of the access does
	f.mapTo(t, nm, "mall", "mall-rome")
	pod := longGracePod("web")
	pod.Namespace = "mall"
	f.create(f.rome, pod)
	f.reportRunning(t, pod, f.awaitMallPod(t))
	return pod
}

// offloadMore offloads another namespace.
func (f *faults) offloadMore(t *testing.T, nm *offloadingv1beta1.NamespaceMap) {
	t.Helper()
	f.create(f.rome, namespace("more"))
	chartrights.GrantAccess(t, f.rome, virtualNode(), "more") // as the controller of the access does
	f.mapTo(t, nm, "more", "more-rome")
	require.NoError(t, f.milan.Get(t.Context(), client.ObjectKey{Name: "more-rome"}, &corev1.Namespace{}))
}

func (f *faults) mapTo(t *testing.T, nm *offloadingv1beta1.NamespaceMap, local, remote string) {
	t.Helper()
	patch := `{"spec":{"desiredMapping":{"` + local + `":"` + remote + `"}}}`
	require.NoError(t, f.rome.Patch(t.Context(), nm, client.RawPatch(types.MergePatchType, []byte(patch))))
	f.awaitMapped(t)
}

func (f *faults) awaitMallPod(t *testing.T) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{}
	planetest.Until(t, func(t planetest.T) bool {
		require.NoError(t, f.milan.Get(t.Context(), client.ObjectKey{Namespace: "mall-rome", Name: "web"}, pod))
		return pod.Spec.NodeName != ""
	}, soon, tick, "the remote pod of mall is scheduled")
	return pod
}

// raiseVersion raises the provider's resource version, so that the restored provider does not
// reach it again during the test.
func (f *faults) raiseVersion(t *testing.T) {
	t.Helper()
	const changes = 2000
	counter := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "counter"}}
	f.create(f.milan, counter)
	for i := range changes {
		counter.Data = map[string]string{"n": strconv.Itoa(i)}
		require.NoError(t, f.milan.Update(t.Context(), counter))
	}
}

// logRemote logs what the provider has.
func (f *faults) logRemote(t *testing.T) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	shadows, pods := &offloadingv1beta1.ShadowPodList{}, &corev1.PodList{}
	assert.NoError(t, f.milan.List(ctx, shadows))
	assert.NoError(t, f.milan.List(ctx, pods))
	for i := range shadows.Items {
		t.Logf("ShadowPod %s/%s %s deleted %v", shadows.Items[i].Namespace, shadows.Items[i].Name, shadows.Items[i].UID, shadows.Items[i].DeletionTimestamp)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		t.Logf("Pod %s/%s %s of local pod %s, created %s, %s, deleted %v, controlled by %s", pod.Namespace, pod.Name, pod.UID,
			pod.Annotations[remote.LocalPodUIDAnnotation], pod.CreationTimestamp, pod.Status.Phase, pod.DeletionTimestamp, metav1.GetControllerOf(pod).UID)
	}
}
