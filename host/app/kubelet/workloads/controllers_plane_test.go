package workloads_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	"github.com/longshore-dev/longshore/host/internal/testkit/twoclusters"
)

// controllersRig has a Deployment whose pods all run in the provider.
type controllersRig struct {
	*twoclusters.Clusters
	deployment *appsv1.Deployment
}

var webLabels = map[string]string{"app": "web"}

func newControllersRig(t *testing.T, replicas int32) *controllersRig {
	t.Helper()
	r := &controllersRig{Clusters: twoclusters.Start(t, "shop")}
	planetest.SimulateNodes(t, r.Provider, "milan-worker")
	r.RunManager(r.Provider.RESTConfig())
	r.StartKubelet(twoclusters.KubeletOptions{})
	template := twoclusters.Pod("shop", "")
	template.Spec.NodeName = "" // The scheduler finds the virtual node, the only one.
	one := intstr.FromInt32(1)
	r.deployment = &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: webLabels},
			Strategy: appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{MaxUnavailable: &one, MaxSurge: &one}},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: webLabels}, Spec: template.Spec},
		},
	}
	r.Create(r.Rome, r.deployment)
	r.awaitReplicas(t, replicas, "example.com/web:1")
	return r
}

// awaitReplicas waits until the Deployment has rolled out to a number of replicas, and the
// provider has as many ready pods, all with an image.
func (r *controllersRig) awaitReplicas(t *testing.T, replicas int32, image string) {
	t.Helper()
	planetest.Until(t, func(t planetest.T) bool {
		d := &appsv1.Deployment{}
		require.NoError(t, r.Rome.Get(t.Context(), client.ObjectKeyFromObject(r.deployment), d))
		require.Equal(t, d.Generation, d.Status.ObservedGeneration)
		require.Equal(t, []int32{replicas, replicas, replicas, 0},
			[]int32{d.Status.Replicas, d.Status.UpdatedReplicas, d.Status.AvailableReplicas, d.Status.UnavailableReplicas})
		for cluster, pods := range map[string][]corev1.Pod{"local": r.pods(t, r.Rome, "shop"), "remote": r.pods(t, r.Milan, twoclusters.Remote("shop"))} {
			require.Len(t, pods, int(replicas), cluster)
			for i := range pods {
				require.Equal(t, image, pods[i].Spec.Containers[0].Image, cluster)
				require.Equal(t, corev1.PodRunning, pods[i].Status.Phase, cluster)
			}
		}
		return true
	}, soon, tick, "%d replicas of %s", replicas, image)
}

func (r *controllersRig) pods(t planetest.T, c client.Client, namespace string) []corev1.Pod {
	t.Helper()
	pods := &corev1.PodList{}
	require.NoError(t, c.List(t.Context(), pods, client.InNamespace(namespace), client.MatchingLabels(webLabels)))
	return pods.Items
}

// watchAvailable returns a function that ends the watch and returns the lowest number of
// available replicas.
func (r *controllersRig) watchAvailable(t *testing.T, from int32) func() int32 {
	t.Helper()
	events, ctx, stop, lowest := planetest.Watch(t, r.Rome, &appsv1.Deployment{}, &appsv1.DeploymentList{}, client.InNamespace("shop")), t.Context(), make(chan struct{}), make(chan int32)
	go func() {
		least := from
		for {
			select {
			case event := <-events:
				if d, ok := event.Object.(*appsv1.Deployment); ok {
					least = min(least, d.Status.AvailableReplicas)
				}
			case <-stop:
				lowest <- least
				return
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() int32 {
		close(stop)
		return <-lowest
	}
}

// Controllers of the consumer treat offloaded pods like pods on a local node.
func TestControllersOfWorkloadsWorkWithOffloadedPods(t *testing.T) {
	r := newControllersRig(t, 4)
	t.Run("a rolling update", func(t *testing.T) {
		lowest := r.watchAvailable(t, 4)
		before := r.deployment.DeepCopy()
		r.deployment.Spec.Template.Spec.Containers[0].Image = "example.com/web:2"
		require.NoError(t, r.Rome.Patch(t.Context(), r.deployment, client.MergeFrom(before)))
		r.awaitReplicas(t, 4, "example.com/web:2")
		assert.GreaterOrEqual(t, lowest(), int32(3), "maxUnavailable is kept")
	})
	t.Run("scaling", func(t *testing.T) {
		for _, replicas := range []int32{6, 2} {
			scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: replicas}}
			require.NoError(t, r.Rome.SubResource("scale").Update(t.Context(), r.deployment, client.WithSubResourceBody(scale)))
			r.awaitReplicas(t, replicas, "example.com/web:2")
		}
	})
	t.Run("a disruption budget", func(t *testing.T) { r.testBudget(t) })
}

// testBudget evicts local pods: the budget counts the readiness of the remote pods.
func (r *controllersRig) testBudget(t *testing.T) {
	minimum := intstr.FromInt32(2)
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &minimum, Selector: &metav1.LabelSelector{MatchLabels: webLabels}},
	}
	r.Create(r.Rome, budget)
	awaitHealthy := func(healthy, allowed int32) {
		planetest.Until(t, func(t planetest.T) bool {
			require.NoError(t, r.Rome.Get(t.Context(), client.ObjectKeyFromObject(budget), budget))
			return budget.Status.ObservedGeneration == budget.Generation && budget.Status.CurrentHealthy == healthy && budget.Status.DisruptionsAllowed == allowed
		}, soon, tick, "%d pods are healthy, %d may be evicted", healthy, allowed)
	}
	evict := func() (name string, err error) {
		pod := r.pods(t, r.Rome, "shop")[0]
		return pod.Name, r.Rome.SubResource("eviction").Create(t.Context(), &pod, &policyv1.Eviction{})
	}
	awaitHealthy(2, 0)
	name, err := evict()
	require.True(t, apierrors.IsTooManyRequests(err), "the eviction of %s is refused: %v", name, err)
	require.NoError(t, r.Rome.Get(t.Context(), client.ObjectKeyFromObject(r.deployment), r.deployment))
	before := r.deployment.DeepCopy()
	r.deployment.Spec.Replicas = ptr.To[int32](3)
	require.NoError(t, r.Rome.Patch(t.Context(), r.deployment, client.MergeFrom(before)))
	r.awaitReplicas(t, 3, "example.com/web:2")
	awaitHealthy(3, 1)
	name, err = evict()
	require.NoError(t, err)
	planetest.Until(t, func(t planetest.T) bool {
		remote := &corev1.Pod{}
		return apierrors.IsNotFound(r.Milan.Get(t.Context(), client.ObjectKey{Namespace: twoclusters.Remote("shop"), Name: name}, remote))
	}, soon, tick, "the remote pod of %s ends", name)
	r.awaitReplicas(t, 3, "example.com/web:2")
	awaitHealthy(3, 1)
}
