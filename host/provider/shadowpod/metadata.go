package shadowpod

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// changes are the labels and annotations that a patch sets; nil removes a key.
type changes struct {
	labels, annotations map[string]*string
	// removes is set when a key is removed. Such a patch is valid only for the observed version.
	removes bool
}

func (c *changes) isEmpty() bool { return len(c.labels)+len(c.annotations) == 0 }

// compareMetadata returns the changes from a pod's labels and annotations to those of want
// (T22). A key that is not in want is removed only if this controller is its sole field
// manager.
func compareMetadata(pod, want *corev1.Pod) (changes, error) {
	c := changes{labels: missingEntries(pod.Labels, want.Labels), annotations: missingEntries(pod.Annotations, want.Annotations)}
	if len(withoutKeys(pod.Labels, want.Labels))+len(withoutKeys(pod.Annotations, want.Annotations)) == 0 {
		return c, nil
	}
	labels, annotations, err := managedKeys(pod)
	if err != nil {
		return changes{}, err
	}
	c.removes = addRemovals(&c.labels, pod.Labels, want.Labels, labels)
	c.removes = addRemovals(&c.annotations, pod.Annotations, want.Annotations, annotations) || c.removes
	return c, nil
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

// managedKeys returns the keys of labels and annotations whose sole field manager is this
// controller.
func managedKeys(pod *corev1.Pod) (labels, annotations map[string]bool, err error) {
	labels, annotations = map[string]bool{}, map[string]bool{}
	others := metadataFields{}
	for i := range pod.ManagedFields {
		entry := &pod.ManagedFields[i]
		if !hasMetadata(entry) {
			continue
		}
		if entry.Manager != FieldManager {
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

// TrimPod transforms pods for the cache of a [Reconciler]: it drops the managed fields except
// those of labels and annotations.
func TrimPod(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	var kept []metav1.ManagedFieldsEntry
	for i := range pod.ManagedFields {
		if hasMetadata(&pod.ManagedFields[i]) {
			kept = append(kept, pod.ManagedFields[i])
		}
	}
	pod.ManagedFields = kept
	return pod, nil
}
