package shadowpod_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"

	"github.com/longshore-dev/longshore/conformance/testplane"
	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/manager"
	"github.com/longshore-dev/longshore/host/app/process"
	"github.com/longshore-dev/longshore/host/app/scheme"
	"github.com/longshore-dev/longshore/host/forge/remote"
	"github.com/longshore-dev/longshore/host/kit/events"
	"github.com/longshore-dev/longshore/host/provider/shadowpod"
)

const (
	remoteNamespace = "shop-rome"
	// nodeName is a node that nobody plays: pods bound to it end when the test says so.
	nodeName = "still"

	soon = time.Minute
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
	require.NoError(t, apiextensionsv1.AddToScheme(s))
	connection := rest.CopyConfig(r.cluster.RESTConfig())
	connection.QPS = -1
	r.milan, err = client.New(connection, client.Options{Scheme: s})
	require.NoError(t, err)
	r.installCRDs(t)
	r.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: remoteNamespace}}, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}})
	return r
}

func (r *rig) installCRDs(t *testing.T) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", "..", "charts", "longshore", "crds", "*.yaml"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		crd := &apiextensionsv1.CustomResourceDefinition{}
		require.NoError(t, yaml.Unmarshal(raw, crd))
		r.create(t, crd)
	}
	require.Eventually(t, func() bool {
		crds := &apiextensionsv1.CustomResourceDefinitionList{}
		if r.milan.List(t.Context(), crds) != nil {
			return false
		}
		for i := range crds.Items {
			established := false
			for _, condition := range crds.Items[i].Status.Conditions {
				established = established || condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue
			}
			if !established {
				return false
			}
		}
		return r.milan.List(t.Context(), &offloadingv1beta1.ShadowPodList{}) == nil
	}, soon, tick)
}

// run runs the manager, as it is composed, until it is stopped or the test ends.
func (r *rig) run(t *testing.T) (stop func()) {
	t.Helper()
	app, err := manager.New(manager.Options{ShadowPodWorkers: 2, Options: process.Options{
		Config: r.cluster.RESTConfig(), ClusterID: "milan", Namespace: "default", MetricsAddress: "0", HealthProbeAddress: "0",
	}})
	require.NoError(t, err)
	return background(t, app.Run)
}

// runAgain runs the controller alone: one process composes the manager once.
func (r *rig) runAgain(t *testing.T) {
	t.Helper()
	mgr, err := ctrl.NewManager(r.cluster.RESTConfig(), ctrl.Options{
		Scheme: r.milan.Scheme(), Metrics: server.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	})
	require.NoError(t, err)
	require.NoError(t, (&shadowpod.Reconciler{
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Events: events.New(mgr, "test"), Clock: clock.RealClock{},
	}).SetupWithManager(mgr, 2))
	background(t, mgr.Start)
}

// background runs something until it is stopped, or the test ends.
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

// newShadow is a ShadowPod whose pod has ten minutes of grace of its own. What a test
// asks for instead is long as well: of a period that is over, the API server makes one
// second, and machines can be slow.
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

// offload creates a ShadowPod and returns it with the pod that is made for it.
func (r *rig) offload(t *testing.T, name string) (*offloadingv1beta1.ShadowPod, *corev1.Pod) {
	t.Helper()
	shadow := newShadow(name)
	r.create(t, shadow)
	return shadow, r.await(t, name, "exists", func(*corev1.Pod) bool { return true })
}

// await waits until there is a pod of which something holds.
func (r *rig) await(t *testing.T, name, what string, holds func(*corev1.Pod) bool) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{}
	require.Eventually(t, func() bool {
		return r.milan.Get(t.Context(), key(name), pod) == nil && holds(pod)
	}, soon, tick, "pod %s %s", name, what)
	return pod
}

// ends waits until a pod is being deleted with some seconds of grace.
func (r *rig) ends(t *testing.T, name string, seconds int64) *corev1.Pod {
	t.Helper()
	return r.await(t, name, "ends with "+strconv.FormatInt(seconds, 10)+" s", func(pod *corev1.Pod) bool {
		return pod.DeletionTimestamp != nil && *pod.DeletionGracePeriodSeconds == seconds
	})
}

// confirm plays the kubelet: the containers have ended.
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

func (r *rig) give(t *testing.T, shadow *offloadingv1beta1.ShadowPod, seconds string) {
	t.Helper()
	r.patch(t, shadow, `{"metadata":{"annotations":{"longshore.dev/deletion-grace-period-seconds":"`+seconds+`"}}}`)
}

func (r *rig) delete(t *testing.T, object client.Object, policy metav1.DeletionPropagation) {
	t.Helper()
	require.NoError(t, r.milan.Delete(t.Context(), object, client.PropagationPolicy(policy)))
}

// There is no garbage collector here: what happens is the controller's doing, however
// new the CRDs are.
func TestTheControllerEndsItsPods(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *testplane.Options) {
		o.ManagerArgs = append(o.ManagerArgs, "--controllers=*,-garbage-collector-controller")
	})
	r.earlier(t)
	stop := r.run(t)
	t.Run("labels that a ShadowPod loses leave its pod, and no others do", r.metadata)
	t.Run("so it is with the pod of an earlier version", r.metadataOfEarlierPod)
	t.Run("ownership that another writer takes from a pod is restored", r.ownership)
	t.Run("the pod of a ShadowPod that is gone", r.background)
	t.Run("a ShadowPod that stays for its pod", r.foreground)
	t.Run("a longer period, and none at all", r.longer)
	t.Run("less time for a pod whose ShadowPod is gone", r.reminded)
	t.Run("a pod that somebody wants to keep", r.orphan)
	t.Run("a pod that is deleted or evicted in the provider is made again", r.replaced)
	t.Run("a namespace that is deleted", r.namespace)
	r.restart(t, stop)
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
	r.ends(t, "foreground", 600)
	r.give(t, shadow, "300")
	r.ends(t, "foreground", 300)
	r.give(t, shadow, "400") // no pod gets more time than it had
	r.give(t, shadow, "0")
	pod := r.ends(t, "foreground", 1)
	require.NoError(t, r.milan.Get(t.Context(), client.ObjectKeyFromObject(shadow), shadow), "it stays for the pod")
	r.confirm(t, pod)
	r.gone(t, pod, shadow)
}

func (r *rig) longer(t *testing.T) {
	shadow, _ := r.offload(t, "longer")
	r.give(t, shadow, "1200")
	pod := r.ends(t, "longer", 1200)
	r.delete(t, shadow, metav1.DeletePropagationForeground)
	r.confirm(t, pod)
	r.gone(t, pod, shadow)

	shadow, _ = r.offload(t, "none")
	r.give(t, shadow, "0")
	pod = r.ends(t, "none", 1)
	r.delete(t, shadow, metav1.DeletePropagationForeground)
	r.confirm(t, pod)
	r.gone(t, pod, shadow)
}

func (r *rig) reminded(t *testing.T) {
	first := newShadow("reminded")
	first.Annotations[remote.LocalPodUIDAnnotation] = "local-1"
	r.create(t, first)
	r.await(t, "reminded", "exists", func(*corev1.Pod) bool { return true })
	r.delete(t, first, metav1.DeletePropagationBackground)
	pod := r.ends(t, "reminded", 600)

	reminder := remote.EndingShadowPod(pod, 300)
	r.create(t, reminder)
	r.ends(t, "reminded", 300)
	r.give(t, reminder, "0")
	r.confirm(t, r.ends(t, "reminded", 1))
	r.gone(t, pod)
	r.delete(t, reminder, metav1.DeletePropagationForeground)
	r.gone(t, reminder, pod) // and no pod was made for it
}

func (r *rig) orphan(t *testing.T) {
	shadow, pod := r.offload(t, "orphan")
	r.delete(t, shadow, metav1.DeletePropagationOrphan)
	// What comes later is done: this was seen as well.
	r.background(t)
	require.NoError(t, r.milan.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))
	assert.Nil(t, pod.DeletionTimestamp)
	require.NoError(t, r.milan.Get(t.Context(), client.ObjectKeyFromObject(shadow), shadow))
	assert.Equal(t, []string{metav1.FinalizerOrphanDependents}, shadow.Finalizers, "the garbage collector's to take off")
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
	assert.Equal(t, "deletion-grace-period", third.Annotations["longshore.dev/supports"])

	// While it is on its way out, its ShadowPod ends as well: it is not made again.
	require.NoError(t, r.milan.Delete(t.Context(), third, client.GracePeriodSeconds(400)))
	r.ends(t, "replaced", 400)
	r.give(t, shadow, "300")
	r.delete(t, shadow, metav1.DeletePropagationForeground)
	r.confirm(t, r.ends(t, "replaced", 300))
	r.gone(t, shadow, third)
}

func (r *rig) namespace(t *testing.T) {
	const doomed = "doomed-rome"
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: doomed}}
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

// earlier makes a ShadowPod and its pod as the version before did, which said nothing of
// what it supports.
func (r *rig) earlier(t *testing.T) {
	t.Helper()
	shadow := newShadow("earlier")
	r.create(t, shadow)
	pod := shadowpod.ForgePod(shadow)
	delete(pod.Annotations, offloadingv1beta1.SupportsAnnotation)
	require.NoError(t, r.milan.Create(t.Context(), pod, client.FieldOwner("shadow-pod")))
}

func (r *rig) metadataOfEarlierPod(t *testing.T) {
	shadow, pod := &offloadingv1beta1.ShadowPod{}, &corev1.Pod{}
	require.NoError(t, r.milan.Get(t.Context(), key("earlier"), shadow))
	require.NoError(t, r.milan.Get(t.Context(), key("earlier"), pod))
	r.labels(t, shadow, pod)
	r.await(t, "earlier", "says what is supported", func(pod *corev1.Pod) bool {
		return pod.Annotations[offloadingv1beta1.SupportsAnnotation] == offloadingv1beta1.SupportsDeletionGracePeriod
	})
}

func (r *rig) labels(t *testing.T, shadow *offloadingv1beta1.ShadowPod, pod *corev1.Pod) {
	t.Helper()
	// Others in the provider: one sets keys of their own, one says that a key stays.
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
	assert.Equal(t, map[string]string{
		"note": "x", "cni": "10.0.0.1", offloadingv1beta1.SupportsAnnotation: offloadingv1beta1.SupportsDeletionGracePeriod,
	}, got.Annotations)
	assert.Equal(t, pod.UID, got.UID)
	// What was set after the pod was made goes, too.
	r.patch(t, shadow, `{"metadata":{"labels":{"new":null}}}`)
	r.await(t, shadow.Name, "loses the new label", func(pod *corev1.Pod) bool {
		_, there := pod.Labels["new"]
		return !there
	})
}

// ownership is taken from a pod that runs and from one that is being deleted.
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
	r.give(t, shadow, "300")
	r.delete(t, shadow, metav1.DeletePropagationForeground)
	ending := r.ends(t, "ownership", 300)
	assert.Equal(t, pod.UID, ending.UID, "it was never created anew")
	r.patch(t, ending, `{"metadata":{"labels":{"offloading.liqo.io/origin":null}}}`)
	r.await(t, "ownership", "has its label again while it ends", restored)
	r.confirm(t, ending)
	r.gone(t, ending, shadow)
}

// restart deletes ShadowPods while no controller is there to see it.
func (r *rig) restart(t *testing.T, stop func()) {
	t.Helper()
	kept, before := r.offload(t, "kept")
	lost, _ := r.offload(t, "lost")
	held, _ := r.offload(t, "held")
	stop()
	stranger := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: remoteNamespace, Name: "stranger", Labels: map[string]string{offloadingv1beta1.ManagedByLabel: offloadingv1beta1.ManagedByShadowPod}},
		Spec:       newShadow("").Spec.Pod,
	}
	r.create(t, stranger)
	r.delete(t, lost, metav1.DeletePropagationBackground)
	r.give(t, held, "4")
	r.delete(t, held, metav1.DeletePropagationForeground)

	r.runAgain(t)
	r.confirm(t, r.ends(t, "lost", 600))
	pod := r.ends(t, "held", 4)
	r.confirm(t, pod)
	r.gone(t, held, lost, pod)
	for _, object := range []client.Object{before, stranger} {
		require.NoError(t, r.milan.Get(t.Context(), client.ObjectKeyFromObject(object), object))
		assert.Nil(t, object.GetDeletionTimestamp(), "%s is nobody's to delete", object.GetName())
	}
	assert.True(t, shadowpod.Owns(kept, before))
}

// Without the controller, the garbage collector does the same, with the pod's own period.
func TestTheGarbageCollectorIsTheSecondLine(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	// It hears of new kinds every half minute, or when it starts.
	require.NoError(t, r.cluster.Crash())
	require.NoError(t, r.cluster.Restart(t.Context()))
	objects := map[metav1.DeletionPropagation]*offloadingv1beta1.ShadowPod{
		metav1.DeletePropagationForeground: newShadow("foreground"), metav1.DeletePropagationBackground: newShadow("background"),
	}
	for policy, shadow := range objects {
		r.create(t, shadow)
		require.NoError(t, r.milan.Create(t.Context(), shadowpod.ForgePod(shadow), client.FieldOwner(shadowpod.FieldManager)))
		r.give(t, shadow, "5")
		r.delete(t, shadow, policy)
	}
	for _, shadow := range objects {
		var pod *corev1.Pod
		require.Eventually(t, func() bool {
			pod = &corev1.Pod{}
			return r.milan.Get(t.Context(), client.ObjectKeyFromObject(shadow), pod) == nil && pod.DeletionTimestamp != nil
		}, 3*soon, tick, "the collector ends the pod of %s", shadow.Name)
		assert.EqualValues(t, 600, *pod.DeletionGracePeriodSeconds)
		r.confirm(t, pod)
		r.gone(t, shadow, pod)
	}
}
