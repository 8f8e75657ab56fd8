package remote

import (
	"maps"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
)

// fieldStatus is the field that reflection takes from the provider.
const fieldStatus = "status"

// CustomResource builds the remote object of a custom resource: all fields but the status, with
// metadata of its own. namespace is the remote namespace; labels and annotations are the filtered
// ones. Owner references and finalizers are those of the consumer and are dropped.
func CustomResource(local *unstructured.Unstructured, namespace string, labels, annotations map[string]string, origin Origin) *unstructured.Unstructured {
	content := maps.Clone(local.Object)
	delete(content, "metadata")
	delete(content, fieldStatus)
	remote := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(content)}
	remote.SetName(local.GetName())
	remote.SetNamespace(namespace)
	remote.SetLabels(ownedLabels(labels, origin))
	annotations = maps.Clone(annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[policyv1alpha1.LocalGenerationAnnotation] = strconv.FormatInt(local.GetGeneration(), 10)
	remote.SetAnnotations(annotations)
	return remote
}
