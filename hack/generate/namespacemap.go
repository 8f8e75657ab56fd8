package main

import (
	"fmt"
	"strings"
)

// namespaceMapCRD is the definition of NamespaceMaps. A consumer writes the spec: without bounds it fills the memory of
// the provider's manager, and its time.
const namespaceMapCRD = "namespacemaps.offloading.liqo.io"

// namespaceMapBounds are the bounds of NamespaceMaps, by the path of the field.
// TestANamespaceMapIsBounded (host/apis/hostile) holds them.
func namespaceMapBounds() map[string]map[string]any {
	mappings := func(most int) map[string]any {
		return map[string]any{
			"maxProperties": most,
			"x-kubernetes-validations": []any{map[string]any{
				"rule": fmt.Sprintf("self.all(key, size(key) <= %d)", labelLength), "message": fmt.Sprintf("names of namespaces may be no longer than %d", labelLength),
			}},
		}
	}
	length := func(most int) map[string]any { return map[string]any{"maxLength": most} }
	return map[string]map[string]any{
		"spec.desiredMapping":                     mappings(1000),
		"spec.desiredMapping{}":                   length(labelLength),
		"status.currentMapping":                   mappings(2000),
		"status.currentMapping{}.remoteNamespace": length(labelLength),
		"status.currentMapping{}.phase":           length(len("CreationLoopBackOff")),
		"status.currentMapping{}.message":         length(1024),
	}
}

// boundNamespaceMap adds the bounds of NamespaceMaps to their schema. A text or map without a bound, and a bound
// without a field, are errors.
func boundNamespaceMap(root map[string]any) error {
	bounds := namespaceMapBounds()
	unbounded := append(addBounds(property(root, "spec"), "spec", bounds), addBounds(property(root, "status"), "status", bounds)...)
	for path := range bounds {
		unbounded = append(unbounded, path+" (which does not exist)")
	}
	if len(unbounded) > 0 {
		return fmt.Errorf("bounding %s: no field, or no bound: %s", namespaceMapCRD, strings.Join(unbounded, ", "))
	}
	return nil
}
