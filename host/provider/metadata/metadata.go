// Package metadata compares labels and annotations of an object in the provider with those of
// the shadow object that it was created for. It removes only keys that one field manager has
// set, so that keys of other writers stay.
package metadata

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// WasCreatedFor reports whether an object was created for a shadow object of its name, be it the one
// that exists or an earlier one. Labels do not decide that: every writer can remove them.
func WasCreatedFor(object metav1.Object, shadow schema.GroupVersionKind) bool {
	owner := metav1.GetControllerOf(object)
	if owner == nil || owner.Kind != shadow.Kind || owner.Name != object.GetName() {
		return false
	}
	group, err := schema.ParseGroupVersion(owner.APIVersion)
	return err == nil && group.Group == shadow.Group
}

// Changes are the labels and annotations that a patch sets; nil removes a key.
type Changes struct {
	Labels, Annotations map[string]*string
	// Removes is set when a key is removed. Such a patch is valid only for the observed version.
	Removes bool
}

// IsEmpty reports whether nothing changes.
func (c *Changes) IsEmpty() bool { return len(c.Labels)+len(c.Annotations) == 0 }

// Patch returns the metadata of a merge patch for the observed object, with its UID as
// precondition.
func (c *Changes) Patch(object metav1.Object) map[string]any {
	patch := map[string]any{"uid": object.GetUID()}
	if len(c.Labels) > 0 {
		patch["labels"] = c.Labels
	}
	if len(c.Annotations) > 0 {
		patch["annotations"] = c.Annotations
	}
	if c.Removes {
		// Another writer may manage the key by now.
		patch["resourceVersion"] = object.GetResourceVersion()
	}
	return patch
}

// Compare returns the changes from the labels and annotations of an object to those of want. A
// key that is not in want is removed only if manager is its sole field manager.
func Compare(object, want metav1.Object, manager string) (Changes, error) {
	c := Changes{
		Labels:      missingEntries(object.GetLabels(), want.GetLabels()),
		Annotations: missingEntries(object.GetAnnotations(), want.GetAnnotations()),
	}
	if hasAllKeys(want.GetLabels(), object.GetLabels()) && hasAllKeys(want.GetAnnotations(), object.GetAnnotations()) {
		return c, nil
	}
	labels, annotations, err := managedKeys(object, manager)
	if err != nil {
		return Changes{}, err
	}
	c.Removes = addRemovals(&c.Labels, object.GetLabels(), want.GetLabels(), labels)
	c.Removes = addRemovals(&c.Annotations, object.GetAnnotations(), want.GetAnnotations(), annotations) || c.Removes
	return c, nil
}

// hasAllKeys reports whether m has the keys of other.
func hasAllKeys(m, other map[string]string) bool {
	for key := range other {
		if _, ok := m[key]; !ok {
			return false
		}
	}
	return true
}

// missingEntries returns the entries of want that current does not have.
func missingEntries(current, want map[string]string) map[string]*string {
	var diff map[string]*string
	for key, value := range want {
		if existing, ok := current[key]; ok && existing == value {
			continue
		}
		if diff == nil {
			diff = map[string]*string{}
		}
		diff[key] = &value
	}
	return diff
}

// addRemovals adds to a patch the removal of managed keys that are not in want. It reports
// whether it added any.
func addRemovals(patch *map[string]*string, current, want map[string]string, managed map[string]bool) bool {
	added := false
	for key := range current {
		if _, wanted := want[key]; wanted || !managed[key] {
			continue
		}
		if *patch == nil {
			*patch = map[string]*string{}
		}
		(*patch)[key], added = nil, true
	}
	return added
}

// metadataFields are the labels and annotations of a managed fields entry, each key with the
// prefix "f:".
type metadataFields struct {
	Metadata struct {
		Labels      map[string]json.RawMessage `json:"f:labels"`
		Annotations map[string]json.RawMessage `json:"f:annotations"`
	} `json:"f:metadata"`
}

// managedKeys returns the keys of labels and annotations whose sole field manager is manager.
func managedKeys(object metav1.Object, manager string) (labels, annotations map[string]bool, err error) {
	labels, annotations = map[string]bool{}, map[string]bool{}
	others := metadataFields{}
	entries := object.GetManagedFields()
	for i := range entries {
		entry := &entries[i]
		if !hasMetadata(entry) {
			continue
		}
		if entry.Manager != manager {
			// Decoding adds to the maps of the entries before.
			if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &others); err != nil {
				return nil, nil, fmt.Errorf("reading the fields that %q manages: %w", entry.Manager, err)
			}
			continue
		}
		own := metadataFields{}
		if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &own); err != nil {
			return nil, nil, fmt.Errorf("reading the fields that %q manages: %w", entry.Manager, err)
		}
		addKeys(labels, own.Metadata.Labels)
		addKeys(annotations, own.Metadata.Annotations)
	}
	for key := range others.Metadata.Labels {
		delete(labels, keyOf(key))
	}
	for key := range others.Metadata.Annotations {
		delete(annotations, keyOf(key))
	}
	return labels, annotations, nil
}

func addKeys(into map[string]bool, fields map[string]json.RawMessage) {
	for key := range fields {
		into[keyOf(key)] = true
	}
}

// keyOf returns the key of a field. "." stands for the map itself and is not a valid key.
func keyOf(field string) string {
	return strings.TrimPrefix(field, "f:")
}

// hasMetadata reports whether an entry contains labels or annotations, without decoding it.
func hasMetadata(entry *metav1.ManagedFieldsEntry) bool {
	if entry.FieldsV1 == nil {
		return false
	}
	raw := entry.FieldsV1.GetRawBytes()
	return bytes.Contains(raw, []byte(`"f:labels"`)) || bytes.Contains(raw, []byte(`"f:annotations"`))
}

// Trim is a cache transformation that drops the managed fields except those of labels and
// annotations.
func Trim(object any) (any, error) {
	accessor, ok := object.(metav1.Object)
	if !ok {
		return object, nil
	}
	var kept []metav1.ManagedFieldsEntry
	entries := accessor.GetManagedFields()
	for i := range entries {
		if hasMetadata(&entries[i]) {
			kept = append(kept, entries[i])
		}
	}
	accessor.SetManagedFields(kept)
	return object, nil
}
