package rig_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	"github.com/longshore-dev/longshore/hack/demo/rig"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/module"
	"github.com/longshore-dev/longshore/host/policy/policytest"
	"github.com/longshore-dev/longshore/host/policy/view"
)

const (
	swapNamespace = "swap"
	swapRemote    = "swap-rome"
	swapPolicy    = "stamp"
	// swapRate is how many pods a second are created, unless the variable says otherwise.
	// A slower machine creates fewer: the test asserts order and loss, not time.
	swapRate         = 100
	swapRateVariable = "LONGSHORE_SWAP_RATE"
	// swapPods are created between two changes, at least.
	swapPods = 50
)

// stampModule returns the module of a version of a policy that stamps its version on every
// pod, at both moments, and its short digest. It reads the pod's
// name, so that no answer is remembered and every pod is a call.
func stampModule(version string, first ...any) ([]byte, string) {
	manifest := fmt.Sprintf(`{"name":"stamp","version":%q,"contracts":["v1alpha1"],"points":[{"point":"PodMutation","reads":["/object/metadata/name"],"writes":[{"path":"/metadata/annotations","verbs":["merge"]}]}]}`, version)
	answer := fmt.Sprintf(`{"version":"v1alpha1","operations":[{"op":"merge","path":"/metadata/annotations","value":{"stamp.example/version":%q}}]}`, version)
	wasm := policytest.NewGuest().Answers("describe", manifest).Answers("pod_mutation", answer, first...).Bytes()
	return wasm, chain.ShortDigest(module.Digest(wasm))
}

// flow creates pods at a steady pace, one after the other, until it is stopped.
type flow struct {
	// begun is how many creations have begun; pod n is the n-th.
	begun atomic.Int64
	ended chan error
	stop  context.CancelFunc
}

func podName(n int64) string { return fmt.Sprintf("pod-%05d", n) }

func startFlow(t *testing.T, r *rig.Rig, rate int) *flow {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	f := &flow{ended: make(chan error, 1), stop: stop}
	go func() {
		ticker := time.NewTicker(time.Second / time.Duration(rate))
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				f.ended <- nil
				return
			case <-ticker.C:
			}
			p := pod(podName(f.begun.Add(1)))
			p.Namespace = swapNamespace
			// The test's context: a creation that has begun is not cut off by stop.
			if err := r.Rome.Create(t.Context(), p); err != nil {
				f.ended <- fmt.Errorf("creating %s: %w", p.Name, err)
				return
			}
		}
	}()
	return f
}

// more waits until n more creations have begun, and ended but for the last.
func (f *flow) more(t *testing.T, n int64) {
	t.Helper()
	want := f.begun.Load() + n
	eventually(t, "pods keep flowing", func(t planetest.T) bool {
		select {
		case err := <-f.ended:
			f.ended <- err
			require.NoError(t, err)
		default:
		}
		return f.begun.Load() >= want
	})
}

// swapped is a version that runs everywhere since creation number since.
type swapped struct {
	digest string
	since  int64
}

// swapUnderLoad replaces a module three times while pods flow, once by a broken one.
func swapUnderLoad(t *testing.T, r *rig.Rig) {
	offloadSwapNamespace(t, r)
	before := components(t, r)
	first, digest := stampModule("1")
	storePolicy(t, r, swapPolicy, map[string][]byte{"module.wasm": first}, nil)
	awaitDigest(t, r, digest)
	rate := swapRate
	if value := os.Getenv(swapRateVariable); value != "" {
		var err error
		rate, err = strconv.Atoi(value)
		require.NoError(t, err)
	}
	versions := []swapped{{digest: digest}}
	sent := watchOffloads(t, r)
	f := startFlow(t, r, rate)
	t.Cleanup(f.stop)
	f.more(t, swapPods)
	for _, version := range []string{"2", "3"} {
		next, digest := stampModule(version)
		began := f.begun.Load()
		require.NoError(t, replaceModule(t, r, next))
		awaitDigest(t, r, digest)
		versions = append(versions, swapped{digest: digest, since: f.begun.Load()})
		t.Logf("version %s: %d pods were created until all components ran it", version, f.begun.Load()-began)
		f.more(t, swapPods)
		if version == "2" {
			broken, _ := stampModule("broken", 0x00) // unreachable
			require.ErrorContains(t, replaceModule(t, r, broken), "the module crashed: unreachable; its author must correct it")
			f.more(t, swapPods)
		}
	}
	f.stop()
	require.NoError(t, <-f.ended, "no creation fails")

	created := f.begun.Load()
	t.Logf("%d pods were created", created)
	require.NoError(t, r.Rome.WaitForPods(t.Context(), swapNamespace, int(created), quiet))
	eventually(t, "every creation of a ShadowPod was seen", func(t planetest.T) bool { return len(sent.all()) == int(created) })
	for place, found := range map[string]map[string]string{"admission": admitted(t, r), "offloading": sent.all()} {
		assert.Len(t, found, int(created), "no pod is lost at %s", place)
		inOrder(t, place, found, versions, created)
	}
	assert.Equal(t, before, components(t, r), "nothing restarted")
	for _, p := range pods(t, r.Rome, swapNamespace, nil) {
		assert.Zero(t, p.Status.ContainerStatuses[0].RestartCount, "the remote pod of %s was replaced", p.Name)
	}
	noPolicyEvents(t, r)
	withdrawSwapNamespace(t, r)
}

// inOrder holds each pod against the versions: one that was created after all components
// ran a version is decided by it or by a later one.
func inOrder(t *testing.T, place string, found map[string]string, versions []swapped, created int64) {
	t.Helper()
	ranks := map[string]int{}
	for i, v := range versions {
		ranks[v.digest] = i
	}
	latest, least := 0, 0
	for n := int64(1); n <= created; n++ {
		for least+1 < len(versions) && n > versions[least+1].since {
			least++
		}
		rank, known := ranks[found[podName(n)]]
		require.True(t, known, "%s of %s: decided by %q, no version of the policy", place, podName(n), found[podName(n)])
		require.GreaterOrEqual(t, rank, least, "%s of %s: all components ran version %d before it was created", place, podName(n), least+1)
		if place == "admission" {
			require.GreaterOrEqual(t, rank, latest, "%s of %s: an earlier pod was decided by a later version", place, podName(n))
			latest = rank
		}
	}
}

// digestOf returns the digest of the policy's version that decided an object.
func digestOf(annotations map[string]string) (string, error) {
	entries, err := view.DecodeDecisions(annotations[policyv1alpha1.DecisionsAnnotation])
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		if e.Policy == swapPolicy {
			return e.Digest, nil
		}
	}
	return "", nil
}

// admitted returns the version that decided each pod at admission, by name.
func admitted(t *testing.T, r *rig.Rig) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, p := range pods(t, r.Rome, swapNamespace, nil) {
		digest, err := digestOf(p.Annotations)
		require.NoError(t, err)
		found[p.Name] = digest
	}
	return found
}

// offloads records the version that decided each ShadowPod when it was created: its
// metadata may be decided again later.
type offloads struct {
	mu    sync.Mutex
	found map[string]string
}

func watchOffloads(t *testing.T, r *rig.Rig) *offloads {
	t.Helper()
	milan, err := client.NewWithWatch(r.Milan.Config, client.Options{Scheme: r.Milan.Scheme()})
	require.NoError(t, err)
	events := planetest.Watch(t, milan, &offloadingv1beta1.ShadowPod{}, &offloadingv1beta1.ShadowPodList{}, client.InNamespace(swapRemote))
	o := &offloads{found: map[string]string{}}
	go func() {
		for {
			select {
			case <-t.Context().Done():
				return
			case event := <-events:
				o.record(event)
			}
		}
	}()
	return o
}

func (o *offloads) record(event watch.Event) {
	shadow, ok := event.Object.(*offloadingv1beta1.ShadowPod)
	if !ok || event.Type != watch.Added {
		return
	}
	digest, err := digestOf(shadow.Annotations)
	if err != nil {
		digest = err.Error()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.found[shadow.Name] = digest
}

func (o *offloads) all() map[string]string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.found)
}

// components are the processes of Longshore in rome and how often they have restarted.
func components(t *testing.T, r *rig.Rig) map[types.UID]int32 {
	t.Helper()
	found := map[types.UID]int32{}
	for _, namespace := range []string{rig.Namespace, rig.Pair.ConsumerTenant()} {
		for _, p := range pods(t, r.Rome, namespace, nil) {
			for i := range p.Status.ContainerStatuses {
				found[p.UID] += p.Status.ContainerStatuses[i].RestartCount
			}
		}
	}
	require.NotEmpty(t, found)
	return found
}

func replaceModule(t *testing.T, r *rig.Rig, wasm []byte) error {
	t.Helper()
	cm := &corev1.ConfigMap{}
	require.NoError(t, r.Rome.Get(t.Context(), client.ObjectKey{Namespace: rig.Namespace, Name: swapPolicy}, cm))
	cm.BinaryData["module.wasm"] = wasm
	return r.Rome.Update(t.Context(), cm)
}

// awaitDigest waits until the status reports that every component runs the version.
func awaitDigest(t *testing.T, r *rig.Rig, digest string) {
	t.Helper()
	eventually(t, "webhook and virtual kubelet run "+digest, func(t planetest.T) bool {
		status := getPolicy(t, r, swapPolicy).Status
		return status.ShortDigest == digest && meta.IsStatusConditionTrue(status.Conditions, policyv1alpha1.ReadyCondition) && status.Components == "2/2"
	})
}

func offloadSwapNamespace(t *testing.T, r *rig.Rig) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, r.Rome.Offload(ctx, swapNamespace, offloadingv1beta1.RemotePodOffloadingStrategyType, quiet))
	eventually(t, "the default service account exists", func(t planetest.T) bool {
		return r.Rome.Get(t.Context(), client.ObjectKey{Namespace: swapNamespace, Name: "default"}, &corev1.ServiceAccount{}) == nil
	})
}

func withdrawSwapNamespace(t *testing.T, r *rig.Rig) {
	t.Helper()
	require.NoError(t, r.Rome.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: swapPolicy, Namespace: rig.Namespace}}))
	require.NoError(t, r.Rome.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(swapNamespace)))
	eventually(t, "all pods are gone on both sides", func(t planetest.T) bool {
		return len(pods(t, r.Rome, swapNamespace, nil)) == 0 && len(pods(t, r.Milan, swapRemote, nil)) == 0
	})
	nso := &offloadingv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Name: offloadingv1beta1.NamespaceOffloadingName, Namespace: swapNamespace}}
	require.NoError(t, r.Rome.Delete(t.Context(), nso))
	eventually(t, "the NamespaceOffloading is gone", func(t planetest.T) bool {
		return apierrors.IsNotFound(r.Rome.Get(t.Context(), client.ObjectKeyFromObject(nso), nso))
	})
	eventually(t, "the policy is gone", func(t planetest.T) bool { return getPolicy(t, r, swapPolicy).Name == "" })
}

// noPolicyEvents checks that no event on a pod reports a failing policy.
func noPolicyEvents(t *testing.T, r *rig.Rig) {
	t.Helper()
	list := &eventsv1.EventList{}
	require.NoError(t, r.Rome.List(t.Context(), list, client.InNamespace(swapNamespace)))
	for i := range list.Items {
		e := &list.Items[i]
		assert.False(t, e.Type == corev1.EventTypeWarning && strings.Contains(e.Note, "policy"), "%s: %s", e.Regarding.Name, e.Note)
	}
}
