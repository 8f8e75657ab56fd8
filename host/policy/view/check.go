package view

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	kjson "sigs.k8s.io/json"

	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/document"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// CheckOf returns the check of objects that policies of an extension point changed. target
// is an empty object of the type; it may be nil for pods and for unknown types.
func CheckOf(point contract.Point, kind string, target runtime.Object) chain.ObjectCheck {
	switch {
	case point == contract.MetadataFilter:
		return checkMetadata
	case point == contract.ResourceSliceAdmission:
		return checkGrant
	case point != contract.ResourceMutation || kind == "Pod":
		return checkPod
	default:
		return checkResource(target)
	}
}

// checkResource checks that an object can be decoded into the target's type.
func checkResource(target runtime.Object) chain.ObjectCheck {
	return func(before, after map[string]any) error {
		if err := checkMetadata(before, after); err != nil || target == nil {
			return err
		}
		return decodeStrictly(after, reflect.New(reflect.TypeOf(target).Elem()).Interface())
	}
}

// decodeStrictly decodes an object. Unknown fields and numbers out of range are errors.
func decodeStrictly(object map[string]any, target any) error {
	data, err := json.Marshal(object)
	if err != nil {
		return err //nolint:wrapcheck // The caller names the object.
	}
	strictErrors, err := kjson.UnmarshalStrict(data, target)
	if err != nil {
		return err //nolint:wrapcheck // The caller names the object.
	}
	return errors.Join(strictErrors...)
}

// checkMetadata checks changed labels and annotations by the rules of the API server.
func checkMetadata(before, after map[string]any) error {
	old, now, err := bothMembers(before, after, fieldMetadata)
	if err != nil {
		return err
	}
	for _, field := range []string{fieldLabels, fieldAnnotations} {
		if old[field] != nil && now[field] != nil && document.IsSame(old[field], now[field]) {
			continue
		}
		entries, err := stringMap(now, field)
		if err != nil {
			return err
		}
		had, err := stringMap(old, field)
		if err != nil {
			had = nil // invalid before, and valid now
		}
		if err := checkEntries(field, had, entries); err != nil {
			return err
		}
	}
	return nil
}

// checkEntries checks new and changed labels or annotations.
func checkEntries(field string, had, entries map[string]string) error {
	size, sizeBefore := 0, 0
	for key, value := range had {
		sizeBefore += len(key) + len(value)
	}
	for key, value := range entries {
		size += len(key) + len(value)
		if old, known := had[key]; known && old == value {
			continue
		}
		name := key
		if field == fieldAnnotations {
			name = strings.ToLower(key)
		}
		problems := validation.IsQualifiedName(name)
		if field == fieldLabels {
			problems = slices.Concat(problems, validation.IsValidLabelValue(value))
		}
		if len(problems) > 0 {
			return fmt.Errorf("metadata.%s[%q]: %s", field, key, strings.Join(problems, "; "))
		}
	}
	if field == fieldAnnotations && size > maxAnnotationsBytes && size > sizeBefore {
		return fmt.Errorf("metadata.annotations have %d bytes, more than %d", size, maxAnnotationsBytes)
	}
	return nil
}
