package engine

import (
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// coverage says how a remote object compares with a configuration to be applied.
type coverage int

const (
	// differs: applying would change something.
	differs coverage = iota
	// covered: everything in the configuration is there, and maybe more, which may be
	// ours from an earlier configuration or somebody else's. Only an apply can tell.
	covered
	// exact: as covered, and labels and annotations hold nothing else, nor do the maps
	// of the content.
	exact
)

// cover compares without a request, so that an event which changes nothing costs none.
// Fields that the configuration does not mention are the provider's (defaults, cluster
// IPs, node ports); maps of strings must not hold more to count as exact.
func cover(remote client.Object, config map[string]any) (coverage, error) {
	have, err := runtime.DefaultUnstructuredConverter.ToUnstructured(remote)
	if err != nil {
		return differs, fmt.Errorf("reading the remote object: %w", err)
	}
	result := exact
	for key, want := range config {
		if key == "apiVersion" || key == "kind" {
			continue
		}
		if !contains(have[key], want, &result) {
			return differs, nil
		}
	}
	for _, key := range []string{"data", "binaryData"} {
		if config[key] == nil && !isZero(have[key]) {
			result = covered
		}
	}
	meta, _ := have["metadata"].(map[string]any)
	wantMeta, _ := config["metadata"].(map[string]any)
	for _, key := range []string{"labels", "annotations"} {
		if wantMeta[key] == nil && !isZero(meta[key]) {
			result = covered
		}
	}
	return result, nil
}

// contains reports whether have holds everything in want. An absent field equals the
// zero value. result drops to covered where a map of strings holds more than wanted.
func contains(have, want any, result *coverage) bool {
	switch want := want.(type) {
	case map[string]any:
		return containsMap(have, want, result)
	case []any:
		return containsList(have, want, result)
	default:
		if have == nil {
			return isZero(want)
		}
		return equalScalar(have, want)
	}
}

func containsMap(have any, want map[string]any, result *coverage) bool {
	if have == nil && len(want) == 0 {
		return true
	}
	haveMap, ok := have.(map[string]any)
	if !ok {
		return false
	}
	for key, value := range want {
		if !contains(haveMap[key], value, result) {
			return false
		}
	}
	if len(haveMap) > len(want) && isStringMap(haveMap) {
		*result = covered
	}
	return true
}

func containsList(have any, want []any, result *coverage) bool {
	haveList, ok := have.([]any)
	if !ok {
		return have == nil && len(want) == 0
	}
	if len(haveList) != len(want) {
		return false
	}
	for i := range want {
		if !contains(haveList[i], want[i], result) {
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
