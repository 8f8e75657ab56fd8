package rig_test

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	"github.com/longshore-dev/longshore/hack/demo/rig"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
)

const (
	webhookName = "longshore-webhook"
	// admissionPause is between two admissions, admissionsMore how many show that they go on.
	admissionPause = 20 * time.Millisecond
	admissionsMore = 25
)

// severalReplicas runs Longshore's own workloads twice, replaces them all and kills some,
// while pods are admitted all the time.
func severalReplicas(t *testing.T, r *rig.Rig) {
	own := []string{"longshore-manager", webhookName}
	startHowTos(t, r).follows(t, "docs/howto/run-several-replicas.md")
	for _, name := range own {
		patchOwn(t, r, name, `{"spec":{"replicas":2}}`)
	}
	awaitOwn(t, r)
	module, digest := stampModule("1")
	storePolicy(t, r, swapPolicy, map[string][]byte{"module.wasm": module}, nil)
	awaitReadyIn(t, r, digest, 3)
	f := admitPods(t, r)

	before := components(t, r)
	for _, name := range own {
		patchOwn(t, r, name, `{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"now"}}}}}`)
	}
	awaitOwn(t, r)
	eventually(t, "the pods of before are gone", func(t planetest.T) bool {
		for _, p := range pods(t, r.Rome, rig.Namespace, nil) {
			if _, old := before[p.UID]; old {
				return false
			}
		}
		return true
	})
	module, digest = stampModule("2")
	require.NoError(t, replaceModule(t, r, module))
	awaitReadyIn(t, r, digest, 3)
	changed := f.more(t)
	for _, a := range f.all() {
		require.NoError(t, a.err, "an orderly update fails no pod: admission %d", a.number)
		if a.number > changed {
			assert.Equal(t, digest, a.digest, "all replicas run version 2 before admission %d", a.number)
		}
	}

	// One of the two has the API server's connection, so both are killed.
	for _, replica := range replicas(t, r) {
		kill(t, r, f, &replica)
	}
	f.stop()

	patchOwn(t, r, webhookName, `{"spec":{"replicas":1}}`)
	awaitReadyIn(t, r, digest, 2)
	require.NoError(t, r.Rome.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: swapPolicy, Namespace: rig.Namespace}}))
	eventually(t, "the policy is gone", func(t planetest.T) bool { return getPolicy(t, r, swapPolicy).Name == "" })
}

func patchOwn(t *testing.T, r *rig.Rig, name, patch string) {
	t.Helper()
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: rig.Namespace, Name: name}}
	require.NoError(t, r.Rome.Patch(t.Context(), deployment, client.RawPatch(types.MergePatchType, []byte(patch))))
}

// awaitOwn waits until Longshore's own workloads are as they should be.
func awaitOwn(t *testing.T, r *rig.Rig) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, r.Rome.WaitForDeployments(ctx, rig.Namespace, quiet))
}

func replicas(t *testing.T, r *rig.Rig) []corev1.Pod {
	t.Helper()
	found := pods(t, r.Rome, rig.Namespace, map[string]string{"app.kubernetes.io/name": webhookName})
	require.Len(t, found, 2)
	assert.NotEqual(t, found[0].Status.PodIP, found[1].Status.PodIP)
	return found
}

// awaitReadyIn waits until this many components, and no others, run the version.
func awaitReadyIn(t *testing.T, r *rig.Rig, digest string, components int) {
	t.Helper()
	planetest.Until(t, func(t planetest.T) bool {
		policy := getPolicy(t, r, swapPolicy)
		ready := meta.FindStatusCondition(policy.Status.Conditions, policyv1alpha1.ReadyCondition)
		require.NotNil(t, ready)
		require.Equal(t, metav1.ConditionTrue, ready.Status, ready.Message)
		require.Equal(t, digest, policy.Status.ShortDigest)
		require.Equal(t, fmt.Sprintf("%d/%d", components, components), policy.Status.Components)
		return true
	}, patience, every)
}

// kill ends a replica as a crash does. The request that it has, or gets before it is known
// to be gone, may fail; no later one does.
func kill(t *testing.T, r *rig.Rig, f *admissions, replica *corev1.Pod) {
	t.Helper()
	status := replica.Status.ContainerStatuses[0]
	var pid int
	_, err := fmt.Sscanf(status.ContainerID, "process://%d", &pid)
	require.NoError(t, err)
	begun := f.more(t)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	current := func(t planetest.T) (*corev1.Pod, corev1.ContainerStatus) {
		now := &corev1.Pod{}
		require.NoError(t, r.Rome.Get(t.Context(), client.ObjectKeyFromObject(replica), now))
		return now, now.Status.ContainerStatuses[0]
	}
	eventually(t, "its end is seen", func(t planetest.T) bool {
		_, now := current(t)
		return now.ContainerID != status.ContainerID || !now.Ready
	})
	known := f.more(t)
	eventually(t, "it runs again", func(t planetest.T) bool {
		now, c := current(t)
		return c.RestartCount > status.RestartCount && ready(now)
	})
	f.more(t)
	failed := 0
	for _, a := range f.all() {
		if a.number <= begun || a.err == nil {
			continue
		}
		failed++
		assert.LessOrEqual(t, a.number, known, "a pod is refused when the replica is known to be gone: %v", a.err)
		assert.True(t, apierrors.IsInternalError(a.err), "%v", a.err)
		assert.ErrorContains(t, a.err, "failed calling webhook")
	}
	t.Logf("%d admissions failed when replica %s was killed", failed, replica.Name)
}

// admission is what became of a pod.
type admission struct {
	number int
	digest string
	err    error
}

// admissions go on, one after the other, until they are stopped: pods that are created on
// trial, so that nothing is left to clean up.
type admissions struct {
	stop context.CancelFunc

	mu    sync.Mutex
	begun int
	done  []admission
}

func admitPods(t *testing.T, r *rig.Rig) *admissions {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	f, ended := &admissions{}, make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(admissionPause)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			f.one(t.Context(), r)
		}
	}()
	f.stop = func() { cancel(); <-ended }
	t.Cleanup(f.stop)
	f.more(t)
	return f
}

func (f *admissions) one(ctx context.Context, r *rig.Rig) {
	f.mu.Lock()
	f.begun++
	a := admission{number: f.begun}
	f.mu.Unlock()
	p := pod(fmt.Sprintf("admitted-%d", a.number))
	a.err = r.Rome.Create(ctx, p, client.DryRunAll)
	if a.err == nil {
		a.digest, a.err = digestOf(p.Annotations)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.done = append(f.done, a)
}

// more waits until more admissions have begun and ended, and returns how many had begun
// when it was called.
func (f *admissions) more(t *testing.T) int {
	t.Helper()
	f.mu.Lock()
	begun := f.begun
	f.mu.Unlock()
	eventually(t, "pods are admitted", func(t planetest.T) bool { return len(f.all()) >= begun+admissionsMore })
	return begun
}

func (f *admissions) all() []admission {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.done[:len(f.done):len(f.done)]
}
