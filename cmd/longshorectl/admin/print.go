package admin

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
)

// objectList is how several objects are encoded.
type objectList[T any] struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Items      []T    `json:"items"`
}

// PrintObjects prints objects sorted by namespace and name: a table by text, or the objects
// encoded, one by itself and several as a List. The managed fields are left out.
func PrintObjects[T client.Object](w io.Writer, format output.Format, objects []T, one bool, text func(io.Writer) error) error {
	for _, object := range objects {
		if err := setKind(object); err != nil {
			return err
		}
	}
	if one && len(objects) == 1 {
		return output.Print(w, format, objects[0], text)
	}
	list := objectList[T]{APIVersion: "v1", Kind: "List", Items: append([]T{}, objects...)}
	return output.Print(w, format, list, text)
}

func setKind(object client.Object) error {
	kind, err := apiutil.GVKForObject(object, types)
	if err != nil {
		return fmt.Errorf("encoding %s: %w", Describe(object), err)
	}
	object.GetObjectKind().SetGroupVersionKind(kind)
	object.SetManagedFields(nil)
	return nil
}

// Sort sorts objects by namespace and name.
func Sort[T client.Object](objects []T) {
	slices.SortFunc(objects, func(a, b T) int {
		return cmp.Or(strings.Compare(a.GetNamespace(), b.GetNamespace()), strings.Compare(a.GetName(), b.GetName()))
	})
}

// Age returns how long ago an object was created, as kubectl prints it.
func Age(object client.Object, now time.Time) string {
	created := object.GetCreationTimestamp()
	if created.IsZero() {
		return "-"
	}
	return duration.HumanDuration(now.Sub(created.Time))
}

// Quantities returns the resources of a list that are named, as cells of a table.
func Quantities(list corev1.ResourceList, names ...corev1.ResourceName) []string {
	cells := make([]string, len(names))
	for i, name := range names {
		if quantity, ok := list[name]; ok {
			cells[i] = quantity.String()
		}
	}
	return cells
}

// Others returns the resources of a list that have no column of their own, NAME=QUANTITY.
func Others(list corev1.ResourceList) string {
	var others []string
	for name, quantity := range list {
		if name != corev1.ResourceCPU && name != corev1.ResourceMemory && name != corev1.ResourcePods {
			others = append(others, string(name)+"="+quantity.String())
		}
	}
	slices.Sort(others)
	return strings.Join(others, ",")
}

// CheckNodeName returns a usage error unless the name can be that of a Node.
func CheckNodeName(name string) error {
	messages := validation.IsDNS1123Subdomain(name)
	if len(messages) == 0 {
		messages = validation.IsValidLabelValue(name)
	}
	if len(messages) > 0 {
		return output.Usagef("invalid name %q: it becomes the name of a Node: %s", name, strings.Join(messages, "; "))
	}
	return nil
}

// IsOwnedBy reports whether an object of a kind owns another one.
func IsOwnedBy(object client.Object, kind string) bool {
	return slices.ContainsFunc(object.GetOwnerReferences(), func(owner metav1.OwnerReference) bool { return owner.Kind == kind })
}
