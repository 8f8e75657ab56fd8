// Package workloads_test checks that what works with pods on a local node works with offloaded
// pods: controllers of workloads, disruption budgets, readiness gates.
package workloads_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	"github.com/longshore-dev/longshore/host/internal/testkit/twoclusters"
	"github.com/longshore-dev/longshore/host/kit/podupdate"
)

const (
	soon = 2 * time.Minute
	tick = 100 * time.Millisecond

	homeGate, providerGate = corev1.PodConditionType("home.example.com/registered"), corev1.PodConditionType("provider.example.com/registered")
)

// TestMain also runs the virtual kubelets, each in a process of its own.
func TestMain(m *testing.M) { twoclusters.Main(m) }

// gateRig is a consumer, and a provider whose kubelet the test plays.
type gateRig struct{ *twoclusters.Clusters }

// playKubelet reports the pods of the provider as a kubelet does: running, with the generation
// that it observes, and ready if all readiness gates are true.
func (r *gateRig) playKubelet(t *testing.T) {
	t.Helper()
	capacity := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("16Gi"), corev1.ResourcePods: resource.MustParse("100")}
	r.Create(r.Milan, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker"}, Status: corev1.NodeStatus{Capacity: capacity, Allocatable: capacity}})
	ctx := t.Context()
	planetest.WatchPods(t, r.Milan, func(pod *corev1.Pod) { r.reportStatus(ctx, pod) }, client.InNamespace(twoclusters.Remote("shop")))
}

// reportStatus patches the status of a pod if it differs. Errors are those of a pod that has
// changed, whose next event is on its way.
func (r *gateRig) reportStatus(ctx context.Context, pod *corev1.Pod) {
	if pod.Spec.NodeName == "" {
		_ = r.Milan.SubResource("binding").Create(ctx, pod, &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "worker"}})
		return
	}
	ready := corev1.ConditionTrue
	for _, gate := range pod.Spec.ReadinessGates {
		if condition := podupdate.FindCondition(pod.Status.Conditions, gate.ConditionType); condition == nil || condition.Status != corev1.ConditionTrue {
			ready = corev1.ConditionFalse
		}
	}
	current := podupdate.FindCondition(pod.Status.Conditions, corev1.PodReady)
	if pod.Status.ObservedGeneration == pod.Generation && current != nil && current.Status == ready && current.ObservedGeneration == pod.Generation {
		return
	}
	condition := func(name corev1.PodConditionType, status corev1.ConditionStatus) corev1.PodCondition {
		return corev1.PodCondition{Type: name, Status: status, ObservedGeneration: pod.Generation, LastTransitionTime: metav1.Now()}
	}
	raw, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": map[string]any{
		"phase": corev1.PodRunning, "observedGeneration": pod.Generation,
		"conditions":        []corev1.PodCondition{condition(corev1.ContainersReady, corev1.ConditionTrue), condition(corev1.PodReady, ready)},
		"containerStatuses": []corev1.ContainerStatus{{Name: "web", Image: pod.Spec.Containers[0].Image, Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}},
	}})
	if err == nil {
		_ = r.Milan.Status().Patch(ctx, pod, client.RawPatch(types.StrategicMergePatchType, raw))
	}
}

func get(t planetest.T, c client.Client, namespace, name string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, pod))
	return pod
}

// setGate sets a condition of a pod as a controller does.
func setGate(t *testing.T, c client.Client, namespace, name string, gate corev1.PodConditionType, status corev1.ConditionStatus) {
	t.Helper()
	raw, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []corev1.PodCondition{
		{Type: gate, Status: status, Reason: "SetByTest", LastTransitionTime: metav1.Now()},
	}}})
	require.NoError(t, err)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	require.NoError(t, c.Status().Patch(t.Context(), pod, client.RawPatch(types.StrategicMergePatchType, raw)))
}

// awaitReadiness waits until both pods have a readiness, and both gates' conditions agree.
func (r *gateRig) awaitReadiness(t *testing.T, name string, want corev1.ConditionStatus) {
	t.Helper()
	planetest.Until(t, func(t planetest.T) bool {
		local, remote := get(t, r.Rome, "shop", name), get(t, r.Milan, twoclusters.Remote("shop"), name)
		for cluster, pod := range map[string]*corev1.Pod{"local": local, "remote": remote} {
			ready := podupdate.FindCondition(pod.Status.Conditions, corev1.PodReady)
			require.NotNil(t, ready, cluster)
			require.Equal(t, want, ready.Status, "%s: %v", cluster, pod.Status.Conditions)
		}
		mine, theirs := podupdate.Gates(local.Spec.ReadinessGates, local.Status.Conditions), podupdate.Gates(remote.Spec.ReadinessGates, remote.Status.Conditions)
		require.True(t, slices.EqualFunc(mine, theirs, func(a, b corev1.PodCondition) bool { return a.Type == b.Type && podupdate.EqualGate(&a, &b) }), "%v %v", mine, theirs)
		return true
	}, soon, tick, "both pods have Ready=%s", want)
}

func gatedPod(name string) *corev1.Pod {
	pod := twoclusters.Pod("shop", name)
	pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: homeGate}, {ConditionType: providerGate}}
	return pod
}

// Conditions of readiness gates reach the other cluster, whichever side sets them, and
// observedGeneration is about the local pod. Statuses of a hostile provider do no harm.
func TestReadinessGatesAreFedFromEitherSide(t *testing.T) {
	r := &gateRig{twoclusters.Start(t, "shop")}
	r.RunManager(r.Provider.RESTConfig())
	r.playKubelet(t)
	process := r.StartKubelet(twoclusters.KubeletOptions{WithStorage: true})
	remoteNamespace := twoclusters.Remote("shop")
	r.Create(r.Rome, gatedPod("web"))
	r.awaitReadiness(t, "web", corev1.ConditionFalse)

	setGate(t, r.Rome, "shop", "web", homeGate, corev1.ConditionTrue)
	setGate(t, r.Milan, remoteNamespace, "web", providerGate, corev1.ConditionTrue)
	r.awaitReadiness(t, "web", corev1.ConditionTrue)
	setGate(t, r.Milan, remoteNamespace, "web", providerGate, corev1.ConditionFalse)
	r.awaitReadiness(t, "web", corev1.ConditionFalse)
	setGate(t, r.Milan, remoteNamespace, "web", providerGate, corev1.ConditionTrue)
	r.awaitReadiness(t, "web", corev1.ConditionTrue)
	setGate(t, r.Rome, "shop", "web", homeGate, corev1.ConditionFalse)
	r.awaitReadiness(t, "web", corev1.ConditionFalse)

	t.Run("a condition that is set while no virtual kubelet runs", func(t *testing.T) {
		process.Kill()
		setGate(t, r.Rome, "shop", "web", homeGate, corev1.ConditionTrue)
		process.Start()
		r.awaitReadiness(t, "web", corev1.ConditionTrue)
	})
	t.Run("a remote pod that is replaced", func(t *testing.T) {
		before := get(t, r.Milan, remoteNamespace, "web")
		require.NoError(t, r.Milan.Delete(t.Context(), before, client.GracePeriodSeconds(0)))
		planetest.Until(t, func(t planetest.T) bool { return get(t, r.Milan, remoteNamespace, "web").UID != before.UID }, soon, tick)
		r.awaitReadiness(t, "web", corev1.ConditionFalse)
		home := podupdate.FindCondition(get(t, r.Milan, remoteNamespace, "web").Status.Conditions, homeGate)
		require.NotNil(t, home)
		assert.Equal(t, corev1.ConditionTrue, home.Status, "the consumer's condition is written to the next pod")
		setGate(t, r.Milan, remoteNamespace, "web", providerGate, corev1.ConditionTrue)
		r.awaitReadiness(t, "web", corev1.ConditionTrue)
	})
	t.Run("a hostile status does no harm", r.testHostileStatuses)
	t.Run("observedGeneration is about the local pod", func(t *testing.T) { r.testGenerations(t) })
	t.Run("a pod without live updates follows the provider only", func(t *testing.T) {
		frozen := gatedPod("frozen")
		frozen.Annotations = map[string]string{podupdate.OptOutAnnotation: "false"}
		r.Create(r.Rome, frozen)
		r.awaitReadiness(t, "frozen", corev1.ConditionFalse)
		setGate(t, r.Rome, "shop", "frozen", homeGate, corev1.ConditionTrue)
		setGate(t, r.Milan, remoteNamespace, "frozen", providerGate, corev1.ConditionTrue)
		r.awaitReadiness(t, "frozen", corev1.ConditionFalse)
		assert.Nil(t, podupdate.FindCondition(get(t, r.Milan, remoteNamespace, "frozen").Status.Conditions, homeGate))
	})
}

func (r *gateRig) testGenerations(t *testing.T) {
	// The remote pod's generation grows, the local pod's does not.
	raw := []byte(`{"spec":{"activeDeadlineSeconds":86400}}`)
	require.NoError(t, r.Milan.Patch(t.Context(), get(t, r.Milan, twoclusters.Remote("shop"), "web"), client.RawPatch(types.MergePatchType, raw)))
	observed := func() {
		planetest.Until(t, func(t planetest.T) bool {
			pod, remote := get(t, r.Rome, "shop", "web"), get(t, r.Milan, twoclusters.Remote("shop"), "web")
			require.Equal(t, remote.Generation, remote.Status.ObservedGeneration)
			require.Equal(t, pod.Spec.Containers[0].Image, remote.Spec.Containers[0].Image)
			require.Equal(t, pod.Generation, pod.Status.ObservedGeneration, "the remote pod's generation is %d", remote.Generation)
			require.Equal(t, pod.Generation, podupdate.FindCondition(pod.Status.Conditions, corev1.PodReady).ObservedGeneration)
			return true
		}, soon, tick)
	}
	observed()
	before := get(t, r.Rome, "shop", "web").Generation
	require.NoError(t, r.Rome.Patch(t.Context(), get(t, r.Rome, "shop", "web"),
		client.RawPatch(types.StrategicMergePatchType, []byte(`{"spec":{"containers":[{"name":"web","image":"example.com/web:2"}]}}`))))
	observed()
	assert.Greater(t, get(t, r.Rome, "shop", "web").Generation, before)
	assert.NotEqual(t, get(t, r.Rome, "shop", "web").Generation, get(t, r.Milan, twoclusters.Remote("shop"), "web").Generation, "the test compares different numbers")
}
