package kubelet_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	"github.com/longshore-dev/longshore/host/kit/podupdate"
)

// liveRig is a consumer with an offloaded pod, and a provider whose kubelet the test plays.
type liveRig struct{ *rig }

func newLiveRig(t *testing.T) *liveRig {
	t.Helper()
	r := &liveRig{newRig(t)}
	t.Cleanup(func() {
		for _, c := range []client.Client{r.rome, r.milan} {
			events := &corev1.EventList{}
			if t.Failed() && c.List(context.WithoutCancel(t.Context()), events) == nil {
				for i := range events.Items {
					t.Log(events.Items[i].Namespace, events.Items[i].InvolvedObject.Kind, events.Items[i].Reason, events.Items[i].Message)
				}
			}
		}
	})
	r.runManager()
	capacity := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("16Gi"), corev1.ResourcePods: resource.MustParse("100")}
	r.create(r.milan, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "worker"}, Status: corev1.NodeStatus{Capacity: capacity, Allocatable: capacity},
	})
	r.create(r.rome, virtualNode(), r.secret(r.kubeconfig))
	r.mapNamespace()
	r.runKubelet(r.options())
	return r
}

func (r *liveRig) local(t planetest.T, name string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{}
	require.NoError(t, r.rome.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: name}, pod))
	return pod
}

func (r *liveRig) remote(t planetest.T, name string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{}
	require.NoError(t, r.milan.Get(t.Context(), client.ObjectKey{Namespace: "shop-rome", Name: name}, pod))
	return pod
}

// until waits until the remote and the local pod fulfill a condition.
func (r *liveRig) until(t *testing.T, name, what string, condition func(remote, local *corev1.Pod) bool) {
	t.Helper()
	planetest.Until(t, func(t planetest.T) bool { return condition(r.remote(t, name), r.local(t, name)) }, soon, tick, what)
}

// offload creates a pod and waits until it runs.
func (r *liveRig) offload(t *testing.T, name string, annotations map[string]string) {
	t.Helper()
	pod := webPod()
	pod.Name, pod.Annotations = name, annotations
	pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	r.create(r.rome, pod)
	planetest.Until(t, func(t planetest.T) bool {
		remote := r.remote(t, name)
		if remote.Spec.NodeName == "" {
			// The scheduler may be faster.
			_ = r.milan.SubResource("binding").Create(t.Context(), remote, &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "worker"}})
		}
		return remote.Spec.NodeName == "worker"
	}, soon, tick, "the remote pod has a node")
	r.report(t, name, nil)
	r.until(t, name, "the local pod runs", func(_, local *corev1.Pod) bool { return local.Status.Phase == corev1.PodRunning })
}

// report writes the status of a running remote pod, as its kubelet does.
func (r *liveRig) report(t *testing.T, name string, edit func(*corev1.PodStatus)) {
	t.Helper()
	planetest.Until(t, func(t planetest.T) bool {
		pod := r.remote(t, name)
		resources := pod.Spec.Containers[0].Resources
		running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
		pod.Status.Phase = corev1.PodRunning
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "web", Image: pod.Spec.Containers[0].Image, State: running, Ready: true, Started: ptr.To(true),
			Resources: &resources, AllocatedResources: resources.Requests,
		}}
		for i := range pod.Spec.EphemeralContainers {
			pod.Status.EphemeralContainerStatuses = []corev1.ContainerStatus{{Name: pod.Spec.EphemeralContainers[i].Name, State: running}}
		}
		if edit != nil {
			edit(&pod.Status)
		}
		return assert.NoError(t, r.milan.Status().Update(t.Context(), pod))
	}, soon, tick, "the status is written")
}

// change patches the local pod or a subresource of it.
func (r *liveRig) change(t *testing.T, name, subresource, patch string) {
	t.Helper()
	pod, body := r.local(t, name), client.RawPatch(types.StrategicMergePatchType, []byte(patch))
	if subresource == "" {
		require.NoError(t, r.rome.Patch(t.Context(), pod, body))
		return
	}
	require.NoError(t, r.rome.SubResource(subresource).Patch(t.Context(), pod, body))
}

// What Kubernetes lets change in a running pod reaches the remote pod, whose status comes back.
func TestChangesOfARunningPodReachTheRemotePod(t *testing.T) {
	t.Parallel()
	r := newLiveRig(t)
	r.offload(t, "web", nil)
	uid := r.remote(t, "web").UID

	t.Run("an image", func(t *testing.T) {
		r.change(t, "web", "", `{"spec":{"containers":[{"name":"web","image":"example.com/web:2"}]}}`)
		r.until(t, "web", "the remote pod has the image", func(remote, _ *corev1.Pod) bool {
			return remote.Spec.Containers[0].Image == "example.com/web:2"
		})
	})
	t.Run("a resize", func(t *testing.T) {
		r.change(t, "web", "resize", `{"spec":{"containers":[{"name":"web","resources":{"requests":{"cpu":"2"}}}]}}`)
		r.until(t, "web", "the remote pod is resized", func(remote, _ *corev1.Pod) bool {
			return remote.Spec.Containers[0].Resources.Requests.Cpu().String() == "2"
		})
		r.report(t, "web", func(status *corev1.PodStatus) {
			status.Conditions = append(status.Conditions, corev1.PodCondition{Type: corev1.PodResizeInProgress, Status: corev1.ConditionTrue})
		})
		r.until(t, "web", "the consumer sees what is allocated and that the resize is in progress", func(_, local *corev1.Pod) bool {
			status := local.Status.ContainerStatuses[0]
			inProgress := false
			for _, condition := range local.Status.Conditions {
				inProgress = inProgress || condition.Type == corev1.PodResizeInProgress && condition.Status == corev1.ConditionTrue
			}
			return inProgress && status.AllocatedResources.Cpu().String() == "2" && status.Resources.Requests.Cpu().String() == "2"
		})
	})
	t.Run("an ephemeral container", func(t *testing.T) {
		r.change(t, "web", "ephemeralcontainers", `{"spec":{"ephemeralContainers":[{"name":"debugger","image":"busybox","targetContainerName":"web"}]}}`)
		r.until(t, "web", "the remote pod has the container", func(remote, _ *corev1.Pod) bool {
			return len(remote.Spec.EphemeralContainers) == 1 && remote.Spec.EphemeralContainers[0].TargetContainerName == "web"
		})
		r.report(t, "web", nil)
		r.until(t, "web", "the consumer sees it run", func(_, local *corev1.Pod) bool {
			return len(local.Status.EphemeralContainerStatuses) == 1 && local.Status.EphemeralContainerStatuses[0].State.Running != nil
		})
	})
	t.Run("an ephemeral container that the provider's security level forbids", func(t *testing.T) {
		r.change(t, "web", "ephemeralcontainers", `{"spec":{"ephemeralContainers":[{"name":"root","image":"busybox","securityContext":{"privileged":true}}]}}`)
		r.awaitPodEvent(t, r.milan, "shop-rome", "FailedUpdatePod", `privileged`)
		r.awaitPodEvent(t, r.rome, "shop", "FailedUpdatePod", `privileged`)
		assert.Len(t, r.remote(t, "web").Spec.EphemeralContainers, 1)
	})
	t.Run("tolerations and a deadline", func(t *testing.T) {
		local := r.local(t, "web")
		before := local.DeepCopy()
		local.Spec.Tolerations = append(local.Spec.Tolerations, corev1.Toleration{Key: "new", Operator: corev1.TolerationOpExists})
		local.Spec.ActiveDeadlineSeconds = ptr.To(int64(86400))
		require.NoError(t, r.rome.Patch(t.Context(), local, client.StrategicMergeFrom(before)))
		r.until(t, "web", "the remote pod has them", func(remote, _ *corev1.Pod) bool {
			has := false
			for _, toleration := range remote.Spec.Tolerations {
				has = has || toleration.Key == "new"
			}
			return has && remote.Spec.ActiveDeadlineSeconds != nil && *remote.Spec.ActiveDeadlineSeconds == 86400
		})
	})
	assert.Equal(t, uid, r.remote(t, "web").UID, "it is the same pod")
	t.Run("a pod that opts out", func(t *testing.T) { r.testOptOut(t) })
	t.Run("a provider that refuses changes", func(t *testing.T) { r.testRefusingProvider(t) })
}

// testOptOut checks that a pod keeps its spec: a label that is changed after the image arrives
// without it.
func (r *liveRig) testOptOut(t *testing.T) {
	r.offload(t, "frozen", map[string]string{podupdate.OptOutAnnotation: "false"})
	r.change(t, "frozen", "", `{"spec":{"containers":[{"name":"web","image":"example.com/web:2"}]}}`)
	r.change(t, "frozen", "", `{"metadata":{"labels":{"later":"yes"}}}`)
	r.until(t, "frozen", "the label arrives", func(remote, _ *corev1.Pod) bool { return remote.Labels["later"] == "yes" })
	assert.Equal(t, "example.com/web:1", r.remote(t, "frozen").Spec.Containers[0].Image)
}

// testRefusingProvider checks that a provider which does not let a ShadowPod change, such as the
// reference system for resources, keeps the pod as it is, that the owner learns it, and that
// labels still follow.
func (r *liveRig) testRefusingProvider(t *testing.T) {
	r.offload(t, "refused", nil)
	rules := admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{"offloading.liqo.io"}, APIVersions: []string{"*"}, Resources: []string{"shadowpods"}},
	}
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "frozen"},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: rules}}},
			Validations:      []admissionregistrationv1.Validation{{Expression: "object.spec == oldObject.spec", Message: "the spec is frozen"}},
		},
	}
	r.create(r.milan, policy, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "frozen"},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: "frozen", ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	})
	images := 1
	planetest.Until(t, func(t planetest.T) bool {
		// The policy takes a moment to be enforced.
		pod, image := r.local(t, "refused"), "example.com/web:2"
		if images++; images%2 == 0 {
			image = "example.com/web:3"
		}
		require.NoError(t, r.rome.Patch(t.Context(), pod, client.RawPatch(types.StrategicMergePatchType,
			[]byte(`{"spec":{"containers":[{"name":"web","image":"`+image+`"}]}}`))))
		return r.hasEvent(t, r.rome, "shop", "UpdateRefused", "the spec is frozen")
	}, soon, 10*tick, "the owner of the pod learns that the change is refused")
	r.change(t, "refused", "", `{"metadata":{"labels":{"later":"yes"}}}`)
	r.until(t, "refused", "labels follow", func(remote, _ *corev1.Pod) bool { return remote.Labels["later"] == "yes" })
}

func (r *liveRig) hasEvent(t planetest.T, c client.Client, namespace, reason, part string) bool {
	t.Helper()
	events := &corev1.EventList{}
	require.NoError(t, c.List(t.Context(), events, client.InNamespace(namespace)))
	for i := range events.Items {
		if events.Items[i].Reason == reason && strings.Contains(events.Items[i].Message, part) {
			return true
		}
	}
	return false
}

func (r *liveRig) awaitPodEvent(t *testing.T, c client.Client, namespace, reason, part string) {
	t.Helper()
	planetest.Until(t, func(t planetest.T) bool { return r.hasEvent(t, c, namespace, reason, part) }, soon, tick, "event %s with %q", reason, part)
}
