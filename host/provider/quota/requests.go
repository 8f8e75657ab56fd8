package quota

import (
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/quantity"
)

var errNoContainers = errors.New("pod has no containers")

// Requests returns what a pod counts against a quota: the requests that the scheduler would
// count, with sidecars and overhead, and one pod. A limit without a request counts as the
// request, which is what the API server makes of it. Amounts that are negative or out of bounds are an
// error, before anything is computed: a consumer would increase its quota with the former, and stop the
// decisions on all pods with the latter. Requests of the pod count if they are more than those of its
// containers: before 1.34, an API server stores or drops them without a comparison (KEP 2837).
func Requests(spec *corev1.PodSpec) (corev1.ResourceList, error) {
	if len(spec.Containers) == 0 {
		return nil, errNoContainers
	}
	if err := quantity.CheckAll(spec); err != nil {
		return nil, fmt.Errorf("invalid pod: spec.%w", err)
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{Overhead: spec.Overhead, Resources: spec.Resources.DeepCopy()}}
	for _, each := range []struct{ from, to *[]corev1.Container }{
		{&spec.Containers, &pod.Spec.Containers}, {&spec.InitContainers, &pod.Spec.InitContainers},
	} {
		for i := range *each.from {
			container := &(*each.from)[i]
			*each.to = append(*each.to, corev1.Container{
				RestartPolicy: container.RestartPolicy, Resources: corev1.ResourceRequirements{Requests: requestsOf(&container.Resources)},
			})
		}
	}
	if pod.Spec.Resources != nil {
		pod.Spec.Resources.Requests = requestsOf(pod.Spec.Resources)
	}
	requests := larger(
		resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}),
		resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{SkipPodLevelResources: true}),
	)
	// The status of a Quota would have them, however many there are.
	maps.DeleteFunc(requests, func(_ corev1.ResourceName, amount resource.Quantity) bool { return amount.IsZero() })
	requests[corev1.ResourcePods] = *one()
	return requests, nil
}

// requestsOf returns the requests, and the limits of resources without a request.
func requestsOf(resources *corev1.ResourceRequirements) corev1.ResourceList {
	requests := maps.Clone(resources.Limits)
	if requests == nil {
		requests = corev1.ResourceList{}
	}
	maps.Copy(requests, resources.Requests)
	return requests
}

// checkLimits returns an error if the containers do not request and limit resources as the
// enforcement demands. [Requests] has checked the amounts.
func checkLimits(spec *corev1.PodSpec, enforcement offloadingv1beta1.LimitsEnforcement) error {
	if enforcement != offloadingv1beta1.SoftLimitsEnforcement && enforcement != offloadingv1beta1.HardLimitsEnforcement {
		return nil
	}
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			container := &containers[i]
			requests := requestsOf(&container.Resources)
			for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
				if _, ok := requests[name]; !ok {
					return fmt.Errorf("container %q does not request %s, which the quota demands (limitsEnforcement: %s)", container.Name, name, enforcement)
				}
			}
			if enforcement != offloadingv1beta1.HardLimitsEnforcement {
				continue
			}
			for name, request := range requests {
				if limit, ok := container.Resources.Limits[name]; !ok || limit.Cmp(request) != 0 {
					return fmt.Errorf("container %q requests %s=%s and does not have the same limit, which the quota demands (limitsEnforcement: %s)",
						container.Name, name, request.String(), enforcement)
				}
			}
		}
	}
	return nil
}
