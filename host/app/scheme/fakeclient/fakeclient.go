// Package fakeclient gives tests clients without a cluster. Only tests import it.
package fakeclient

import (
	"reflect"
	"strings"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/app/scheme"
)

// Builder returns the builder of a client that knows the kinds of Longshore's processes, and holds the
// objects that are not nil. As in a cluster, the status of an object changes only by requests for the
// subresource.
func Builder(objects ...client.Object) *fake.ClientBuilder {
	kinds, err := scheme.New()
	utilruntime.Must(err)
	b := fake.NewClientBuilder().WithScheme(kinds)
	for _, object := range objects {
		if !reflect.ValueOf(object).IsZero() {
			b.WithObjects(object)
		}
	}
	for _, kind := range kinds.AllKnownTypes() {
		if object, ok := reflect.New(kind).Interface().(client.Object); ok && hasStatusSubresource(object, kind) {
			b.WithStatusSubresource(object)
		}
	}
	return b
}

// hasStatusSubresource reports whether a kind of Longshore has one. The fake client knows those of Kubernetes.
func hasStatusSubresource(object client.Object, kind reflect.Type) bool {
	if _, whole := object.(*policyv1alpha1.PolicyComponent); whole { // A component writes all of it at once.
		return false
	}
	_, hasStatus := kind.FieldByName("Status")
	return hasStatus && strings.HasPrefix(kind.PkgPath(), "github.com/longshore-dev/longshore/host/apis/")
}
