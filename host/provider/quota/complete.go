package quota

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/quantity"
)

// complete returns a ShadowPod whose pod has what this cluster's API server will add to it before any
// webhook is asked: the overhead of its RuntimeClass, and the default requests of the LimitRanges of its
// namespace. The reader is a cache; without one, nothing is added.
func complete(ctx context.Context, reader client.Reader, shadow *offloadingv1beta1.ShadowPod) (*offloadingv1beta1.ShadowPod, error) {
	if reader == nil || shadow == nil {
		return shadow, nil
	}
	var overhead corev1.ResourceList
	spec := &shadow.Spec.Pod
	if name := spec.RuntimeClassName; name != nil && spec.Overhead == nil {
		class := &nodev1.RuntimeClass{}
		// The API server refuses a pod whose class does not exist.
		if err := reader.Get(ctx, client.ObjectKey{Name: *name}, class); err != nil && !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("reading RuntimeClass %q: %w", *name, err)
		}
		if class.Overhead != nil {
			overhead = class.Overhead.PodFixed
		}
	}
	ranges := &corev1.LimitRangeList{}
	if err := reader.List(ctx, ranges, client.InNamespace(shadow.Namespace)); err != nil {
		return nil, fmt.Errorf("listing the LimitRanges of namespace %q: %w", shadow.Namespace, err)
	}
	return completeWith(shadow, overhead, defaultRequests(ranges.Items)), nil
}

// completeWith returns a ShadowPod whose pod has an overhead, and defaults for what its containers neither
// request nor limit. The ShadowPod is not changed.
func completeWith(shadow *offloadingv1beta1.ShadowPod, overhead, defaults corev1.ResourceList) *offloadingv1beta1.ShadowPod {
	if len(overhead) == 0 && len(defaults) == 0 {
		return shadow
	}
	shadow = shadow.DeepCopy()
	if len(overhead) > 0 {
		shadow.Spec.Pod.Overhead = overhead
	}
	for _, containers := range [][]corev1.Container{shadow.Spec.Pod.InitContainers, shadow.Spec.Pod.Containers} {
		for i := range containers {
			resources := &containers[i].Resources
			requests := maps.Clone(defaults)
			// A limit without a request is the request.
			maps.DeleteFunc(requests, func(name corev1.ResourceName, _ resource.Quantity) bool {
				_, isLimited := resources.Limits[name]
				return isLimited
			})
			maps.Copy(requests, resources.Requests)
			resources.Requests = requests
		}
	}
	return shadow
}

// defaultRequests returns what containers request by default in a namespace with LimitRanges. The first one
// counts, as for the API server.
func defaultRequests(ranges []corev1.LimitRange) corev1.ResourceList {
	defaults := corev1.ResourceList{}
	for i := range ranges {
		for j := range ranges[i].Spec.Limits {
			limit := &ranges[i].Spec.Limits[j]
			if limit.Type != corev1.LimitTypeContainer {
				continue
			}
			for name, amount := range limit.DefaultRequest {
				if _, isSet := defaults[name]; !isSet {
					defaults[name] = amount
				}
			}
		}
	}
	return defaults
}

// Beyond returns what a pod requests that is more than what its ShadowPod does: what webhooks and
// controllers of this cluster added to it, and what its kubelet has not given back yet after a resize. It is
// empty if nothing is.
func Beyond(shadow *corev1.PodSpec, pod *corev1.Pod) corev1.ResourceList {
	wanted, err := Requests(shadow)
	if err != nil {
		return nil // It was created without this check.
	}
	has, err := Holds(pod)
	if err != nil {
		return nil
	}
	maps.DeleteFunc(has, func(name corev1.ResourceName, amount resource.Quantity) bool { return amount.Cmp(wanted[name]) <= 0 })
	return has
}

// Holds returns what a pod requests, or has where that is more: its kubelet may refuse to make it smaller. A
// status with an amount that is out of bounds says nothing.
func Holds(pod *corev1.Pod) (corev1.ResourceList, error) {
	requests, err := Requests(&pod.Spec)
	if err != nil {
		return nil, err
	}
	// A status is written by a kubelet, but amounts are bounded before anything computes with them.
	if quantity.CheckAll(&pod.Status) != nil {
		return requests, nil
	}
	return larger(requests, resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{
		UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true,
	})), nil
}

// requestsOfPod returns what counts of a ShadowPod: the requests of its spec, or those of its pod where they
// are more.
func requestsOfPod(shadow *offloadingv1beta1.ShadowPod) (corev1.ResourceList, error) {
	requests, err := Requests(&shadow.Spec.Pod)
	if err != nil {
		return nil, err
	}
	return larger(requests, shadow.Status.Requests), nil
}

// HeldBy returns what pods hold together.
func HeldBy(pods []*corev1.Pod) corev1.ResourceList {
	sum := corev1.ResourceList{}
	for _, pod := range pods {
		// A pod that is not counted was created without this check.
		if held, err := Holds(pod); err == nil {
			add(sum, held)
		}
	}
	return sum
}
