package local

import (
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/longshore-dev/longshore/host/kit/apitime"
	"github.com/longshore-dev/longshore/host/kit/plaintext"
	"github.com/longshore-dev/longshore/host/kit/quantity"
)

const (
	// maxText bounds each text of a pod's status, in bytes: a container's last message has as many.
	maxText = 4096
	// maxItems bounds each list of a pod's status but those of containers, which have the local pod's.
	maxItems = 128
)

// boundStatus makes a status of the provider one that the API server accepts and that no controller of
// the consumer is harmed by. The scheduler and the quota controller count the resources in the status of
// a pod: it reports none beyond the local spec, and beyond what it reported before while a resize is
// under way.
func boundStatus(status *corev1.PodStatus, in PodStatusInput) {
	// Controllers of the consumer write these.
	status.ResourceClaimStatuses, status.ExtendedResourceClaimStatus, status.NodeAllocatableResourceClaimStatuses = nil, nil, nil
	spec, have := &in.Local.Spec, &in.Local.Status
	status.Conditions = validConditions(status.Conditions)
	if len(status.Conditions) > maxItems {
		dropConditions(status, spec)
	}
	keepContainersOf(status, spec)
	bound(reflect.ValueOf(status).Elem())
	if !slices.Contains([]corev1.PodPhase{"", corev1.PodPending, corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed}, status.Phase) {
		status.Phase = corev1.PodUnknown
	}
	status.VolumeHealth = nil // The volumes are those of the provider.
	boundContainers(status.InitContainerStatuses, have.InitContainerStatuses, spec.InitContainers, in.HasCurrentSpec)
	boundContainers(status.ContainerStatuses, have.ContainerStatuses, spec.Containers, in.HasCurrentSpec)
	boundContainers(status.EphemeralContainerStatuses, nil, nil, in.HasCurrentSpec)
	boundResources(&status.Resources, &status.AllocatedResources, spec.Resources, have.Resources, have.AllocatedResources, in.HasCurrentSpec)
}

// bound cuts texts and lists but those of containers, makes texts plain, and removes times that JSON does not have, anywhere in
// a status. Amounts are left as they are. A container may write several lines into its last message.
func bound(value reflect.Value) {
	switch value.Kind() { //nolint:exhaustive // Other kinds are bounded.
	case reflect.Pointer:
		bound(value.Elem())
	case reflect.String:
		value.SetString(cutText(plaintext.Line(value.String()), maxText))
	case reflect.Slice:
		if value.Len() > maxItems && value.Type() != reflect.TypeFor[[]corev1.ContainerStatus]() {
			value.SetLen(maxItems)
		}
		for i := range value.Len() {
			bound(value.Index(i))
		}
	case reflect.Struct:
		switch field := value.Addr().Interface().(type) {
		case *metav1.Time:
			*field = apitime.Bound(*field)
		case *resource.Quantity:
		default:
			ended, isEnd := field.(*corev1.ContainerStateTerminated)
			message := ""
			if isEnd {
				message = cutText(plaintext.Lines(ended.Message), maxText)
			}
			for i := range value.NumField() {
				bound(value.Field(i))
			}
			if isEnd {
				ended.Message = message
			}
		}
	}
}

func cutText(text string, limit int) string {
	if len(text) > limit {
		text = text[:limit]
	}
	return strings.ToValidUTF8(text, "")
}

// validConditions returns the conditions with a valid type, one of each.
func validConditions(conditions []corev1.PodCondition) []corev1.PodCondition {
	seen := map[corev1.PodConditionType]bool{}
	conditions = slices.DeleteFunc(conditions, func(c corev1.PodCondition) bool {
		isKnown := seen[c.Type]
		seen[c.Type] = true
		return isKnown || len(validation.IsQualifiedName(string(c.Type))) > 0
	})
	for i := range conditions {
		if c := &conditions[i]; c.Status != corev1.ConditionTrue && c.Status != corev1.ConditionFalse {
			c.Status = corev1.ConditionUnknown
		}
	}
	return conditions
}

// boundContainers bounds the resources and numbers of container statuses. A container that the local pod
// does not have, such as one that the provider adds, uses none of the consumer's resources.
func boundContainers(statuses, have []corev1.ContainerStatus, containers []corev1.Container, hasCurrentSpec bool) {
	for i := range statuses {
		status, spec, before := &statuses[i], &corev1.ResourceRequirements{}, corev1.ContainerStatus{}
		if at := slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == status.Name }); at >= 0 {
			spec = &containers[at].Resources
		}
		if at := slices.IndexFunc(have, func(s corev1.ContainerStatus) bool { return s.Name == status.Name }); at >= 0 {
			before = have[at]
		}
		boundResources(&status.Resources, &status.AllocatedResources, spec, before.Resources, before.AllocatedResources, hasCurrentSpec)
		status.AllocatedResourcesStatus = boundHealth(status.AllocatedResourcesStatus, spec)
		status.RestartCount = max(status.RestartCount, 0)
		if status.User != nil && !isValidUser(status.User.Linux) {
			status.User = nil
		}
		for i := range status.VolumeMounts {
			status.VolumeMounts[i].VolumeStatus = nil // of the provider's image
		}
	}
}

// boundResources bounds what a status reports of the resources of a container or of the pod. spec is nil
// if the pod has none of its own.
func boundResources(reported **corev1.ResourceRequirements, allocated *corev1.ResourceList, spec, before *corev1.ResourceRequirements, allocatedBefore corev1.ResourceList, hasCurrentSpec bool) {
	if spec == nil {
		*reported, *allocated = nil, nil
		return
	}
	if hasCurrentSpec || before == nil {
		before = &corev1.ResourceRequirements{}
	}
	if hasCurrentSpec {
		allocatedBefore = nil
	}
	*allocated = atMost(*allocated, spec.Requests, allocatedBefore)
	if *reported == nil {
		return
	}
	*reported = &corev1.ResourceRequirements{
		Requests: atMost((*reported).Requests, spec.Requests, before.Requests),
		Limits:   atMost((*reported).Limits, spec.Limits, before.Limits),
	}
}

// atMost returns the amounts that are reported, those of the spec and of before at most. Other
// resources are left out.
func atMost(reported, spec, before corev1.ResourceList) corev1.ResourceList {
	var bounded corev1.ResourceList
	for _, name := range slices.Sorted(maps.Keys(spec)) {
		amount, isReported := reported[name]
		most := spec[name]
		if !isReported || quantity.Check(most) != nil {
			continue
		}
		if was, ok := before[name]; ok && quantity.Check(was) == nil && was.Cmp(most) > 0 {
			most = was
		}
		if bounded == nil {
			bounded = corev1.ResourceList{}
		}
		bounded[name] = smaller(amount, most)
	}
	return bounded
}

// smaller returns the smaller amount, and the bound for one that nothing may compute with.
func smaller(amount, most resource.Quantity) resource.Quantity {
	if quantity.Check(amount) != nil || amount.Cmp(most) > 0 {
		return most.DeepCopy()
	}
	return amount
}

// boundHealth returns the health of devices of resources that the container requests. The API server
// refuses a status with others, with a device twice, or with another health.
func boundHealth(health []corev1.ResourceStatus, spec *corev1.ResourceRequirements) []corev1.ResourceStatus {
	seen := map[corev1.ResourceName]bool{}
	return slices.DeleteFunc(health, func(s corev1.ResourceStatus) bool {
		isKnown := seen[s.Name]
		seen[s.Name] = true
		_, isRequested := spec.Requests[s.Name]
		devices := map[corev1.ResourceID]bool{}
		return isKnown || !isRequested || slices.ContainsFunc(s.Resources, func(h corev1.ResourceHealth) bool {
			isTwice := devices[h.ResourceID]
			devices[h.ResourceID] = true
			isText := h.Message == nil || *h.Message != "" && len(*h.Message) <= corev1.ResourceHealthMessageMaxLength
			return isTwice || !isText || !slices.Contains(healths, h.Health)
		})
	})
}

var healths = []corev1.ResourceHealthStatus{corev1.ResourceHealthStatusHealthy, corev1.ResourceHealthStatusUnhealthy, corev1.ResourceHealthStatusUnknown}

// isValidUser reports whether the API server accepts the IDs of a container's user.
func isValidUser(user *corev1.LinuxContainerUser) bool {
	isID := func(id int64) bool { return id >= 0 && id <= math.MaxInt32 }
	return user == nil || isID(user.UID) && isID(user.GID) && !slices.ContainsFunc(user.SupplementalGroups, func(id int64) bool { return !isID(id) })
}
