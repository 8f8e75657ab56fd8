package main

import (
	"fmt"
	"maps"
	"strings"
)

// endpointSliceCRD is the definition of ShadowEndpointSlices, whose template has types of Kubernetes: markers cannot
// bound their fields.
const endpointSliceCRD = "shadowendpointslices.offloading.liqo.io"

// Lengths of names in Kubernetes.
const (
	labelLength     = 63
	subdomainLength = 253
	// qualifiedLength is that of a prefix, a slash and a name.
	qualifiedLength = subdomainLength + 1 + labelLength
	// referenceLength is for fields of a reference, which Kubernetes does not validate.
	referenceLength = 256
)

// endpointSliceBounds are those of Kubernetes' validation of EndpointSlices, by the path of the field below the
// template. TestAShadowEndpointSliceIsBoundedAsAnEndpointSlice (host/apis/hostile) holds them.
func endpointSliceBounds() map[string]map[string]any {
	most := func(key string, n int) map[string]any { return map[string]any{key: n} }
	bounds := map[string]map[string]any{
		"addressType":           most("maxLength", len("IPv4")),
		"endpoints":             most("maxItems", 1000),
		"endpoints[].addresses": most("maxItems", 100),
		// A domain may end in a dot.
		"endpoints[].addresses[]": most("maxLength", subdomainLength+1),
		"endpoints[].deprecatedTopology": {
			"maxProperties": 16,
			"x-kubernetes-validations": []any{map[string]any{
				"rule": fmt.Sprintf("self.all(key, size(key) <= %d)", qualifiedLength), "message": fmt.Sprintf("keys may be no longer than %d", qualifiedLength),
			}},
		},
		"endpoints[].deprecatedTopology{}":  most("maxLength", labelLength),
		"endpoints[].hints.forNodes":        most("maxItems", 8),
		"endpoints[].hints.forNodes[].name": most("maxLength", subdomainLength),
		"endpoints[].hints.forZones":        most("maxItems", 8),
		"endpoints[].hints.forZones[].name": most("maxLength", labelLength),
		"endpoints[].hostname":              most("maxLength", labelLength),
		"endpoints[].nodeName":              most("maxLength", subdomainLength),
		"endpoints[].targetRef.apiVersion":  most("maxLength", qualifiedLength),
		"endpoints[].zone":                  most("maxLength", subdomainLength),
		"ports":                             most("maxItems", 20000),
		"ports[].appProtocol":               most("maxLength", qualifiedLength),
		"ports[].name":                      most("maxLength", labelLength),
		"ports[].protocol":                  most("maxLength", len("SCTP")),
	}
	for _, name := range []string{"fieldPath", "kind", "name", "namespace", "resourceVersion", "uid"} {
		bounds["endpoints[].targetRef."+name] = most("maxLength", referenceLength)
	}
	return bounds
}

// boundEndpointSlice adds the bounds of EndpointSlices to the schema of ShadowEndpointSlices. A text, list or map
// without a bound, and a bound without a field, are errors.
func boundEndpointSlice(root map[string]any) error {
	spec := property(root, "spec")
	bounds := endpointSliceBounds()
	unbounded := addBounds(property(spec, "template"), "", bounds)
	for path := range bounds {
		unbounded = append(unbounded, path+" (which does not exist)")
	}
	if len(unbounded) > 0 {
		return fmt.Errorf("bounding %s: no field, or no bound: %s", endpointSliceCRD, strings.Join(unbounded, ", "))
	}
	return nil
}

// addBounds adds bounds to what is below a schema, and removes those that it added. It returns the paths without one.
func addBounds(schema map[string]any, path string, bounds map[string]map[string]any) []string {
	var unbounded []string
	values, isMap := schema["additionalProperties"].(map[string]any)
	if own, ok := bounds[path]; ok {
		maps.Copy(schema, own)
		delete(bounds, path)
	} else if schema["type"] == "string" || schema["type"] == "array" || isMap {
		unbounded = append(unbounded, path)
	}
	properties, _ := schema["properties"].(map[string]any)
	for name := range properties {
		unbounded = append(unbounded, addBounds(property(schema, name), strings.TrimPrefix(path+"."+name, "."), bounds)...)
	}
	if items, ok := schema["items"].(map[string]any); ok {
		unbounded = append(unbounded, addBounds(items, path+"[]", bounds)...)
	}
	if isMap {
		unbounded = append(unbounded, addBounds(values, path+"{}", bounds)...)
	}
	return unbounded
}

func property(schema map[string]any, name string) map[string]any {
	properties, _ := schema["properties"].(map[string]any)
	child, _ := properties[name].(map[string]any)
	return child
}
