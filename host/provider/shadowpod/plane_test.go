package shadowpod_test

import (
	"context"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/pod-security-admission/api"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/longshore-dev/longshore/conformance/testplane"
	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/manager"
	"github.com/longshore-dev/longshore/host/app/process"
	"github.com/longshore-dev/longshore/host/app/scheme"
	"github.com/longshore-dev/longshore/host/forge/provider"
	"github.com/longshore-dev/longshore/host/internal/testkit/chartrights"
	"github.com/longshore-dev/longshore/host/kit/events"
	"github.com/longshore-dev/longshore/host/kit/podupdate"
	"github.com/longshore-dev/longshore/host/provider/shadowpod"
)

const (
	remoteNamespace = "shop-rome"
	// nodeName is a node without kubelet: pods on it end when the test confirms it.
	nodeName = "still"

	soon = 2 * time.Minute
	tick = 25 * time.Millisecond
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// rig is a provider.
type rig struct {
	milan   client.Client
	cluster *testplane.Cluster
}

func newRig(t *testing.T, adjust ...func(*testplane.Options)) *rig {
	t.Helper()
	r := &rig{cluster: planetest.ForTest(t, "milan", adjust...)}
	s, err := scheme.New()
	require.NoError(t, err)
	connection := rest.CopyConfig(r.cluster.RESTConfig())
	connection.QPS = -1
	r.milan, err = client.New(connection, client.Options{Scheme: s})
	require.NoError(t, err)
	planetest.InstallCRDs(t, r.cluster.RESTConfig())
	chartrights.Install(t, r.cluster.RESTConfig())
	r.create(t, newNamespace(remoteNamespace), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}})
	return r
}

// newNamespace returns a namespace in which consumers may name the node of a pod, as the pods of these
// tests do: no scheduler runs.
func newNamespace(name string) *corev1.Namespace {
	labels := map[string]string{api.EnforceLevelLabel: string(api.LevelPrivileged)}
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
}

// asManager returns the configuration of the manager with the rights of the chart.
func (r *rig) asManager(t *testing.T) *rest.Config {
	t.Helper()
	return chartrights.As(t, r.cluster.RESTConfig(), chartrights.Namespace, chartrights.Manager)
}

// run runs the manager until it is stopped or the test ends.
func (r *rig) run(t *testing.T) (stop func()) {
	t.Helper()
	app, err := manager.New(manager.Options{ShadowPodWorkers: 2, ShadowEndpointSliceWorkers: 2, Options: process.Options{
		Config: r.asManager(t), ClusterID: "milan", Namespace: chartrights.Namespace, MetricsAddress: "0", HealthProbeAddress: "0",
	}})
	require.NoError(t, err)
	return background(t, app.Run)
}

// runAgain runs the controller alone: a process can create the manager once.
func (r *rig) runAgain(t *testing.T) {
	t.Helper()
	mgr, err := ctrl.NewManager(r.asManager(t), ctrl.Options{
		Scheme: r.milan.Scheme(), Metrics: server.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	})
	require.NoError(t, err)
	require.NoError(t, (&shadowpod.Reconciler{
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Events: events.New(mgr, "test", time.Now), Clock: clock.RealClock{},
	}).SetupWithManager(mgr, 2))
	background(t, mgr.Start)
}

// background calls run until it is stopped or the test ends.
func background(t *testing.T, run func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		assert.NoError(t, <-ended)
	})
	t.Cleanup(stop)
	return stop
}

func (r *rig) create(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		require.NoError(t, r.milan.Create(t.Context(), object))
	}
}

func key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: remoteNamespace, Name: name}
}

// newShadow returns a ShadowPod whose pod has a grace period of ten minutes. The period is long
// because the API server rounds a period that is over up to one second.
func newShadow(name string) *offloadingv1beta1.ShadowPod {
	period := int64(600)
	return &offloadingv1beta1.ShadowPod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: remoteNamespace, Name: name, Annotations: map[string]string{"note": "x", "gone": "x"},
			Labels: map[string]string{"app": "web", "old": "x", "shared": "x", offloadingv1beta1.OriginLabel: "rome"},
		},
		Spec: offloadingv1beta1.ShadowPodSpec{Pod: corev1.PodSpec{
			NodeName: nodeName, TerminationGracePeriodSeconds: &period, Containers: []corev1.Container{{Name: "web", Image: "web:1"}},
		}},
	}
}

// offload creates a ShadowPod and returns it with its pod.
func (r *rig) offload(t *testing.T, name string) (*offloadingv1beta1.ShadowPod, *corev1.Pod) {
	t.Helper()
	shadow := newShadow(name)
	r.create(t, shadow)
	return shadow, r.await(t, name, "exists", func(*corev1.Pod) bool { return true })
}

// await waits until a pod meets a condition.
func (r *rig) await(t *testing.T, name, what string, holds func(*corev1.Pod) bool) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{}
	require.Eventually(t, func() bool {
		return r.milan.Get(t.Context(), key(name), pod) == nil && holds(pod)
	}, soon, tick, "pod %s %s", name, what)
	return pod
}

// ends waits until a pod is being deleted with a grace period.
func (r *rig) ends(t *testing.T, name string, seconds int64) *corev1.Pod {
	t.Helper()
	return r.await(t, name, "ends with "+strconv.FormatInt(seconds, 10)+" s", func(pod *corev1.Pod) bool {
		return pod.DeletionTimestamp != nil && *pod.DeletionGracePeriodSeconds == seconds
	})
}

// confirm acts as the kubelet after the containers have ended.
func (r *rig) confirm(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	require.NoError(t, r.milan.Delete(t.Context(), pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID}))
}

func (r *rig) gone(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		require.Eventually(t, func() bool {
			return apierrors.IsNotFound(r.milan.Get(t.Context(), client.ObjectKeyFromObject(object), object))
		}, 3*soon, tick, "%T %s is gone", object, object.GetName())
	}
}

func (r *rig) patch(t *testing.T, object client.Object, patch string) {
	t.Helper()
	require.NoError(t, r.milan.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, []byte(patch))))
}

func (r *rig) delete(t *testing.T, object client.Object, policy metav1.DeletionPropagation) {
	t.Helper()
	require.NoError(t, r.milan.Delete(t.Context(), object, client.PropagationPolicy(policy)))
}

func TestPodsOfShadowPods(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	// The garbage collector learns of new kinds every half minute, or when it starts.
	require.NoError(t, r.cluster.Crash())
	require.NoError(t, r.cluster.Restart(t.Context()))
	r.createPodOfEarlierVersion(t)
	stop := r.run(t)
	t.Run("labels that a ShadowPod loses are removed from its pod, other labels stay", r.metadata)
	t.Run("the same for the pod of an earlier version", r.metadataOfEarlierPod)
	t.Run("ownership labels that another writer removes are restored", r.ownership)
	t.Run("a ShadowPod is deleted", r.background)
	t.Run("a ShadowPod is deleted in the foreground", r.foreground)
	t.Run("a ShadowPod is deleted, and its pod kept", r.orphan)
	t.Run("a pod that is deleted or evicted in the provider is created again", r.replaced)
	t.Run("what the cluster adds to a pod is in the status", r.additions)
	t.Run("a namespace is deleted", r.namespace)
	r.restart(t, stop)
}

// additions has a RuntimeClass with overhead, which the API server adds to the pod.
func (r *rig) additions(t *testing.T) {
	class := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "heavy"}, Handler: "heavy", Overhead: &nodev1.Overhead{
		PodFixed: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")},
	}}
	shadow := newShadow("heavy")
	shadow.Spec.Pod.RuntimeClassName = &class.Name
	r.create(t, class, shadow)
	require.Eventually(t, func() bool {
		return r.milan.Get(t.Context(), client.ObjectKeyFromObject(shadow), shadow) == nil && shadow.Status.Requests.Cpu().Cmp(resource.MustParse("2")) >= 0
	}, soon, tick)
	r.delete(t, shadow, metav1.DeletePropagationBackground)
	r.confirm(t, r.ends(t, "heavy", 600))
}

func (r *rig) background(t *testing.T) {
	shadow, _ := r.offload(t, "background")
	r.delete(t, shadow, metav1.DeletePropagationBackground)
	r.confirm(t, r.ends(t, "background", 600))
	r.gone(t, &corev1.Pod{ObjectMeta: shadow.ObjectMeta}, shadow)
}

func (r *rig) foreground(t *testing.T) {
	shadow, _ := r.offload(t, "foreground")
	r.delete(t, shadow, metav1.DeletePropagationForeground)
	pod := r.ends(t, "foreground", 600)
	require.NoError(t, r.milan.Get(t.Context(), client.ObjectKeyFromObject(shadow), shadow))
	r.confirm(t, pod)
	r.gone(t, pod, shadow)
}

func (r *rig) orphan(t *testing.T) {
	shadow, pod := r.offload(t, "orphan")
	r.delete(t, shadow, metav1.DeletePropagationOrphan)
	r.gone(t, shadow)
	// Events that come later have been handled.
	r.background(t)
	require.NoError(t, r.milan.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))
	assert.Nil(t, pod.DeletionTimestamp)
}

func (r *rig) replaced(t *testing.T) {
	shadow, first := r.offload(t, "replaced")
	require.NoError(t, r.milan.Delete(t.Context(), first, client.GracePeriodSeconds(7)))
	r.confirm(t, r.ends(t, "replaced", 7))
	second := r.await(t, "replaced", "is another", func(pod *corev1.Pod) bool { return pod.UID != first.UID })

	// A pod that has not started is evicted like any other.
	require.NoError(t, r.milan.SubResource("eviction").Create(t.Context(), second, &policyv1.Eviction{}))
	r.confirm(t, r.ends(t, "replaced", 600))
	third := r.await(t, "replaced", "is a third", func(pod *corev1.Pod) bool { return pod.UID != second.UID })
	assert.True(t, shadowpod.Owns(shadow, third))

	// The ShadowPod is deleted while its pod is being deleted: no other pod is created.
	require.NoError(t, r.milan.Delete(t.Context(), third, client.GracePeriodSeconds(400)))
	r.ends(t, "replaced", 400)
	r.delete(t, shadow, metav1.DeletePropagationBackground)
	r.gone(t, shadow)
	r.confirm(t, r.ends(t, "replaced", 400))
	r.background(t)
	r.gone(t, third)
}

func (r *rig) namespace(t *testing.T) {
	const doomed = "doomed-rome"
	ns := newNamespace(doomed)
	shadow, period := newShadow("web"), int64(20)
	shadow.Namespace, shadow.Spec.Pod.TerminationGracePeriodSeconds = doomed, &period
	r.create(t, ns, shadow)
	pod := &corev1.Pod{}
	require.Eventually(t, func() bool {
		return r.milan.Get(t.Context(), client.ObjectKeyFromObject(shadow), pod) == nil
	}, soon, tick)
	require.NoError(t, r.milan.Delete(t.Context(), ns))
	require.Eventually(t, func() bool {
		return r.milan.Get(t.Context(), client.ObjectKeyFromObject(shadow), pod) == nil && pod.DeletionTimestamp != nil
	}, soon, tick)
	assert.Equal(t, period, *pod.DeletionGracePeriodSeconds)
	r.confirm(t, pod)
	r.gone(t, ns)
}

// metadata is T22.
func (r *rig) metadata(t *testing.T) {
	shadow, pod := r.offload(t, "labels")
	r.labels(t, shadow, pod)
}

// createPodOfEarlierVersion creates a ShadowPod and its pod as an earlier version did, which
// added an annotation to the pod.
func (r *rig) createPodOfEarlierVersion(t *testing.T) {
	t.Helper()
	shadow := newShadow("earlier")
	r.create(t, shadow)
	pod := provider.Pod(shadow)
	delete(pod.Annotations, podupdate.AppliedAnnotation)
	pod.Annotations["longshore.dev/supports"] = "deletion-grace-period"
	require.NoError(t, r.milan.Create(t.Context(), pod, client.FieldOwner("shadow-pod")))
}

func (r *rig) metadataOfEarlierPod(t *testing.T) {
	shadow, pod := &offloadingv1beta1.ShadowPod{}, &corev1.Pod{}
	require.NoError(t, r.milan.Get(t.Context(), key("earlier"), shadow))
	require.NoError(t, r.milan.Get(t.Context(), key("earlier"), pod))
	r.labels(t, shadow, pod)
}

func (r *rig) labels(t *testing.T, shadow *offloadingv1beta1.ShadowPod, pod *corev1.Pod) {
	t.Helper()
	// Other managers of the provider: one sets keys of its own, one manages a key as well.
	require.NoError(t, r.milan.Patch(t.Context(), pod, client.RawPatch(types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"theirs":"y"},"annotations":{"cni":"10.0.0.1"}}}`)), client.FieldOwner("cni")))
	require.NoError(t, r.milan.Patch(t.Context(), pod, client.RawPatch(types.ApplyPatchType,
		[]byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"shared":"x"}}}`)), client.FieldOwner("admin")))

	r.patch(t, shadow, `{"metadata":{"labels":{"old":null,"shared":null,"new":"z"},"annotations":{"gone":null}}}`)
	got := r.await(t, shadow.Name, "follows", func(pod *corev1.Pod) bool {
		_, old := pod.Labels["old"]
		return pod.Labels["new"] == "z" && !old
	})
	assert.Equal(t, map[string]string{
		"app": "web", "new": "z", "shared": "x", "theirs": "y", offloadingv1beta1.OriginLabel: "rome",
		offloadingv1beta1.ManagedByLabel: offloadingv1beta1.ManagedByShadowPod,
	}, got.Labels)
	annotations := map[string]string{"note": "x", "cni": "10.0.0.1"}
	if applied, ok := pod.Annotations[podupdate.AppliedAnnotation]; ok {
		annotations[podupdate.AppliedAnnotation] = applied
	}
	assert.Equal(t, annotations, got.Annotations)
	assert.Equal(t, pod.UID, got.UID)
	// A key that was set after the creation is removed too.
	r.patch(t, shadow, `{"metadata":{"labels":{"new":null}}}`)
	r.await(t, shadow.Name, "loses the new label", func(pod *corev1.Pod) bool {
		_, there := pod.Labels["new"]
		return !there
	})
}

// ownership removes the labels of a pod that runs and of one that is being deleted.
func (r *rig) ownership(t *testing.T) {
	shadow, pod := r.offload(t, "ownership")
	restored := func(pod *corev1.Pod) bool {
		return pod.Labels[offloadingv1beta1.ManagedByLabel] == offloadingv1beta1.ManagedByShadowPod && pod.Labels[offloadingv1beta1.OriginLabel] == "rome"
	}
	for _, patch := range []string{
		`{"metadata":{"labels":{"liqo.io/managed-by":null}}}`,
		`{"metadata":{"labels":{"offloading.liqo.io/origin":"oslo"}}}`,
		`{"metadata":{"labels":null,"annotations":null}}`,
	} {
		r.patch(t, pod, patch)
		r.await(t, "ownership", "has its labels again after "+patch, restored)
	}
	r.delete(t, shadow, metav1.DeletePropagationForeground)
	ending := r.ends(t, "ownership", 600)
	assert.Equal(t, pod.UID, ending.UID)
	r.patch(t, ending, `{"metadata":{"labels":{"offloading.liqo.io/origin":null}}}`)
	r.await(t, "ownership", "has its label again while it ends", restored)
	r.confirm(t, ending)
	r.gone(t, ending, shadow)
}

// restart deletes a ShadowPod while the controller does not run.
func (r *rig) restart(t *testing.T, stop func()) {
	t.Helper()
	kept, before := r.offload(t, "kept")
	deleted, _ := r.offload(t, "deleted")
	stop()
	unmanaged := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: remoteNamespace, Name: "unmanaged", Labels: map[string]string{offloadingv1beta1.ManagedByLabel: offloadingv1beta1.ManagedByShadowPod}},
		Spec:       newShadow("").Spec.Pod,
	}
	r.create(t, unmanaged)
	r.delete(t, deleted, metav1.DeletePropagationBackground)

	r.runAgain(t)
	pod := r.ends(t, "deleted", 600)
	r.confirm(t, pod)
	r.gone(t, deleted, pod)
	for _, object := range []client.Object{before, unmanaged} {
		require.NoError(t, r.milan.Get(t.Context(), client.ObjectKeyFromObject(object), object))
		assert.Nil(t, object.GetDeletionTimestamp(), object.GetName())
	}
	assert.True(t, shadowpod.Owns(kept, before))
}
