package local

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/kit/plaintext"
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
// object and is empty while that has no status. Messages and reasons of conditions are plain.
//
// The kind's Go types are not known here, and a controller of the consumer whose informer cannot decode
// one status sees no object of the kind. So times become what Go decodes, and a status is an error that
// names the field if it has a time that Go does not decode, or what may be an amount and takes long to parse.
func CustomResourceStatus(current *unstructured.Unstructured) (map[string]any, error) {
	status, _, _ := unstructured.NestedMap(current.Object, fieldStatus) // a deep copy
	if status == nil {
		return map[string]any{}, nil
	}
	if err := canonicalize(status, fieldStatus); err != nil {
		return nil, err
	}
	plaintext.Messages(status[fieldConditions])
	from, err := strconv.ParseInt(current.GetAnnotations()[policyv1alpha1.LocalGenerationAnnotation], 10, 64)
	if err != nil {
		return status, nil
	}
	translateGeneration(status, current.GetGeneration(), from)
	conditions, _ := status[fieldConditions].([]any)
	for _, raw := range conditions {
		if condition, ok := raw.(map[string]any); ok {
			translateGeneration(condition, current.GetGeneration(), from)
		}
	}
	return status, nil
}

var (
	// anyTime matches what API servers accept as the format date-time.
	anyTime = regexp.MustCompile(`^(?i)[0-9]{4}-[0-9]{2}-[0-9]{2}t[0-9]{2}:[0-9]{2}:[0-9]{2}(.[0-9]+)?(z|[+-][0-9]{2}:[0-9]{2})$`)
	// largeExponent matches amounts that take long to parse or to compute with.
	largeExponent = regexp.MustCompile(`^[+-]?[0-9.]+[eE][+-]?0*[1-9][0-9]{2,}$`)
)

// canonicalize changes the texts of a status, which is JSON without its own root, in place.
func canonicalize(value any, path string) error {
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) { // the same error each time
			text, isText := value[key].(string)
			if !isText {
				if err := canonicalize(value[key], path+"."+cutKey(key)); err != nil {
					return err
				}
				continue
			}
			canonical, err := canonicalText(text)
			if err != nil {
				return fmt.Errorf("%s.%s: %w", path, cutKey(key), err)
			}
			value[key] = canonical
		}
	case []any:
		for i := range value {
			text, isText := value[i].(string)
			if !isText {
				if err := canonicalize(value[i], fmt.Sprintf("%s[%d]", path, i)); err != nil {
					return err
				}
				continue
			}
			canonical, err := canonicalText(text)
			if err != nil {
				return fmt.Errorf("%s[%d]: %w", path, i, err)
			}
			value[i] = canonical
		}
	}
	return nil
}

// cutKey bounds a key in an error.
func cutKey(key string) string {
	const most = 40
	if len(key) <= most {
		return key
	}
	return strings.ToValidUTF8(key[:most], "") + "…"
}

func canonicalText(text string) (string, error) {
	switch {
	case largeExponent.MatchString(text):
		return "", errors.New("a number with an exponent of three digits or more")
	case anyTime.MatchString(text):
		upper := strings.ToUpper(text)
		if _, err := time.Parse(time.RFC3339, upper); err != nil {
			return "", errors.New("a time that does not exist")
		}
		return upper, nil
	}
	return text, nil
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
