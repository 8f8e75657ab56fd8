package engine

import (
	"fmt"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// Explicit is the reflection policy of objects that are reflected unless an annotation says
// otherwise. Both annotations apply.
const Explicit offloadingv1beta1.ReflectionType = "Explicit"

// skip evaluates a reflection policy. annotated is true if an annotation
// excludes the object, and false if the lack of one does.
func skip(policy offloadingv1beta1.ReflectionType, object client.Object) (skipped, annotated bool, err error) {
	annotations := object.GetAnnotations()
	deny := isSet(annotations, offloadingv1beta1.SkipReflectionAnnotation)
	allow := isSet(annotations, offloadingv1beta1.AllowReflectionAnnotation)
	switch policy {
	case offloadingv1beta1.CustomLiqo:
		return false, false, nil
	case offloadingv1beta1.DenyList:
		return deny, deny, nil
	case offloadingv1beta1.AllowList:
		return !allow, false, nil
	case Explicit:
		if deny && allow {
			return false, false, fmt.Errorf("annotations %s and %s are both set: remove one of them",
				offloadingv1beta1.SkipReflectionAnnotation, offloadingv1beta1.AllowReflectionAnnotation)
		}
		return deny, deny, nil
	default:
		return false, false, fmt.Errorf("unknown reflection policy %q: want %s or %s",
			policy, offloadingv1beta1.DenyList, offloadingv1beta1.AllowList)
	}
}

// IsAnnotated reports whether an object has an annotation that decides about its reflection.
func IsAnnotated(object client.Object) bool {
	annotations := object.GetAnnotations()
	return isSet(annotations, offloadingv1beta1.SkipReflectionAnnotation) || isSet(annotations, offloadingv1beta1.AllowReflectionAnnotation)
}

// IsSkipped reports whether an object is not reflected under a reflection policy. An error is
// about annotations that contradict each other.
func IsSkipped(policy offloadingv1beta1.ReflectionType, object client.Object) (bool, error) {
	skipped, _, err := skip(policy, object)
	return skipped, err
}

// isSet reports whether an annotation is present and not "false" in any case; an empty
// value counts as set.
func isSet(annotations map[string]string, key string) bool {
	value, present := annotations[key]
	return present && !strings.EqualFold(value, "false")
}
