package view

import (
	"encoding/json"
	"fmt"

	"github.com/longshore-dev/longshore/host/policy/document"
	"github.com/longshore-dev/longshore/host/policy/operation"
)

// patchOperation is an operation of RFC 6902.
type patchOperation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// JSONPatch returns the changes as an RFC 6902 patch of the pod that the API server sent,
// nil if nothing changed. It also sets the given annotations. The patch has only changed
// fields of metadata and spec, and appends to lists that were only appended to, so that
// fields that the host does not know are kept.
func (r *AdmissionResult) JSONPatch(annotations map[string]string) ([]byte, error) {
	after := r.after
	if len(annotations) > 0 {
		metadata, err := document.Member(after, fieldMetadata)
		if err != nil {
			return nil, err
		}
		existing, err := stringMap(metadata, fieldAnnotations)
		if err != nil {
			return nil, err
		}
		all := make(map[string]any, len(existing)+len(annotations))
		for key, value := range existing {
			all[key] = value
		}
		for key, value := range annotations {
			all[key] = value
		}
		after = document.With(after, fieldMetadata, document.With(metadata, fieldAnnotations, all))
	}
	var patch []patchOperation
	for _, name := range []string{fieldMetadata, fieldSpec} {
		old, now, err := bothMembers(r.before, after, name)
		if err != nil {
			return nil, err
		}
		for _, field := range document.Changed(old, now) {
			if patch, err = diff(patch, r.path(name)+"/"+field, old[field], now[field]); err != nil {
				return nil, err
			}
		}
	}
	if len(patch) == 0 {
		return nil, nil
	}
	data, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("encoding the patch: %w", err)
	}
	return data, nil
}

// path returns the path of a member of the document in the object that the API server sent.
func (r *AdmissionResult) path(name string) string {
	if name == fieldSpec && r.specPath != "" {
		return r.specPath
	}
	return "/" + name
}

// diff appends the operations that turn before into after, in a fixed order.
func diff(patch []patchOperation, path string, before, after any) ([]patchOperation, error) {
	before, err := document.Open(before)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	if after, err = document.Open(after); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	switch {
	case before == nil && after == nil:
		return patch, nil
	case before == nil:
		return append(patch, patchOperation{Op: "add", Path: path, Value: after}), nil
	case after == nil:
		return append(patch, patchOperation{Op: "remove", Path: path}), nil
	case document.Equal(before, after):
		return patch, nil
	}
	switch old := before.(type) {
	case map[string]any:
		if now, ok := after.(map[string]any); ok {
			return diffMembers(patch, path, old, now)
		}
	case []any:
		if now, ok := after.([]any); ok && len(now) >= len(old) {
			return diffItems(patch, path, old, now)
		}
	}
	return append(patch, patchOperation{Op: "replace", Path: path, Value: after}), nil
}

func diffMembers(patch []patchOperation, path string, before, after map[string]any) ([]patchOperation, error) {
	var err error
	for _, key := range document.Changed(before, after) {
		if patch, err = diff(patch, path+"/"+operation.EscapeToken(key), before[key], after[key]); err != nil {
			return nil, err
		}
	}
	return patch, nil
}

// diffItems compares items pair by pair and appends the rest. after must not be shorter.
func diffItems(patch []patchOperation, path string, before, after []any) ([]patchOperation, error) {
	var err error
	for i, item := range after {
		if i < len(before) {
			patch, err = diff(patch, fmt.Sprintf("%s/%d", path, i), before[i], item)
		} else {
			patch = append(patch, patchOperation{Op: "add", Path: path + "/-", Value: item})
		}
		if err != nil {
			return nil, err
		}
	}
	return patch, nil
}
