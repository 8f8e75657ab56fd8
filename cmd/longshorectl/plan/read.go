package plan

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
)

// stdin is the name of the standard input as a file.
const stdin = "-"

// newScheme returns the kinds that the command reads.
func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), offloadingv1beta1.AddToScheme(scheme), policyv1alpha1.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("registering types: %w", err)
	}
	return scheme, nil
}

// document is one object of a file.
type document struct {
	source string
	data   []byte
}

// documents reads files, folders (their .yaml, .yml and .json files) and the standard input.
func documents(in io.Reader, names []string) ([]document, error) {
	var all []document
	for _, name := range names {
		files := []string{name}
		if info, err := os.Stat(name); name != stdin && err == nil && info.IsDir() {
			if files, err = manifests(name); err != nil {
				return nil, err
			}
		}
		for _, file := range files {
			read, err := split(in, file)
			if err != nil {
				return nil, err
			}
			all = append(all, read...)
		}
	}
	return all, nil
}

// manifests lists the files of a folder and of its folders that may have objects.
func manifests(folder string) ([]string, error) {
	var files []string
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)) {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading folder %q: %w", folder, err)
	}
	return files, nil
}

// split returns the YAML or JSON documents of a file that are not empty.
func split(in io.Reader, name string) ([]document, error) {
	if name != stdin {
		file, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("reading the objects: %w", err)
		}
		defer file.Close()
		in = file
	}
	reader := yaml.NewYAMLReader(bufio.NewReader(in))
	var found []document
	for n := 1; ; n++ {
		data, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading %q: %w", name, err)
		}
		if hasContent(data) {
			found = append(found, document{source: fmt.Sprintf("document %d of %q", n, name), data: data})
		}
	}
}

// hasContent reports whether a document has more than comments.
func hasContent(data []byte) bool {
	for line := range bytes.Lines(data) {
		line = bytes.TrimSpace(line)
		if len(line) > 0 && line[0] != '#' && !bytes.Equal(line, []byte("---")) {
			return true
		}
	}
	return false
}

// decoder decodes documents into typed objects. It is safe for concurrent use.
type decoder struct{ runtime.Decoder }

func newDecoder(scheme *runtime.Scheme) decoder {
	return decoder{serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()}
}

// decoded is what documents have.
type decoded struct {
	objects []runtime.Object
	// warnings are fields that the API server drops, or that a document has twice.
	warnings []string
}

func (d *decoded) add(other decoded) {
	d.objects = append(d.objects, other.objects...)
	d.warnings = append(d.warnings, other.warnings...)
}

// decode returns the objects of a document: one, or the items of a List. Objects of unknown
// kinds have no pod template and are omitted.
func (d decoder) decode(doc document) (decoded, error) {
	object, _, err := d.Decode(doc.data, nil, nil)
	var warnings []string
	if strict, ok := runtime.AsStrictDecodingError(err); ok && object != nil {
		for _, problem := range strict.Errors() {
			warnings = append(warnings, fmt.Sprintf("%s: %s", doc.source, problem))
		}
		err = nil
	}
	switch {
	case runtime.IsNotRegisteredError(err):
		return decoded{}, nil
	case err != nil:
		return decoded{}, fmt.Errorf("decoding %s: %w", doc.source, err)
	}
	list, ok := object.(*corev1.List)
	if !ok {
		return decoded{objects: []runtime.Object{object}, warnings: warnings}, nil
	}
	all := decoded{warnings: warnings}
	for i := range list.Items {
		items, err := d.decode(document{source: fmt.Sprintf("item %d of %s", i+1, doc.source), data: list.Items[i].Raw})
		if err != nil {
			return decoded{}, err
		}
		all.add(items)
	}
	return all, nil
}
