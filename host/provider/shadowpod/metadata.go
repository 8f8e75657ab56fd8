package shadowpod

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// changes are the labels and annotations that a patch sets; nil removes one.
type changes struct {
	labels, annotations map[string]*string
	// removes: the patch takes something away, which holds only for the pod as it was seen.
	removes bool
}

func (c *changes) empty() bool { return len(c.labels)+len(c.annotations) == 0 }

// compare returns what brings a pod's labels and annotations in line with the wanted
// ones (T22). A key that is not wanted goes only if this controller has set it and
// nobody else has since; that is what the API server's record of field managers says.
// Without such a record nothing goes.
func compare(pod, want *corev1.Pod) (changes, error) {
	c := changes{labels: missing(pod.Labels, want.Labels), annotations: missing(pod.Annotations, want.Annotations)}
	if within(pod.Labels, want.Labels) && within(pod.Annotations, want.Annotations) {
		return c, nil
	}
	labels, annotations, err := ownKeys(pod)
	if err != nil {
		return changes{}, err
	}
	c.removes = drop(&c.labels, pod.Labels, want.Labels, labels)
	c.removes = drop(&c.annotations, pod.Annotations, want.Annotations, annotations) || c.removes
	return c, nil
}

// missing returns the entries of want that have lacks or holds with another value.
func missing(have, want map[string]string) map[string]*string {
	var diff map[string]*string
	for key, value := range want {
		if current, ok := have[key]; ok && current == value {
			continue
		}
		if diff == nil {
			diff = map[string]*string{}
		}
		diff[key] = &value
	}
	return diff
}

// within reports whether have has no keys beyond those of want.
func within(have, want map[string]string) bool {
	for key := range have {
		if _, ok := want[key]; !ok {
			return false
		}
	}
	return true
}

// drop adds to the patch the removal of what have has, want has not, and is our own.
func drop(patch *map[string]*string, have, want map[string]string, own map[string]bool) bool {
	dropped := false
	for key := range have {
		if _, wanted := want[key]; wanted || !own[key] {
			continue
		}
		if *patch == nil {
			*patch = map[string]*string{}
		}
		(*patch)[key], dropped = nil, true
	}
	return dropped
}

// fieldsOfMetadata is the part of a managed fields entry that tells of labels and
// annotations: each key with the prefix "f:".
type fieldsOfMetadata struct {
	Metadata struct {
		Labels      map[string]json.RawMessage `json:"f:labels"`
		Annotations map[string]json.RawMessage `json:"f:annotations"`
	} `json:"f:metadata"`
}

// ownKeys returns the keys of labels and annotations that this controller manages, and
// no other manager with it.
func ownKeys(pod *corev1.Pod) (labels, annotations map[string]bool, err error) {
	labels, annotations = map[string]bool{}, map[string]bool{}
	others := fieldsOfMetadata{}
	for i := range pod.ManagedFields {
		entry := &pod.ManagedFields[i]
		if !tellsOfMetadata(entry) {
			continue
		}
		if entry.Manager != FieldManager {
			// Decoding adds to the maps: these are the fields of all others.
			if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &others); err != nil {
				return nil, nil, fmt.Errorf("reading the fields that %q manages: %w", entry.Manager, err)
			}
			continue
		}
		own := fieldsOfMetadata{}
		if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &own); err != nil {
			return nil, nil, fmt.Errorf("reading the fields that %q manages: %w", entry.Manager, err)
		}
		add(labels, own.Metadata.Labels)
		add(annotations, own.Metadata.Annotations)
	}
	for key := range others.Metadata.Labels {
		delete(labels, name(key))
	}
	for key := range others.Metadata.Annotations {
		delete(annotations, name(key))
	}
	return labels, annotations, nil
}

func add(into map[string]bool, fields map[string]json.RawMessage) {
	for key := range fields {
		into[name(key)] = true
	}
}

// name returns a field's name; "." stands for the map itself and is no key of a label.
func name(field string) string {
	return strings.TrimPrefix(field, "f:")
}

// tellsOfMetadata reports whether an entry names labels or annotations at all, without
// decoding it: few do.
func tellsOfMetadata(entry *metav1.ManagedFieldsEntry) bool {
	if entry.FieldsV1 == nil {
		return false
	}
	raw := entry.FieldsV1.GetRawBytes()
	return bytes.Contains(raw, []byte(`"f:labels"`)) || bytes.Contains(raw, []byte(`"f:annotations"`))
}

// TrimPod is the transformation of pods for the cache from which a [Reconciler] reads:
// of the managed fields it leaves those that tell who has set labels and annotations.
func TrimPod(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	var kept []metav1.ManagedFieldsEntry
	for i := range pod.ManagedFields {
		if tellsOfMetadata(&pod.ManagedFields[i]) {
			kept = append(kept, pod.ManagedFields[i])
		}
	}
	pod.ManagedFields = kept
	return pod, nil
}
