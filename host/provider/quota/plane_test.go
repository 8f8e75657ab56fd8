package quota_test

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/yaml"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme"
	forge "github.com/longshore-dev/longshore/host/forge/provider"
	"github.com/longshore-dev/longshore/host/provider/admission/shadowpod"
	"github.com/longshore-dev/longshore/host/provider/quota"
	provided "github.com/longshore-dev/longshore/host/provider/shadowpod"
)

const (
	consumerUser = "gpu-0123456789ab"
	namespace    = "shop-rome"

	soon = 2 * time.Minute
	tick = 25 * time.Millisecond
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// provider is a real API server that asks the replicas of the webhook in turn.
type provider struct {
	t          testing.TB
	connection *rest.Config
	scheme     *runtime.Scheme
	admin      client.Client
	consumer   client.Client
	mu         sync.Mutex
	replicas   []http.Handler
	asked      atomic.Int64
}

func newProvider(tb testing.TB) *provider {
	tb.Helper()
	p := &provider{t: tb, connection: rest.CopyConfig(planetest.ForTest(tb, "milan").RESTConfig())}
	p.connection.QPS = -1
	var err error
	p.scheme, err = scheme.New()
	require.NoError(tb, err)
	require.NoError(tb, admissionregistrationv1.AddToScheme(p.scheme))
	p.admin, err = client.New(p.connection, client.Options{Scheme: p.scheme})
	require.NoError(tb, err)
	p.consumer = p.as(consumerUser)
	require.NoError(tb, p.admin.Create(tb.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: namespace, Labels: map[string]string{liqocorev1beta1.RemoteClusterIDLabel: "rome"},
	}}))
	return p
}

// as returns a client of a user with all rights.
func (p *provider) as(user string) client.Client {
	p.t.Helper()
	connection := rest.CopyConfig(p.connection)
	connection.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:masters"}}
	c, err := client.New(connection, client.Options{Scheme: p.scheme})
	require.NoError(p.t, err)
	return c
}

// startReplica runs a replica of the webhook until it is stopped or the test ends.
func (p *provider) startReplica() (stop func()) {
	p.t.Helper()
	mgr, err := ctrl.NewManager(p.connection, ctrl.Options{
		Scheme: p.scheme, Metrics: server.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: ptr.To(true)},
		Cache: cache.Options{ByObject: map[client.Object]cache.ByObject{&offloadingv1beta1.ShadowPod{}: {Transform: quota.Trim}}},
	})
	require.NoError(p.t, err)
	ctx, cancel := context.WithCancel(p.t.Context())
	enforcer := &quota.Enforcer{
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Account: quota.NewAccount(clock.RealClock{}), Clock: clock.RealClock{},
	}
	require.NoError(p.t, quota.Index(ctx, mgr.GetFieldIndexer()))
	require.NoError(p.t, enforcer.Account.Watch(ctx, mgr.GetCache()))
	require.NoError(p.t, enforcer.SetupWithManager(mgr))
	var done sync.WaitGroup
	done.Go(func() { assert.NoError(p.t, mgr.Start(ctx)) })
	stop = sync.OnceFunc(func() { cancel(); done.Wait() })
	p.t.Cleanup(stop)
	require.Eventually(p.t, func() bool { return mgr.GetCache().WaitForCacheSync(ctx) && enforcer.Account.Synced() }, soon, tick)
	decoder := admission.NewDecoder(p.scheme)
	mux := http.NewServeMux()
	mux.Handle(shadowpod.MutatePath, &admission.Webhook{Handler: &shadowpod.Mutator{Decoder: decoder, Enforce: true}})
	mux.Handle(shadowpod.ValidatePath, &admission.Webhook{Handler: &shadowpod.Validator{
		Decoder: decoder, Reader: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Quotas: enforcer,
	}})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.replicas = append(p.replicas, mux)
	return stop
}

// startEnding runs the controller of the manager that counts what pods hold whose ShadowPods are gone.
func (p *provider) startEnding() {
	p.t.Helper()
	mgr, err := ctrl.NewManager(p.connection, ctrl.Options{
		Scheme: p.scheme, Metrics: server.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	})
	require.NoError(p.t, err)
	require.NoError(p.t, (&provided.Ending{Client: mgr.GetClient()}).SetupWithManager(mgr))
	ctx, cancel := context.WithCancel(p.t.Context())
	var done sync.WaitGroup
	done.Go(func() { assert.NoError(p.t, mgr.Start(ctx)) })
	p.t.Cleanup(func() { cancel(); done.Wait() })
	require.Eventually(p.t, func() bool { return mgr.GetCache().WaitForCacheSync(ctx) }, soon, tick)
}

// awaitRoom waits until both replicas would admit a ShadowPod.
func (p *provider) awaitRoom(cpu string) {
	p.t.Helper()
	planetest.Until(p.t, func(t planetest.T) bool {
		for range 2 { // the replicas are asked in turn
			if p.consumer.Create(t.Context(), shadowPod("probe", cpu), client.DryRunAll) != nil {
				return false
			}
		}
		return true
	}, soon, tick, "both replicas have room for %s cpu", cpu)
}

// replaceReplicas has new replicas answer, which know nothing but what the API server has.
func (p *provider) replaceReplicas(count int) {
	p.t.Helper()
	p.mu.Lock()
	p.replicas = nil
	p.mu.Unlock()
	for range count {
		p.startReplica()
	}
}

// ServeHTTP asks the replicas in turn.
func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	next := p.replicas[int(p.asked.Add(1))%len(p.replicas)]
	p.mu.Unlock()
	next.ServeHTTP(w, r)
}

// register registers both webhooks as the chart does, and waits until they are in force.
func (p *provider) register() {
	p.t.Helper()
	hooks := httptest.NewTLSServer(p)
	p.t.Cleanup(hooks.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hooks.Certificate().Raw})
	rendered, err := os.ReadFile(filepath.Join("..", "..", "..", "hack", "demo", "chart", "testdata", "default.golden.yaml"))
	require.NoError(p.t, err)
	clientConfig := func(c *admissionregistrationv1.WebhookClientConfig) bool {
		path := *c.Service.Path
		*c = admissionregistrationv1.WebhookClientConfig{URL: ptr.To(hooks.URL + path), CABundle: authority}
		return path == shadowpod.MutatePath || path == shadowpod.ValidatePath
	}
	count := 0
	for document := range strings.SplitSeq(string(rendered), "\n---\n") {
		switch {
		case strings.Contains(document, "\nkind: ValidatingWebhookConfiguration\n"):
			validating := &admissionregistrationv1.ValidatingWebhookConfiguration{}
			require.NoError(p.t, yaml.Unmarshal([]byte(document), validating))
			var ours []admissionregistrationv1.ValidatingWebhook
			for i := range validating.Webhooks {
				if clientConfig(&validating.Webhooks[i].ClientConfig) {
					ours = append(ours, validating.Webhooks[i])
				}
			}
			validating.Webhooks = ours
			count += len(ours)
			require.NoError(p.t, p.admin.Create(p.t.Context(), validating))
		case strings.Contains(document, "\nkind: MutatingWebhookConfiguration\n"):
			mutating := &admissionregistrationv1.MutatingWebhookConfiguration{}
			require.NoError(p.t, yaml.Unmarshal([]byte(document), mutating))
			var ours []admissionregistrationv1.MutatingWebhook
			for i := range mutating.Webhooks {
				if clientConfig(&mutating.Webhooks[i].ClientConfig) {
					ours = append(ours, mutating.Webhooks[i])
				}
			}
			mutating.Webhooks = ours
			count += len(ours)
			require.NoError(p.t, p.admin.Create(p.t.Context(), mutating))
		}
	}
	require.Equal(p.t, 2, count, "the chart registers both")
	require.Eventually(p.t, func() bool {
		probe := shadowPod("probe", "1")
		delete(probe.Labels, offloadingv1beta1.OriginLabel)
		return p.consumer.Create(p.t.Context(), probe, client.DryRunAll) != nil && p.consumer.Create(p.t.Context(), shadowPod("probe", "1"), client.DryRunAll) == nil
	}, soon, tick, "the webhooks are in force")
}

func shadowPod(name, cpu string) *offloadingv1beta1.ShadowPod {
	shadow := &offloadingv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: namespace, Labels: map[string]string{offloadingv1beta1.OriginLabel: "rome"},
	}}
	shadow.Spec.Pod.Containers = []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)},
	}}}
	return shadow
}

func newQuota(user, cpu, pods string) *offloadingv1beta1.Quota {
	return &offloadingv1beta1.Quota{
		ObjectMeta: metav1.ObjectMeta{Name: user, Namespace: "default"},
		Spec: offloadingv1beta1.QuotaSpec{User: user, Resources: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourcePods: resource.MustParse(pods),
		}},
	}
}

// flood creates ShadowPods of one cpu at once, and returns how many were admitted.
func (p *provider) flood(prefix string, count int) int {
	p.t.Helper()
	return p.floodAs(p.consumer, prefix, count)
}

// floodAs is flood with another client.
func (p *provider) floodAs(consumer client.Client, prefix string, count int) int {
	p.t.Helper()
	var admitted atomic.Int64
	var requests sync.WaitGroup
	for i := range count {
		requests.Go(func() {
			err := consumer.Create(p.t.Context(), shadowPod(fmt.Sprintf("%s-%d", prefix, i), "1"))
			if err == nil {
				admitted.Add(1)
				return
			}
			assert.True(p.t, apierrors.IsForbidden(err), "%v", err)
			assert.ErrorContains(p.t, err, "exceeded quota")
		})
	}
	requests.Wait()
	return int(admitted.Load())
}

// awaitUsed waits until the Quota's status has what is used.
func (p *provider) awaitUsed(cpu, pods string) {
	p.t.Helper()
	planetest.Until(p.t, func(t planetest.T) bool {
		q := &offloadingv1beta1.Quota{}
		require.NoError(t, p.admin.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: consumerUser}, q))
		have := q.Status.Used[corev1.ResourcePods]
		return q.Status.Used.Cpu().Cmp(resource.MustParse(cpu)) == 0 && have.Cmp(resource.MustParse(pods)) == 0 && len(q.Status.Reservations) == 0
	}, soon, tick, "%s cpu and %s pods are used", cpu, pods)
}

// TestWhatTheClusterAddsToPodsCounts has pods of a RuntimeClass with overhead, a namespace with default
// requests, and a container that the provider injected.
func TestWhatTheClusterAddsToPodsCounts(t *testing.T) {
	p := newProvider(t)
	cpus := func(amount string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(amount)}
	}
	class := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "heavy"}, Handler: "heavy", Overhead: &nodev1.Overhead{PodFixed: cpus("2")}}
	require.NoError(t, p.admin.Create(t.Context(), class))
	require.NoError(t, p.admin.Create(t.Context(), newQuota(consumerUser, "10", "20")))
	p.startReplica()
	p.register()
	heavy := func(name string) *offloadingv1beta1.ShadowPod {
		shadow := shadowPod(name, "1m")
		shadow.Spec.Pod.RuntimeClassName = &class.Name
		return shadow
	}
	for _, name := range []string{"one", "two", "three"} {
		require.NoError(t, p.consumer.Create(t.Context(), heavy(name)))
	}
	p.awaitUsed("6003m", "3")

	limits := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Name: "defaults", Namespace: namespace}, Spec: corev1.LimitRangeSpec{
		Limits: []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer, DefaultRequest: cpus("1500m")}},
	}}
	require.NoError(t, p.admin.Create(t.Context(), limits))
	planetest.Until(t, func(t planetest.T) bool { // A dry run is not counted.
		most := shadowPod("most", "3990m")
		most.Spec.Pod.Containers = append(most.Spec.Pod.Containers, corev1.Container{Name: "sidecar", Image: "i"})
		return apierrors.IsForbidden(p.consumer.Create(t.Context(), most, client.DryRunAll))
	}, soon, tick, "default requests count")
	silent := shadowPod("silent", "1")
	silent.Spec.Pod.Containers[0].Resources = corev1.ResourceRequirements{}
	require.NoError(t, p.consumer.Create(t.Context(), silent))
	p.awaitUsed("7503m", "4")

	// The ShadowPod's controller has seen an injected container in the pod.
	silent.Status.Phase, silent.Status.Requests = corev1.PodPending, cpus("3")
	require.NoError(t, p.admin.Status().Update(t.Context(), silent))
	p.awaitUsed("9003m", "4")
	require.True(t, apierrors.IsForbidden(p.consumer.Create(t.Context(), shadowPod("five", "1"))))
	p.replaceReplicas(1)
	require.True(t, apierrors.IsForbidden(p.consumer.Create(t.Context(), shadowPod("five", "1"))), "a new replica counts the same")
	require.NoError(t, p.consumer.Create(t.Context(), shadowPod("five", "500m")))
}

// TestAQuotaHolds creates more ShadowPods than fit, at once, through two replicas of the webhook.
func TestAQuotaHolds(t *testing.T) {
	p := newProvider(t)
	q := newQuota(consumerUser, "10", "12")
	require.NoError(t, p.admin.Create(t.Context(), q))
	p.startEnding()
	p.startReplica()
	p.startReplica()
	p.register()

	require.Equal(t, 10, p.flood("first", 40))
	p.awaitUsed("10", "10")

	// A pod that has finished gives its quota back, and so does one that is deleted.
	finished := &offloadingv1beta1.ShadowPodList{}
	require.NoError(t, p.admin.List(t.Context(), finished))
	require.Len(t, finished.Items, 10)
	assert.Equal(t, consumerUser, finished.Items[0].Labels[offloadingv1beta1.CreatorUserLabel])
	finished.Items[0].Status.Phase = corev1.PodSucceeded
	require.NoError(t, p.admin.Status().Update(t.Context(), &finished.Items[0]))
	require.NoError(t, p.consumer.Delete(t.Context(), &finished.Items[1]))
	p.awaitUsed("8", "8")
	p.awaitRoom("2")
	require.Equal(t, 2, p.flood("second", 10))

	// Replicas that have just started know what is used.
	p.replaceReplicas(2)
	require.Zero(t, p.flood("third", 10))

	// The grant follows the slice, and pods are counted.
	p.resize("20", "12")
	require.Equal(t, 2, p.flood("fourth", 10))
	p.awaitUsed("12", "12")

	// Administrators and the garbage collector may update, and the accounting stays.
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"liqo.io/creator-user":"another","team":"a"}}}`))
	require.NoError(t, p.admin.Patch(t.Context(), &finished.Items[2], patch))
	assert.Equal(t, consumerUser, finished.Items[2].Labels[offloadingv1beta1.CreatorUserLabel])
	assert.Equal(t, "a", finished.Items[2].Labels["team"])
	require.NoError(t, p.admin.DeleteAllOf(t.Context(), &offloadingv1beta1.ShadowPod{}, client.InNamespace(namespace), client.PropagationPolicy(metav1.DeletePropagationForeground)))
	p.awaitUsed("0", "0")
	p.awaitRoom("20")

	// Another identity has no share in it.
	err := p.as("other-0123456789ab").Create(t.Context(), shadowPod("other", "1"))
	require.ErrorContains(t, err, "user other-0123456789ab has no Quota")
	require.Equal(t, 12, p.flood("fifth", 20))
}

// TestAPodThatEndsKeepsItsQuota deletes a ShadowPod that has the whole Quota, whose pod takes its time, and
// creates others at once, again and again.
func TestAPodThatEndsKeepsItsQuota(t *testing.T) {
	p := newProvider(t)
	require.NoError(t, p.admin.Create(t.Context(), newQuota(consumerUser, "4", "100")))
	p.startEnding()
	p.startReplica()
	p.startReplica()
	p.register()

	shadow := shadowPod("web", "4")
	require.NoError(t, p.consumer.Create(t.Context(), shadow))
	pod := forge.Pod(shadow)
	pod.Spec.NodeName, pod.Spec.TerminationGracePeriodSeconds = "node", ptr.To[int64](31536000)
	pod.Spec.AutomountServiceAccountToken = ptr.To(false)
	require.NoError(t, p.admin.Create(t.Context(), pod))

	require.NoError(t, p.consumer.Delete(t.Context(), shadow))
	refused := func(name string) {
		t.Helper()
		require.ErrorContains(t, p.consumer.Create(t.Context(), shadowPod(name, "4")), "exceeded quota")
	}
	for i := range 10 {
		refused(fmt.Sprintf("at-once-%d", i))
	}
	// The garbage collector does not run here.
	require.NoError(t, p.admin.Delete(t.Context(), pod))
	planetest.Until(t, func(t planetest.T) bool {
		q := &offloadingv1beta1.Quota{}
		require.NoError(t, p.admin.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: consumerUser}, q))
		return q.Status.EndingResourceVersion != "" && q.Status.Ending.Cpu().Value() == 4
	}, soon, tick, "the manager counts the pod")
	p.replaceReplicas(2)
	for i := range 10 {
		refused(fmt.Sprintf("later-%d", i))
	}
	require.NoError(t, p.admin.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
	p.awaitRoom("4")
}

// TestTwoReplicasUnderLoad creates more ShadowPods than fit into a large Quota, at once: two replicas
// together admit all that fits and nothing more.
func TestTwoReplicasUnderLoad(t *testing.T) {
	const grant = 120
	p := newProvider(t)
	q := newQuota(consumerUser, "1000", strconv.Itoa(grant))
	require.NoError(t, p.admin.Create(t.Context(), q))
	p.startEnding()
	p.startReplica()
	p.startReplica()
	p.register()

	require.Equal(t, grant, p.flood("many", 2*grant))
	p.awaitUsed(strconv.Itoa(grant), strconv.Itoa(grant))

	require.NoError(t, p.admin.DeleteAllOf(t.Context(), &offloadingv1beta1.ShadowPod{}, client.InNamespace(namespace)))
	p.awaitUsed("0", "0")
	p.awaitRoom("1000")
	require.NoError(t, p.consumer.Create(t.Context(), shadowPod("before", "1")))
	require.NoError(t, p.admin.Patch(t.Context(), q, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"cordoned":true}}`))))
	for i := range 2 { // The write of a replica that does not know of it conflicts.
		require.True(t, apierrors.IsForbidden(p.consumer.Create(t.Context(), shadowPod(fmt.Sprintf("after-%d", i), "1"))))
	}
}

// TestVirtualNodesOfASliceShareItsQuota creates ShadowPods of two virtual nodes, which have the
// identity of their ResourceSlice, at once, and of another ResourceSlice of the same consumer,
// which has a Quota of its own.
func TestVirtualNodesOfASliceShareItsQuota(t *testing.T) {
	const otherUser = "cpu-0123456789ab"
	p := newProvider(t)
	require.NoError(t, p.admin.Create(t.Context(), newQuota(consumerUser, "6", "100")))
	require.NoError(t, p.admin.Create(t.Context(), newQuota(otherUser, "3", "100")))
	p.startReplica()
	p.startReplica()
	p.register()

	var admitted [3]int
	var nodes sync.WaitGroup
	for i, identity := range []client.Client{p.consumer, p.consumer, p.as(otherUser)} {
		nodes.Go(func() { admitted[i] = p.floodAs(identity, fmt.Sprintf("node-%d", i), 12) })
	}
	nodes.Wait()
	assert.Equal(t, 6, admitted[0]+admitted[1], "both virtual nodes of a slice together: %v", admitted)
	assert.Equal(t, 3, admitted[2], "the other slice")
	p.awaitUsed("6", "6")
}

// resize changes the grant, as often as the status is written meanwhile.
func (p *provider) resize(cpu, pods string) {
	p.t.Helper()
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"resources":{"cpu":"`+cpu+`","pods":"`+pods+`"}}}`))
	require.NoError(p.t, p.admin.Patch(p.t.Context(), newQuota(consumerUser, cpu, pods), patch))
	p.awaitRoom("1") // Replicas learn of it by their watch, or when they write.
}
