package local

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/longshore-dev/longshore/host/kit/podupdate"
)

// A status has statusRoom, and containerRoom for each container of the local pod, in bytes of Protocol
// Buffers, as which the API server stores it. What kubelets report has room: they keep 12 KiB of the last
// messages of all containers of a pod, for the current state and again for the last one.
const (
	statusRoom    = 48 << 10
	containerRoom = 4 << 10
	// shortText bounds a text of a status that has no room, in bytes.
	shortText = 256
)

// fit cuts a status that has no room: first its messages, then conditions that neither Kubernetes nor a
// readiness gate of the pod knows, then details of containers. The phase, the conditions of Kubernetes and the states of the pod's containers stay.
func fit(status *corev1.PodStatus, spec *corev1.PodSpec) {
	room := statusRoom + containerRoom*(len(spec.InitContainers)+len(spec.Containers)+len(spec.EphemeralContainers))
	for _, cut := range []func(*corev1.PodStatus, *corev1.PodSpec){cutMessages, dropConditions, dropDetails} {
		if status.Size() <= room {
			return
		}
		cut(status, spec)
	}
}

func cutMessages(status *corev1.PodStatus, _ *corev1.PodSpec) {
	texts := []*string{&status.Reason, &status.Message}
	for i := range status.Conditions {
		texts = append(texts, &status.Conditions[i].Reason, &status.Conditions[i].Message)
	}
	for _, containers := range [][]corev1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses, status.EphemeralContainerStatuses} {
		for i := range containers {
			for _, state := range []*corev1.ContainerState{&containers[i].State, &containers[i].LastTerminationState} {
				if waiting := state.Waiting; waiting != nil {
					texts = append(texts, &waiting.Reason, &waiting.Message)
				}
				if terminated := state.Terminated; terminated != nil {
					texts = append(texts, &terminated.Reason, &terminated.Message, &terminated.ContainerID)
				}
			}
		}
	}
	for _, text := range texts {
		*text = cutText(*text, shortText)
	}
}

func dropConditions(status *corev1.PodStatus, spec *corev1.PodSpec) {
	status.Conditions = slices.DeleteFunc(status.Conditions, func(c corev1.PodCondition) bool {
		return !podupdate.IsKubeletCondition(c.Type) && !slices.ContainsFunc(spec.ReadinessGates, func(g corev1.PodReadinessGate) bool { return g.ConditionType == c.Type })
	})
}

// dropDetails drops lists and long texts of the containers' statuses.
func dropDetails(status *corev1.PodStatus, _ *corev1.PodSpec) {
	for _, statuses := range [][]corev1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses, status.EphemeralContainerStatuses} {
		for i := range statuses {
			s := &statuses[i]
			statuses[i] = corev1.ContainerStatus{
				Name: s.Name, State: s.State, LastTerminationState: s.LastTerminationState, Ready: s.Ready, Started: s.Started, RestartCount: s.RestartCount,
				Image: cutText(s.Image, shortText), ImageID: cutText(s.ImageID, shortText), ContainerID: cutText(s.ContainerID, shortText),
				Resources: s.Resources, AllocatedResources: s.AllocatedResources,
			}
		}
	}
}

// keepContainersOf leaves the first status of each container of the pod.
func keepContainersOf(status *corev1.PodStatus, spec *corev1.PodSpec) {
	keep := func(statuses *[]corev1.ContainerStatus, count int, nameOf func(int) string) {
		missing := map[string]bool{}
		for i := range count {
			missing[nameOf(i)] = true
		}
		*statuses = slices.DeleteFunc(*statuses, func(s corev1.ContainerStatus) bool {
			isFirst := missing[s.Name]
			delete(missing, s.Name)
			return !isFirst
		})
	}
	keep(&status.InitContainerStatuses, len(spec.InitContainers), func(i int) string { return spec.InitContainers[i].Name })
	keep(&status.ContainerStatuses, len(spec.Containers), func(i int) string { return spec.Containers[i].Name })
	keep(&status.EphemeralContainerStatuses, len(spec.EphemeralContainers), func(i int) string { return spec.EphemeralContainers[i].Name })
}
