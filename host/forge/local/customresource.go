package local

import (
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
)

const (
	fieldStatus             = "status"
	fieldObservedGeneration = "observedGeneration"
	fieldConditions         = "conditions"
)

// CustomResourceStatus returns the status of a local custom resource: that of the remote object.
// By convention, status.observedGeneration and that of each condition name a generation of the
// object that they are about. They become generations of the local object, so that clients see
// whether the provider has observed the current one. The result shares nothing with the remote
// object and is empty while that has no status.
func CustomResourceStatus(current *unstructured.Unstructured) map[string]any {
	status, _, _ := unstructured.NestedMap(current.Object, fieldStatus) // a deep copy
	if status == nil {
		return map[string]any{}
	}
	from, err := strconv.ParseInt(current.GetAnnotations()[policyv1alpha1.LocalGenerationAnnotation], 10, 64)
	if err != nil {
		return status
	}
	translateGeneration(status, current.GetGeneration(), from)
	conditions, _ := status[fieldConditions].([]any)
	for _, raw := range conditions {
		if condition, ok := raw.(map[string]any); ok {
			translateGeneration(condition, current.GetGeneration(), from)
		}
	}
	return status
}

// translateGeneration turns a generation of the remote object into one of the local object. from
// is the local generation that the remote object's current generation was made from. An older
// remote generation becomes the local one before, because the exact one is not known.
func translateGeneration(fields map[string]any, remoteGeneration, from int64) {
	observed, ok := fields[fieldObservedGeneration].(int64)
	switch {
	case !ok:
	case observed >= remoteGeneration:
		fields[fieldObservedGeneration] = from
	default:
		fields[fieldObservedGeneration] = max(from-1, 0)
	}
}

// DeepCopyStatus returns the status of a local custom resource, empty if it has none.
func DeepCopyStatus(object *unstructured.Unstructured) map[string]any {
	status, _ := object.Object[fieldStatus].(map[string]any)
	if status == nil {
		return map[string]any{}
	}
	return runtime.DeepCopyJSON(status)
}
