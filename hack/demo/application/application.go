// Package application is the multi-service application that the demo offloads: a small
// shop, with what a real one has: settings, credentials, service accounts, volumes and
// services that find each other by name.
package application

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// Namespace is where the application lives on the consumer.
const Namespace = "shop"

//go:embed manifests/*.yaml provider/*.yaml
var manifests embed.FS

// Objects returns the application's objects in the order in which they are applied.
func Objects() ([]*unstructured.Unstructured, error) { return read("manifests/*.yaml") }

// ProviderObjects returns what the application needs in the provider, in the order in which it is
// applied: a storage class with volumes, and the RuntimeClass of pods that run as processes.
func ProviderObjects() ([]*unstructured.Unstructured, error) { return read("provider/*.yaml") }

func read(pattern string) ([]*unstructured.Unstructured, error) {
	names, err := fs.Glob(manifests, pattern)
	if err != nil {
		return nil, fmt.Errorf("listing the application's manifests: %w", err)
	}
	var objects []*unstructured.Unstructured
	for _, name := range names {
		content, err := manifests.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		parsed, err := Parse(content)
		if err != nil {
			return nil, fmt.Errorf("parsing %s: %w", name, err)
		}
		objects = append(objects, parsed...)
	}
	return objects, nil
}

// Parse returns the objects of a manifest, in its order.
func Parse(manifest []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for document := range strings.SplitSeq(string(manifest), "\n---\n") {
		obj := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &obj.Object); err != nil {
			return nil, fmt.Errorf("decoding an object: %w", err)
		}
		if len(obj.Object) > 0 {
			objects = append(objects, obj)
		}
	}
	return objects, nil
}
