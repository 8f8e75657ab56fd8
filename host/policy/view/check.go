package view

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// CheckOf returns how the chain checks an object that policies of the point have changed. The
// target is an empty object of its type, and may be nil for pods, or when the type is not
// known.
func CheckOf(point contract.Point, kind string, target runtime.Object) chain.ObjectCheck {
	switch {
	case point == contract.MetadataFilter:
		return checkMetadata
	case point != contract.ResourceMutation || kind == "Pod":
		return checkPod
	default:
		return checkResource(target)
	}
}

// checkResource reads a whole object of the target's type.
func checkResource(target runtime.Object) chain.ObjectCheck {
	return func(before, after map[string]any) error {
		if err := checkMetadata(before, after); err != nil || target == nil {
			return err
		}
		fresh := reflect.New(reflect.TypeOf(target).Elem()).Interface()
		return readStrictly(after, fresh)
	}
}

// readStrictly decodes an object. A field that the target does not have is an error, and so
// is a number that its field cannot hold.
func readStrictly(object map[string]any, target any) error {
	// This finds unknown fields, but turns a number that is too large into another one.
	probe := reflect.New(reflect.TypeOf(target).Elem()).Interface()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object, probe, true); err != nil {
		return err //nolint:wrapcheck // The caller says of what.
	}
	data, err := json.Marshal(object)
	if err != nil {
		return err //nolint:wrapcheck // The caller says of what.
	}
	return json.Unmarshal(data, target) //nolint:wrapcheck // The caller says of what.
}

// checkMetadata checks the labels and annotations that differ between two objects, by the
// API server's rules.
func checkMetadata(before, after map[string]any) error {
	old, now, err := both(before, after, fieldMetadata)
	if err != nil {
		return err
	}
	for _, field := range []string{fieldLabels, fieldAnnotations} {
		if old[field] != nil && now[field] != nil && same(old[field], now[field]) {
			continue
		}
		entries, err := stringMap(now, field)
		if err != nil {
			return err
		}
		had, err := stringMap(old, field)
		if err != nil {
			had = nil // the policies have repaired it
		}
		if err := checkEntries(field, had, entries); err != nil {
			return err
		}
	}
	return nil
}

// checkEntries checks what is new in labels or annotations.
func checkEntries(field string, had, entries map[string]string) error {
	size, before := 0, 0
	for key, value := range had {
		before += len(key) + len(value)
	}
	for key, value := range entries {
		size += len(key) + len(value)
		if old, known := had[key]; known && old == value {
			continue
		}
		name, problems := key, []string(nil)
		if field == fieldAnnotations {
			name = strings.ToLower(key)
		}
		problems = validation.IsQualifiedName(name)
		if field == fieldLabels {
			problems = slices.Concat(problems, validation.IsValidLabelValue(value))
		}
		if len(problems) > 0 {
			return fmt.Errorf("metadata.%s[%q]: %s", field, key, strings.Join(problems, "; "))
		}
	}
	if field == fieldAnnotations && size > maxAnnotationsBytes && size > before {
		return fmt.Errorf("metadata.annotations have %d bytes, more than %d", size, maxAnnotationsBytes)
	}
	return nil
}
