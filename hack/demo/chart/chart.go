// Package chart renders Longshore's Helm chart with Helm's own library: the demo and
// the tests install what users install. Rendering is pure; no cluster is asked.
package chart

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/loader/archive"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/longshore-dev/longshore/charts"
)

// Options of a rendering.
type Options struct {
	// Namespace of the release; "longshore" when empty.
	Namespace string
}

// Render renders the chart with the values and returns its objects, without those of hooks, in
// the order in which they can be applied: CRDs first, then what others refer to, then workloads,
// then objects of the chart's own kinds. The namespace itself is the caller's.
func Render(values map[string]any, options Options) ([]*unstructured.Unstructured, error) {
	objects, err := renderAll(values, options)
	return slices.DeleteFunc(objects, isHook), err
}

// renderAll is Render with the objects of hooks.
func renderAll(values map[string]any, options Options) ([]*unstructured.Unstructured, error) {
	chrt, err := load()
	if err != nil {
		return nil, err
	}
	release := common.ReleaseOptions{
		Name: "longshore", Namespace: cmp.Or(options.Namespace, "longshore"), IsInstall: true, Revision: 1,
	}
	composed, err := util.ToRenderValues(chrt, values, release, common.DefaultCapabilities)
	if err != nil {
		return nil, fmt.Errorf("composing the chart's values: %w", err)
	}
	files, err := engine.Render(chrt, composed)
	if err != nil {
		return nil, fmt.Errorf("rendering the chart: %w", err)
	}
	objects, err := customResourceDefinitions(chrt)
	if err != nil {
		return nil, err
	}
	for name, content := range files {
		if !strings.HasSuffix(name, ".yaml") {
			continue
		}
		decoded, err := decode(content)
		if err != nil {
			return nil, fmt.Errorf("decoding what %s renders to: %w", name, err)
		}
		objects = append(objects, decoded...)
	}
	slices.SortFunc(objects, compare)
	return objects, nil
}

// isHook reports whether Helm creates an object only at a certain time.
func isHook(object *unstructured.Unstructured) bool {
	return object.GetAnnotations()["helm.sh/hook"] != ""
}

// customResourceDefinitions returns what Helm installs before the templates.
func customResourceDefinitions(chrt *chartv2.Chart) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for _, crd := range chrt.CRDObjects() {
		decoded, err := decode(string(crd.File.Data))
		if err != nil {
			return nil, fmt.Errorf("decoding %s: %w", crd.Filename, err)
		}
		objects = append(objects, decoded...)
	}
	return objects, nil
}

func load() (*chartv2.Chart, error) {
	root, err := fs.Sub(charts.Longshore, "longshore")
	if err != nil {
		return nil, fmt.Errorf("opening the chart: %w", err)
	}
	var files []*archive.BufferedFile
	err = fs.WalkDir(root, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(root, path)
		if err != nil {
			return err
		}
		files = append(files, &archive.BufferedFile{Name: path, Data: data})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the chart: %w", err)
	}
	chrt, err := loader.LoadFiles(files)
	if err != nil {
		return nil, fmt.Errorf("loading the chart: %w", err)
	}
	return chrt, nil
}

func decode(content string) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	decoder := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(content), 4096)
	for {
		object := map[string]any{}
		err := decoder.Decode(&object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		if len(object) > 0 {
			objects = append(objects, &unstructured.Unstructured{Object: object})
		}
	}
}

// installOrder lists the kinds that others need first; what is not listed comes after,
// since it is of a kind that the chart itself defines.
var installOrder = []string{
	"CustomResourceDefinition", "Namespace", "RuntimeClass", "ServiceAccount", "ConfigMap", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding",
	"Service", "PodDisruptionBudget", "Deployment", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration",
}

func compare(a, b *unstructured.Unstructured) int {
	return cmp.Or(
		cmp.Compare(rank(a.GetKind()), rank(b.GetKind())),
		cmp.Compare(a.GetKind(), b.GetKind()),
		cmp.Compare(a.GetNamespace(), b.GetNamespace()),
		cmp.Compare(a.GetName(), b.GetName()),
	)
}

func rank(kind string) int {
	if at := slices.Index(installOrder, kind); at >= 0 {
		return at
	}
	return len(installOrder)
}
