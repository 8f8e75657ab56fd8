// Package reflection_test holds the reflection against real control planes: what the
// engine assumes of an API server (applies that only create, preconditions in patches,
// watches that stream their list), and how many requests a pod costs.
package reflection_test

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane"
	"github.com/longshore-dev/longshore/conformance/testplane/faultproxy"
	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	ipamv1alpha1 "github.com/longshore-dev/longshore/host/apis/ipam/v1alpha1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/consumer/reflection/event"
	"github.com/longshore-dev/longshore/host/consumer/reflection/mirror"
	"github.com/longshore-dev/longshore/host/consumer/reflection/pod"
	"github.com/longshore-dev/longshore/host/forge/remote"
	"github.com/longshore-dev/longshore/sdk/contract"
)

const (
	home, provider, nodeName = "rome", "milan", "milan-node"
	tenant                   = "liqo-tenant-milan"
	local, remoteNamespace   = "shop", "shop-rome"

	soon = 2 * time.Minute
	tick = 20 * time.Millisecond
)

// events drops events; a test that wants them has a fake.
type events struct {
	mu  sync.Mutex
	all []string
}

func (e *events) Event(object runtime.Object, _, reason, message string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, object.(client.Object).GetName()+": "+reason+": "+message)
}

func newScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	require.NoError(t, offloadingv1beta1.AddToScheme(scheme))
	require.NoError(t, ipamv1alpha1.AddToScheme(scheme))
	return scheme
}

// rig is a consumer and a provider with a reflection between them.
type rig struct {
	rome, milan client.WithWatch
	provider    *testplane.Cluster
	// proxy stands between the engine and the provider.
	proxy     *faultproxy.Proxy
	out, back *counter
	engine    *engine.Engine
	events    *events
	policies  versions
	// class is the load balancer class of the provider.
	class string
	// restart ends the engine, calls a function, and starts another.
	restart func(t *testing.T, between func())
}

func newRig(t *testing.T) *rig {
	t.Helper()
	clusters := planetest.ForTests(t, home, provider)
	planetest.SimulateNodes(t, clusters[1], "worker-1", "worker-2")
	scheme := newScheme(t)
	admin := func(c *testplane.Cluster) client.WithWatch {
		config := rest.CopyConfig(c.RESTConfig())
		config.QPS = -1
		w, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
		require.NoError(t, err)
		return w
	}
	r := &rig{
		rome: admin(clusters[0]), milan: admin(clusters[1]), events: &events{},
		out: &counter{counts: map[string]int{}}, back: &counter{counts: map[string]int{}},
		provider: clusters[1],
	}
	create := func(c client.Client, objects ...client.Object) {
		for _, object := range objects {
			require.NoError(t, c.Create(t.Context(), object))
		}
	}
	namespace := func(name string) client.Object {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	create(r.milan, namespace(remoteNamespace))
	create(r.rome, namespace(local), namespace(tenant), &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: nodeName, Labels: map[string]string{"liqo.io/remote-cluster-id": provider},
	}})
	create(r.rome, &offloadingv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: tenant, Name: provider,
		Labels: map[string]string{"liqo.io/remote-cluster-id": provider, "liqo.io/remoteID": provider},
	}})
	r.interpose(t)
	stop := r.reflect(t, clusters, scheme)
	t.Cleanup(func() { stop(t) })
	r.restart = func(t *testing.T, between func()) {
		t.Helper()
		stop(t)
		between()
		stop = r.reflect(t, clusters, scheme)
	}
	r.play(t)
	return r
}

// reflect runs the engine until it is stopped.
func (r *rig) reflect(t *testing.T, clusters []*testplane.Cluster, scheme *runtime.Scheme) (stop func(*testing.T)) {
	t.Helper()
	origin := remote.Origin{HomeClusterID: home, ProviderClusterID: provider, NodeName: nodeName}
	definitions := []engine.Definition{
		pod.New(pod.Options{Origin: origin, Evaluator: &r.policies, Workers: 10,
			VirtualNode: func() (*offloadingv1beta1.OffloadingPatch, contract.VirtualNode) {
				return nil, contract.VirtualNode{Name: nodeName, ProviderClusterID: provider, ConsumerClusterID: home}
			}}),
	}
	for _, kind := range mirror.Kinds() {
		definitions = append(definitions, kind.Define(mirror.Options{Origin: origin, Policy: offloadingv1beta1.DenyList, Workers: 3, Class: r.class}))
	}
	definitions = append(definitions, event.New(event.Options{Origin: origin, Policy: offloadingv1beta1.DenyList, Workers: 3, Interval: eventInterval}))
	connect := func(c *testplane.Cluster, count *counter) client.WithWatch {
		config := rest.CopyConfig(c.RESTConfig())
		if c == r.provider {
			config.Host = r.proxy.URL()
		}
		config.QPS = -1
		config.Wrap(count.wrap)
		w, err := engine.NewClient(config, scheme, definitions...)
		require.NoError(t, err)
		return w
	}
	e, err := engine.New(engine.Options{
		Local: connect(clusters[0], r.back), Remote: connect(clusters[1], r.out), Definitions: definitions,
		HomeClusterID: home, ProviderClusterID: provider, NodeName: nodeName, NodeIP: "127.0.0.1", TenantNamespace: tenant, Filter: r.policies.filter,
		Recorder: func(string) engine.Recorder { return r.events }, Now: time.Now,
	})
	require.NoError(t, err)
	r.engine = e
	e.Lead(true)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	return func(t *testing.T) {
		t.Helper()
		cancel()
		assert.NoError(t, <-done)
	}
}

// refused is a label of pods that the provider never creates.
const refused = "refused"

// play plays the provider: a pod for every ShadowPod.
func (r *rig) play(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	events := planetest.Watch(t, r.milan, &offloadingv1beta1.ShadowPod{}, &offloadingv1beta1.ShadowPodList{})
	var playing sync.WaitGroup
	t.Cleanup(playing.Wait)
	playing.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case event := <-events:
				shadow, _ := event.Object.(*offloadingv1beta1.ShadowPod)
				switch event.Type {
				case watch.Added:
					if shadow.Labels[refused] == "" {
						playing.Go(func() { r.make(ctx, shadow) })
					}
				case watch.Deleted:
					r.end(ctx, shadow)
				default: // A change asks for no pod.
				}
			}
		}
	})
}

// end deletes the pod of a ShadowPod. The garbage collector knows a new kind only after half
// a minute.
func (r *rig) end(ctx context.Context, shadow *offloadingv1beta1.ShadowPod) {
	p := &corev1.Pod{}
	if r.milan.Get(ctx, client.ObjectKeyFromObject(shadow), p) == nil && metav1.IsControlledBy(p, shadow) {
		_ = r.milan.Delete(ctx, p, client.Preconditions{UID: &p.UID})
	}
}

// make makes a ShadowPod's pod, as soon as an earlier one of its name has gone and as long
// as the ShadowPod is there.
func (r *rig) make(ctx context.Context, shadow *offloadingv1beta1.ShadowPod) {
	yes := true
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: shadow.Namespace, Name: shadow.Name, Labels: shadow.Labels, Annotations: shadow.Annotations,
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: offloadingv1beta1.GroupVersion.String(), Kind: "ShadowPod", Name: shadow.Name, UID: shadow.UID, Controller: &yes,
			}},
		},
		Spec: shadow.Spec.Pod,
	}
	// Its only error is the context's end, which is the test's.
	_ = wait.PollUntilContextCancel(ctx, tick, true, func(ctx context.Context) (bool, error) {
		if r.milan.Create(ctx, p.DeepCopy()) == nil {
			return true, nil
		}
		current := &corev1.Pod{}
		if r.milan.Get(ctx, client.ObjectKeyFromObject(shadow), current) == nil && metav1.IsControlledBy(current, shadow) {
			return true, nil
		}
		now := &offloadingv1beta1.ShadowPod{}
		err := r.milan.Get(ctx, client.ObjectKeyFromObject(shadow), now)
		return apierrors.IsNotFound(err) || err == nil && now.UID != shadow.UID, nil
	})
}

func (r *rig) createPods(t *testing.T, prefix string, n int) {
	t.Helper()
	for i := range n {
		require.NoError(t, r.rome.Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: local, Name: prefix + strconv.Itoa(i), Labels: map[string]string{"app": "web"}},
			Spec: corev1.PodSpec{
				NodeName: nodeName, TerminationGracePeriodSeconds: new(int64),
				Containers: []corev1.Container{{Name: "web", Image: "web:1", EnvFrom: []corev1.EnvFromSource{{
					ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}},
				}}}},
			},
		}))
	}
}

func (r *rig) countPods(t planetest.T, phase corev1.PodPhase) int {
	t.Helper()
	pods := &corev1.PodList{}
	require.NoError(t, r.rome.List(t.Context(), pods, client.InNamespace(local)))
	n := 0
	for i := range pods.Items {
		if pods.Items[i].Status.Phase == phase {
			n++
		}
	}
	return n
}

func TestReflectionOverRealControlPlanes(t *testing.T) {
	if testing.Short() {
		t.Skip("starts control planes")
	}
	r := newRig(t)
	t.Run("a pod waits while its namespace is not offloaded", func(t *testing.T) { r.waits(t) })
	t.Run("the policies that decided about labels are recorded", func(t *testing.T) { r.provenance(t) })
	t.Run("what a pod needs goes along", func(t *testing.T) { r.needs(t) })
	t.Run("fields that a Service loses go", func(t *testing.T) { r.removes(t) })
	t.Run("pods run, at few requests each", func(t *testing.T) { r.run(t) })
	t.Run("what needs a Service whose name is taken waits", func(t *testing.T) { r.awaitsService(t) })
	t.Run("a Service gets another load balancer class", func(t *testing.T) { r.reclasses(t) })
	t.Run("an event of a remote pod is an event of the local pod", func(t *testing.T) { r.reportsEvents(t) })
	t.Run("a label that is due while the provider is away arrives", func(t *testing.T) { r.labels(t) })
	t.Run("a cut link makes no pod ready on stale data", func(t *testing.T) { r.cut(t) })
	t.Run("a pod made again is offloaded again", func(t *testing.T) { r.again(t) })
	t.Run("a provider that is away fails no pod", func(t *testing.T) { r.outage(t) })
	t.Run("a namespace that is no longer offloaded ends its pods", func(t *testing.T) { r.unmap(t) })
	t.Run("a provider that deletes the remote namespace ends no pod", func(t *testing.T) { r.endsNamespace(t) })
	t.Run("deleted pods vanish on both sides", func(t *testing.T) { r.vanish(t) })
	t.Run("a Job learns of a deleted pod that never started", func(t *testing.T) { r.countsFailure(t) })
	t.Run("a provider that ends pods again and again has few made", func(t *testing.T) { r.ends(t) })
}

func (r *rig) waits(t *testing.T) {
	t.Helper()
	r.createPods(t, "early-", 1)
	require.Eventually(t, func() bool {
		p := &corev1.Pod{}
		if err := r.rome.Get(t.Context(), client.ObjectKey{Namespace: local, Name: "early-0"}, p); err != nil {
			return false
		}
		return p.Status.Reason == offloadingv1beta1.OffloadingBackOffReason
	}, soon, tick)
	r.remap(t, remoteNamespace)
	planetest.Until(t, func(t planetest.T) bool { return r.countPods(t, corev1.PodRunning) == 1 }, soon, tick)
	p := &corev1.Pod{}
	require.NoError(t, r.rome.Get(t.Context(), client.ObjectKey{Namespace: local, Name: "early-0"}, p))
	assert.Empty(t, p.Status.Reason, "the earlier reason is gone")
	assert.Equal(t, "true", p.Labels[offloadingv1beta1.LocalPodLabel])
}

func (r *rig) needs(t *testing.T) {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: local, Name: "settings"}
	yes := true
	objects := []client.Object{
		&corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"k": "1", "old": "x"}},
		&corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{"k": []byte("1")}, Immutable: &yes},
		&corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 80}}}},
	}
	for _, object := range objects {
		require.NoError(t, r.rome.Create(t.Context(), object))
	}
	there := client.ObjectKey{Namespace: remoteNamespace, Name: "settings"}
	for _, object := range []client.Object{&corev1.ConfigMap{}, &corev1.Secret{}, &corev1.Service{}} {
		require.Eventually(t, func() bool { return r.milan.Get(t.Context(), there, object) == nil }, soon, tick)
		assert.Equal(t, home, object.GetLabels()[offloadingv1beta1.OriginLabel])
		require.Len(t, object.GetManagedFields(), 1, "one apply made it")
		assert.Equal(t, metav1.ManagedFieldsOperationApply, object.GetManagedFields()[0].Operation)
	}
	require.Eventually(t, func() bool {
		return r.milan.Get(t.Context(), client.ObjectKey{Namespace: remoteNamespace, Name: "kube-root-ca.crt.rome"}, &corev1.ConfigMap{}) == nil
	}, soon, tick, "the root CA goes along under another name")

	r.sendsEndpoints(t)

	// A key removed here is removed there.
	require.NoError(t, r.rome.Patch(t.Context(), objects[0], client.RawPatch("application/merge-patch+json", []byte(`{"data":{"k":"2","old":null}}`))))
	require.Eventually(t, func() bool {
		cm := &corev1.ConfigMap{}
		if err := r.milan.Get(t.Context(), there, cm); err != nil {
			return false
		}
		return cm.Data["k"] == "2" && len(cm.Data) == 1
	}, soon, tick)
	// An immutable Secret that was deleted and created again.
	require.NoError(t, r.rome.Delete(t.Context(), objects[1]))
	require.NoError(t, r.rome.Create(t.Context(), &corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{"k": []byte("2")}, Immutable: &yes}))
	require.Eventually(t, func() bool {
		s := &corev1.Secret{}
		return r.milan.Get(t.Context(), there, s) == nil && string(s.Data["k"]) == "2"
	}, soon, tick)
	// An unmanaged object is left alone.
	unmanaged := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: remoteNamespace, Name: "other"}, Data: map[string]string{"k": "other"}}
	require.NoError(t, r.milan.Create(t.Context(), unmanaged))
	require.NoError(t, r.rome.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: local, Name: "other"}, Data: map[string]string{"k": "desired"}}))
	require.Eventually(t, func() bool {
		r.events.mu.Lock()
		defer r.events.mu.Unlock()
		return strings.Contains(strings.Join(r.events.all, "\n"), "other: FailedReflection")
	}, soon, tick)
	require.NoError(t, r.milan.Get(t.Context(), client.ObjectKeyFromObject(unmanaged), unmanaged))
	assert.Equal(t, map[string]string{"k": "other"}, unmanaged.Data)
	assert.Empty(t, unmanaged.Labels)
	// A conflict is tried again now and then, which would count among the requests of run.
	require.NoError(t, r.rome.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: local, Name: "other"}}))
}

func (r *rig) run(t *testing.T) {
	t.Helper()
	const pods = 20
	out, back := r.out.snapshot(), r.back.snapshot()
	begin := time.Now()
	r.createPods(t, "web-", pods)
	planetest.Until(t, func(t planetest.T) bool { return r.countPods(t, corev1.PodRunning) == pods+1 }, soon, tick)
	t.Logf("%d pods run after %s", pods, time.Since(begin).Round(time.Millisecond))
	assert.Equal(t, map[string]int{"POST shadowpods": pods}, r.out.since(out, pods), "to the provider")
	toConsumer := r.back.since(back, pods)
	assert.LessOrEqual(t, toConsumer["PATCH events"], pods, "the provider's scheduler records one for each, which is copied at leisure")
	delete(toConsumer, "PATCH events")
	assert.Equal(t, map[string]int{"PATCH pods/status": pods}, toConsumer, "to the consumer")

	p, there := &corev1.Pod{}, &corev1.Pod{}
	require.NoError(t, r.rome.Get(t.Context(), client.ObjectKey{Namespace: local, Name: "web-0"}, p))
	require.NoError(t, r.milan.Get(t.Context(), client.ObjectKey{Namespace: remoteNamespace, Name: "web-0"}, there))
	assert.Equal(t, there.Status.PodIP, p.Status.PodIP)
	assert.Equal(t, string(p.UID), there.Annotations[remote.LocalPodUIDAnnotation])
	assert.NotEqual(t, nodeName, there.Spec.NodeName)
}

func (r *rig) again(t *testing.T) {
	t.Helper()
	key := client.ObjectKey{Namespace: local, Name: "web-0"}
	old, oldThere := &corev1.Pod{}, &corev1.Pod{}
	require.NoError(t, r.rome.Get(t.Context(), key, old))
	require.NoError(t, r.milan.Get(t.Context(), client.ObjectKey{Namespace: remoteNamespace, Name: "web-0"}, oldThere))
	require.NoError(t, r.rome.Delete(t.Context(), old, client.GracePeriodSeconds(0)))
	r.createPods(t, "web-", 1)
	p := &corev1.Pod{}
	require.Eventually(t, func() bool {
		return r.rome.Get(t.Context(), key, p) == nil && p.Status.Phase == corev1.PodRunning
	}, soon, tick)
	there := &corev1.Pod{}
	require.NoError(t, r.milan.Get(t.Context(), client.ObjectKey{Namespace: remoteNamespace, Name: "web-0"}, there))
	assert.NotEqual(t, oldThere.UID, there.UID, "T25: not the old pod's")
	assert.Equal(t, string(p.UID), there.Annotations[remote.LocalPodUIDAnnotation])
}

// outage takes the provider away while pods come, go and run.
func (r *rig) outage(t *testing.T) {
	t.Helper()
	require.NoError(t, r.provider.Crash())
	before := r.out.snapshot()
	r.createPods(t, "late-", 3)
	require.NoError(t, r.rome.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: local, Name: "web-1"}}, client.GracePeriodSeconds(30)))
	require.Eventually(t, func() bool {
		now := r.out.snapshot()
		return now["POST shadowpods"] >= before["POST shadowpods"]+6 &&
			now["DELETE shadowpods"]+now["DELETE pods"] >= before["DELETE shadowpods"]+before["DELETE pods"]+2
	}, soon, tick, "it is tried again")
	pods := &corev1.PodList{}
	require.NoError(t, r.rome.List(t.Context(), pods, client.InNamespace(local)))
	for i := range pods.Items {
		assert.NotEqual(t, corev1.PodFailed, pods.Items[i].Status.Phase, pods.Items[i].Name)
	}
	gone := &corev1.Pod{}
	require.NoError(t, r.rome.Get(t.Context(), client.ObjectKey{Namespace: local, Name: "web-1"}, gone))
	assert.NotNil(t, gone.DeletionTimestamp, "it stays until the provider has let go (T17)")

	require.NoError(t, r.provider.Restart(t.Context()))
	planetest.Until(t, func(t planetest.T) bool { return r.countPods(t, corev1.PodRunning) == 1+19+3 }, soon, tick)
	require.Eventually(t, func() bool {
		return client.IgnoreNotFound(r.rome.Get(t.Context(), client.ObjectKey{Namespace: local, Name: "web-1"}, gone)) == nil &&
			r.rome.Get(t.Context(), client.ObjectKey{Namespace: local, Name: "web-1"}, gone) != nil
	}, soon, tick)
}

// unmap takes the mapping away; what stays in the provider is the provider's to delete.
func (r *rig) unmap(t *testing.T) {
	t.Helper()
	r.remap(t, "")
	planetest.Until(t, func(t planetest.T) bool { return r.countPods(t, corev1.PodFailed) == 1+19+3 }, soon, tick)
	p := &corev1.Pod{}
	require.NoError(t, r.rome.Get(t.Context(), client.ObjectKey{Namespace: local, Name: "web-2"}, p))
	assert.Equal(t, offloadingv1beta1.OffloadingAbortedReason, p.Status.Reason)
	require.NotEmpty(t, p.Status.ContainerStatuses)
	assert.NotNil(t, p.Status.ContainerStatuses[0].State.Terminated)
	// Offloaded again: the aborted pods stay aborted, what they left behind goes.
	r.remap(t, remoteNamespace)
	require.Eventually(t, func() bool {
		shadows := &offloadingv1beta1.ShadowPodList{}
		if err := r.milan.List(t.Context(), shadows, client.InNamespace(remoteNamespace)); err != nil {
			return false
		}
		return len(shadows.Items) == 0
	}, soon, tick)
	assert.Equal(t, 1+19+3, r.countPods(t, corev1.PodFailed))
	r.createPods(t, "new-", 2)
	planetest.Until(t, func(t planetest.T) bool { return r.countPods(t, corev1.PodRunning) == 2 }, soon, tick)
}

func (r *rig) vanish(t *testing.T) {
	t.Helper()
	require.NoError(t, r.rome.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(local)))
	require.Eventually(t, func() bool {
		here, there := &corev1.PodList{}, &corev1.PodList{}
		if err := r.rome.List(t.Context(), here, client.InNamespace(local)); err != nil {
			return false
		}
		if err := r.milan.List(t.Context(), there, client.InNamespace(remoteNamespace)); err != nil {
			return false
		}
		return len(here.Items) == 0 && len(there.Items) == 0
	}, soon, tick)
	assert.Empty(t, r.events.failures(), "no failure is recorded")
}
