package engine

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// coverage is the result of comparing a remote object with a configuration to be applied.
type coverage int

const (
	// differs: applying would change something.
	differs coverage = iota
	// covered: the object has everything in the configuration. It may also have fields that
	// an apply would remove, because the managed fields do not tell their owner.
	covered
	// exact: the object has everything in the configuration, and its other fields are not
	// owned by this reflection.
	exact
)

// cover compares an object with a configuration, so that an event which changes nothing
// costs no request. Fields that are not in the configuration belong to the provider
// (defaults, cluster IPs, node ports), unless the managed fields name an earlier apply.
func cover(remote client.Object, config map[string]any) (coverage, error) {
	have, err := runtime.DefaultUnstructuredConverter.ToUnstructured(remote)
	if err != nil {
		return differs, fmt.Errorf("reading the remote object: %w", err)
	}
	owned := appliedFields(have)
	for key, want := range config {
		if key == "apiVersion" || key == "kind" {
			continue
		}
		if !contains(have[key], want, owned.field(key)) {
			return differs, nil
		}
	}
	if !owned.known || owned.exceeds(config) || owned.hidesMore(have, config) {
		return covered, nil
	}
	return exact, nil
}

// fieldSet is a part of the tree of fields that this reflection has applied, in the form
// of metav1.FieldsV1; nil for other fields. It is not known for an object that was never
// applied, and below fields that are owned as a whole.
type fieldSet struct {
	tree  map[string]any
	known bool
}

// appliedFields returns the fields of an object that this reflection has applied.
func appliedFields(object map[string]any) fieldSet {
	meta, _ := object["metadata"].(map[string]any)
	entries, _ := meta["managedFields"].([]any)
	for _, raw := range entries {
		entry, _ := raw.(map[string]any)
		if entry["manager"] == FieldManager && entry["operation"] == string(metav1.ManagedFieldsOperationApply) && isZero(entry["subresource"]) {
			tree, ok := entry["fieldsV1"].(map[string]any)
			return fieldSet{tree: tree, known: ok}
		}
	}
	return fieldSet{}
}

// HasApplied reports whether a field of a remote object was applied by this reflection, and not set by
// the provider.
func HasApplied(remote client.Object, path ...string) bool {
	have, err := runtime.DefaultUnstructuredConverter.ToUnstructured(remote)
	if err != nil {
		return false
	}
	owned := appliedFields(have)
	for _, name := range path {
		owned = owned.field(name)
	}
	return owned.tree != nil
}

func (f fieldSet) field(name string) fieldSet { return f.child("f:" + name) }

func (f fieldSet) child(key string) fieldSet {
	if f.isWhole() {
		return fieldSet{}
	}
	tree, _ := f.tree[key].(map[string]any)
	return fieldSet{tree: tree, known: f.known}
}

// isWhole reports whether the value is owned, and replaced, as a whole.
func (f fieldSet) isWhole() bool { return f.known && f.tree != nil && len(f.tree) == 0 }

// isGranular reports whether the keys of a map are owned one by one.
func (f fieldSet) isGranular() bool { return len(f.tree) > 0 }

// exceeds reports whether a field is owned that the configuration does not have: an apply
// would remove it.
func (f fieldSet) exceeds(config any) bool {
	for key := range f.tree {
		kind, name, _ := strings.Cut(key, ":")
		switch kind {
		case "f":
			content, _ := config.(map[string]any)
			value, present := content[name]
			if !present || f.child(key).exceeds(value) {
				return true
			}
		case "k":
			item := itemOf(config, name)
			if item == nil || f.child(key).exceeds(item) {
				return true
			}
		case "v":
			if !hasItem(config, name) {
				return true
			}
		}
	}
	return false
}

// hidesMore reports whether a value that is owned as a whole, such as an atomic list, has a
// field that the configuration does not have. The managed fields do not tell a default from a
// field that an apply would remove.
func (f fieldSet) hidesMore(have, config any) bool {
	if f.isWhole() {
		return hasMore(have, config)
	}
	for key := range f.tree {
		kind, name, _ := strings.Cut(key, ":")
		var haveValue, value any
		switch kind {
		case "f":
			haveMap, _ := have.(map[string]any)
			content, _ := config.(map[string]any)
			haveValue, value = haveMap[name], content[name]
		case "k":
			haveValue, value = itemOf(have, name), itemOf(config, name)
		}
		if f.child(key).hidesMore(haveValue, value) {
			return true
		}
	}
	return false
}

// hasMore reports whether have, which contains want, has a field that is not in want.
func hasMore(have, want any) bool {
	switch have := have.(type) {
	case map[string]any:
		wantMap, _ := want.(map[string]any)
		for key, value := range have {
			inner, present := wantMap[key]
			if !present && !isZero(value) || hasMore(value, inner) {
				return true
			}
		}
	case []any:
		wantList, _ := want.([]any)
		for i := range min(len(have), len(wantList)) {
			if hasMore(have[i], wantList[i]) {
				return true
			}
		}
	}
	return false
}

// itemOf returns the item of a list with these keys, which are JSON, or nil. The API server
// defaults keys that an item does not have, so the item with the most equal keys is found.
func itemOf(list any, keys string) map[string]any {
	var want map[string]any
	if json.Unmarshal([]byte(keys), &want) != nil {
		return nil
	}
	items, _ := list.([]any)
	var found map[string]any
	most := -1
	for _, raw := range items {
		item, _ := raw.(map[string]any)
		same := 0
		for key, value := range want {
			have, present := item[key]
			switch {
			case !present:
			case equalScalar(have, value):
				same++
			default:
				same = -len(want)
			}
		}
		if item != nil && same > most && same >= 0 {
			found, most = item, same
		}
	}
	return found
}

// hasItem reports whether a list of scalars has an item, which is JSON.
func hasItem(list any, item string) bool {
	var want any
	if json.Unmarshal([]byte(item), &want) != nil {
		return false
	}
	items, _ := list.([]any)
	for _, have := range items {
		if equalScalar(have, want) {
			return true
		}
	}
	return false
}

// contains reports whether have holds everything in want. An absent field equals the
// zero value.
func contains(have, want any, owned fieldSet) bool {
	switch want := want.(type) {
	case map[string]any:
		return containsMap(have, want, owned)
	case []any:
		return containsList(have, want)
	default:
		if have == nil {
			return isZero(want)
		}
		return equalScalar(have, want)
	}
}

func containsMap(have any, want map[string]any, owned fieldSet) bool {
	if have == nil && len(want) == 0 {
		return true
	}
	haveMap, ok := have.(map[string]any)
	if !ok {
		return false
	}
	for key, value := range want {
		if !contains(haveMap[key], value, owned.field(key)) {
			return false
		}
	}
	if len(haveMap) <= len(want) || !isStringMap(haveMap) || !owned.known || owned.isGranular() {
		return true
	}
	// The map is replaced as a whole and has more keys: this reflection owns all of them, or
	// did until another writer took over.
	return len(want) == 0 && !owned.isWhole()
}

func containsList(have any, want []any) bool {
	haveList, ok := have.([]any)
	if !ok {
		return have == nil && len(want) == 0
	}
	if len(haveList) != len(want) {
		return false
	}
	for i := range want {
		// Which fields of an item are owned is compared by exceeds, which finds it by its keys.
		if !contains(haveList[i], want[i], fieldSet{}) {
			return false
		}
	}
	return true
}

func isStringMap(m map[string]any) bool {
	for _, value := range m {
		if _, ok := value.(string); !ok {
			return false
		}
	}
	return true
}

func isZero(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case bool:
		return !v
	case int64:
		return v == 0
	case float64:
		return v == 0
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	default:
		return false
	}
}

// equalScalar compares values that went through different decoders.
func equalScalar(a, b any) bool {
	return reflect.DeepEqual(number(a), number(b))
}

func number(value any) any {
	switch v := value.(type) {
	case int64:
		return float64(v)
	case int:
		return float64(v)
	default:
		return value
	}
}
