package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// podName is the pod of the run.
const podName = "sleeper"

// newPod requests what a Quota of any mode wants.
func (s *session) newPod(name string) *corev1.Pod {
	few := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("16Mi")}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name, Labels: map[string]string{"app": "conformance"}},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: ptr.To[int64](1),
			SecurityContext:               &corev1.PodSecurityContext{RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](65534), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			Containers: []corev1.Container{{
				Name: "sleeper", Image: s.Image, Command: []string{"sleep", "3600"}, Resources: corev1.ResourceRequirements{Requests: few, Limits: few},
				SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: ptr.To(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
			}},
		},
	}
}

// create creates an object in the consumer, after the service account of a new namespace exists.
func (s *session) create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	return s.until(ctx, func(ctx context.Context) error {
		if err := client.IgnoreAlreadyExists(s.Consumer.Create(ctx, object, options...)); err != nil {
			return fmt.Errorf("creating %T %s in the consumer: %w", object, client.ObjectKeyFromObject(object), err)
		}
		return nil
	})
}

func (s *session) podPlaced(ctx context.Context) error {
	return s.until(ctx, func(ctx context.Context) error {
		pod := s.newPod("asked")
		if err := s.create(ctx, pod, client.DryRunAll); err != nil {
			return err
		}
		return checkPlacement(pod, string(s.providerID))
	})
}

// checkPlacement returns what is missing in a pod of the strategy Remote for a provider.
func checkPlacement(pod *corev1.Pod, provider string) error {
	tolerated := slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
		return t.Key == offloadingv1beta1.VirtualNodeTaintKey
	})
	if !tolerated {
		return fmt.Errorf("the pod does not tolerate %s: the webhook of pods did not act", offloadingv1beta1.VirtualNodeTaintKey)
	}
	affinity := pod.Spec.Affinity
	if affinity == nil || affinity.NodeAffinity == nil || affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return errors.New("the pod has no required node affinity")
	}
	for _, term := range affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		virtual, selected := false, false
		for _, e := range term.MatchExpressions {
			virtual = virtual || e.Key == offloadingv1beta1.NodeTypeLabel && e.Operator == corev1.NodeSelectorOpIn && slices.Equal(e.Values, []string{offloadingv1beta1.NodeTypeVirtual})
			selected = selected || slices.Contains(e.Values, provider)
		}
		if !virtual || !selected {
			return errors.New("a term of the pod's node affinity admits nodes that the NamespaceOffloading does not select")
		}
	}
	return nil
}

// podRuns runs a pod in the provider.
func (s *session) podRuns(ctx context.Context) error {
	if err := s.create(ctx, s.newPod(podName)); err != nil {
		return err
	}
	return s.until(ctx, func(ctx context.Context) error {
		pod, remote, err := s.pods(ctx)
		if pod == nil {
			return err
		}
		if !slices.ContainsFunc(s.nodes, func(n corev1.Node) bool { return n.Name == pod.Spec.NodeName }) {
			return fmt.Errorf("the pod is on node %q, not on one of cluster %s: %s", pod.Spec.NodeName, s.providerID, reasonOf(pod))
		}
		if err != nil {
			return fmt.Errorf("%w; the local pod: %s", err, reasonOf(pod))
		}
		if remote.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("the remote pod is not Running: %s", reasonOf(remote))
		}
		if pod.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("the local pod is not Running, but the remote pod is: %s", reasonOf(pod))
		}
		return nil
	})
}

// reasonOf describes why a pod does not run.
func reasonOf(pod *corev1.Pod) string {
	text := fmt.Sprintf("phase %s, reason %q, message %q", pod.Status.Phase, pod.Status.Reason, pod.Status.Message)
	for _, condition := range pod.Status.Conditions {
		if condition.Status != corev1.ConditionTrue && condition.Message != "" {
			text += fmt.Sprintf("; %s: %s", condition.Type, condition.Message)
		}
	}
	return text
}

// pods returns the pod of the run and the remote pod. The local pod is nil only if it cannot be read.
func (s *session) pods(ctx context.Context) (local, remote *corev1.Pod, err error) {
	local, remote = &corev1.Pod{}, &corev1.Pod{}
	if err := s.Consumer.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: podName}, local); err != nil {
		return nil, nil, fmt.Errorf("reading the local pod: %w", err)
	}
	if err := s.Provider.Get(ctx, client.ObjectKey{Namespace: s.remote, Name: podName}, remote); err != nil {
		return local, nil, fmt.Errorf("reading the remote pod: %w", err)
	}
	return local, remote, nil
}

func (s *session) podOwned(ctx context.Context) error {
	return s.until(ctx, func(ctx context.Context) error {
		pod, remote, err := s.pods(ctx)
		if err != nil {
			return err
		}
		shadow := &offloadingv1beta1.ShadowPod{}
		if err := s.Provider.Get(ctx, client.ObjectKey{Namespace: s.remote, Name: podName}, shadow); err != nil {
			return fmt.Errorf("reading the ShadowPod: %w", err)
		}
		return errors.Join(
			checkLabels("the local pod", pod, map[string]string{offloadingv1beta1.LocalPodLabel: "true"}),
			checkLabels("the ShadowPod", shadow, s.ownership()),
			checkLabels("the remote pod", remote, s.ownership()),
			checkLabels("the remote pod", remote, map[string]string{offloadingv1beta1.ManagedByLabel: offloadingv1beta1.ManagedByShadowPod}),
		)
	})
}

func (s *session) ownership() map[string]string {
	return map[string]string{offloadingv1beta1.OriginLabel: string(s.consumerID), offloadingv1beta1.DestinationLabel: string(s.providerID)}
}

// checkLabels returns the labels that an object does not have.
func checkLabels(what string, object client.Object, want map[string]string) error {
	var errs []error
	for key, value := range want {
		if got := object.GetLabels()[key]; got != value {
			errs = append(errs, fmt.Errorf("%s has the label %s=%q, want %q", what, key, got, value))
		}
	}
	return errors.Join(errs...)
}

func (s *session) podIsolated(ctx context.Context) error {
	_, remote, err := s.pods(ctx)
	if err != nil {
		return err
	}
	return checkIsolation(remote)
}

// checkIsolation returns what a remote pod must not have.
func checkIsolation(remote *corev1.Pod) error {
	spec := &remote.Spec
	switch {
	case spec.HostNetwork || spec.HostPID || spec.HostIPC:
		return errors.New("the remote pod uses a namespace of its host")
	case spec.AutomountServiceAccountToken == nil || *spec.AutomountServiceAccountToken:
		return errors.New("the remote pod mounts the token of a service account of the provider")
	}
	for _, toleration := range spec.Tolerations {
		if toleration.Key == offloadingv1beta1.VirtualNodeTaintKey || toleration.Key == "" && toleration.Operator == corev1.TolerationOpExists {
			return errors.New("the remote pod tolerates virtual nodes: it could be offloaded again")
		}
	}
	return nil
}

func (s *session) podStatus(ctx context.Context) error {
	return s.until(ctx, func(ctx context.Context) error {
		pod, remote, err := s.pods(ctx)
		if err != nil {
			return err
		}
		return checkStatus(pod, remote)
	})
}

// checkStatus compares what every implementation copies: addresses may be translated, and restarts
// are counted across remote pods.
func checkStatus(pod, remote *corev1.Pod) error {
	local, there := &pod.Status, &remote.Status
	if local.Phase != there.Phase {
		return fmt.Errorf("the local pod is %s, the remote pod %s", local.Phase, there.Phase)
	}
	if !local.StartTime.Equal(there.StartTime) {
		return fmt.Errorf("the local pod started at %v, the remote pod at %v", local.StartTime, there.StartTime)
	}
	if len(local.ContainerStatuses) != len(there.ContainerStatuses) {
		return fmt.Errorf("the local pod has %d container statuses, the remote pod %d", len(local.ContainerStatuses), len(there.ContainerStatuses))
	}
	for i := range there.ContainerStatuses {
		a, b := &local.ContainerStatuses[i], &there.ContainerStatuses[i]
		if a.Name != b.Name || a.ContainerID != b.ContainerID || a.Ready != b.Ready || (a.State.Running == nil) != (b.State.Running == nil) {
			return fmt.Errorf("the local status of container %s is not that of the remote container", b.Name)
		}
	}
	if isReady(pod) != isReady(remote) {
		return fmt.Errorf("the condition Ready of the local pod is %t, that of the remote pod %t", isReady(pod), isReady(remote))
	}
	return nil
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// podRestored deletes the remote pod.
func (s *session) podRestored(ctx context.Context) error {
	pod, remote, err := s.pods(ctx)
	if err != nil {
		return err
	}
	if err := s.Provider.Delete(ctx, remote, client.GracePeriodSeconds(0), client.Preconditions{UID: &remote.UID}); err != nil {
		return fmt.Errorf("deleting the remote pod: %w", err)
	}
	return s.until(ctx, func(ctx context.Context) error { return s.isRestored(ctx, pod.UID, remote.UID) })
}

func (s *session) isRestored(ctx context.Context, localUID, remoteUID types.UID) error {
	pod, remote, err := s.pods(ctx)
	switch {
	case err != nil:
		return err
	case remote.UID == remoteUID:
		return errors.New("the remote pod that was deleted still exists")
	case pod.UID != localUID:
		return errors.New("the local pod was replaced")
	case remote.Status.Phase != corev1.PodRunning:
		return fmt.Errorf("the new remote pod is not Running: %s", reasonOf(remote))
	default:
		return checkStatus(pod, remote)
	}
}

// podDeleted deletes the local pod. Its UID is gone before the next pod of the name.
func (s *session) podDeleted(ctx context.Context) error {
	pod := s.newPod(podName)
	if err := s.Consumer.Delete(ctx, pod); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the local pod: %w", err)
	}
	return s.until(ctx, func(ctx context.Context) error {
		key := metav1.ObjectMeta{Namespace: s.remote, Name: podName}
		return errors.Join(
			absent(ctx, s.Consumer, pod),
			absent(ctx, s.Provider, &offloadingv1beta1.ShadowPod{ObjectMeta: key}),
			absent(ctx, s.Provider, &corev1.Pod{ObjectMeta: key}),
		)
	})
}
