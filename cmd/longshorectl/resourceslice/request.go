// Package resourceslice is longshorectl create, get and delete resourceslice: what a consumer
// asks of a provider, and what it got.
package resourceslice

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/cmd/longshorectl/admin"
	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	"github.com/longshore-dev/longshore/host/peering/authentication"
)

// defaultClass is the class that every provider grants as it is asked; the empty one means it,
// too (wire P4.3).
const defaultClass = "default"

// Request says what the consumer asks of the provider.
type Request struct {
	// Name of the ResourceSlice, and of its virtual node.
	Name string
	// Class of the slice.
	Class string
	// Resources that are asked for; the provider grants its defaults of others.
	Resources corev1.ResourceList
	// VirtualNode asks for a virtual node.
	VirtualNode bool
}

// Object returns a new ResourceSlice for the request.
func (r Request) Object(namespace string, provider liqocorev1beta1.ClusterID) *authv1beta1.ResourceSlice {
	slice := authentication.ResourceSlice(namespace, r.Name, provider, nil, authv1beta1.ResourceSliceSpec{
		Class: authv1beta1.ResourceSliceClass(r.Class), Resources: r.Resources,
	})
	r.annotate(slice)
	return slice
}

func (r Request) annotate(slice *authv1beta1.ResourceSlice) {
	if r.VirtualNode {
		metav1.SetMetaDataAnnotation(&slice.ObjectMeta, authv1beta1.CreateVirtualNodeAnnotation, "true")
	} else {
		delete(slice.Annotations, authv1beta1.CreateVirtualNodeAnnotation)
	}
}

// change sets in a slice what the request names. The certificate request and the consumer's ID
// belong to Longshore's manager (A5), and resources that the request does not name stay.
func (r Request) change(slice, want *authv1beta1.ResourceSlice) {
	slice.Spec.ProviderClusterID, slice.Spec.Class = want.Spec.ProviderClusterID, want.Spec.Class
	if len(r.Resources) > 0 && slice.Spec.Resources == nil {
		slice.Spec.Resources = corev1.ResourceList{}
	}
	maps.Copy(slice.Spec.Resources, r.Resources)
	r.annotate(slice)
	admin.SetLabels(slice, want)
}

// Apply writes the slice and waits until the provider granted it and Longshore's manager made the
// Secret with its credentials, which virtual nodes use.
func Apply(ctx context.Context, consumer *admin.Cluster, namespace string, provider liqocorev1beta1.ClusterID, request Request, waiting admin.Waiting) (*authv1beta1.ResourceSlice, error) {
	want := request.Object(namespace, provider)
	slice := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: want.Name, Namespace: want.Namespace}}
	if err := consumer.Write(ctx, slice, func() error {
		request.change(slice, want)
		return nil
	}); err != nil {
		return nil, err
	}
	if err := WaitGranted(ctx, consumer, slice, waiting); err != nil {
		return nil, err
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Name: authentication.KubeconfigSecretName(authentication.SliceIdentityName(slice.Name)), Namespace: namespace,
	}}
	return slice, consumer.Until(ctx, secret, waiting, func() string { return "" })
}

// WaitGranted waits until the provider granted a slice what it asks for. A slice that the
// provider denied is an error.
func WaitGranted(ctx context.Context, consumer *admin.Cluster, slice *authv1beta1.ResourceSlice, waiting admin.Waiting) error {
	var denied error
	err := consumer.Until(ctx, slice, waiting, func() (missing string) {
		missing, denied = pending(slice)
		return missing
	})
	if err != nil {
		return err
	}
	return denied
}

// pending returns what the provider has not decided yet, or an error when it denied the slice.
// A slice has no observed generation, so that a changed request is compared with the grant.
func pending(slice *authv1beta1.ResourceSlice) (string, error) {
	for _, kind := range []authv1beta1.ResourceSliceConditionType{
		authv1beta1.ResourceSliceConditionTypeAuthentication, authv1beta1.ResourceSliceConditionTypeResources,
	} {
		c := ConditionOf(slice, kind)
		if c == nil {
			return fmt.Sprintf("the provider to decide about %s", kind), nil
		}
		if c.Status == authv1beta1.ResourceSliceConditionDenied {
			return "", &output.Exit{Code: output.CodeDenied, Err: fmt.Errorf("the provider denied ResourceSlice %q: %s: %s", slice.Name, c.Reason, c.Message)}
		}
	}
	expected := ExpectedGrant(slice)
	for _, name := range slices.Sorted(maps.Keys(expected)) {
		asked := expected[name]
		granted, ok := slice.Status.Resources[name]
		switch {
		case !ok:
			return fmt.Sprintf("the provider to grant %s %s", name, asked.String()), nil
		case granted.Cmp(asked) != 0:
			return fmt.Sprintf("the provider to grant %s %s instead of %s", name, asked.String(), granted.String()), nil
		}
	}
	return "", nil
}

// ExpectedGrant returns what the provider grants of a slice when it has followed the request. It
// is empty for a class that may grant less.
func ExpectedGrant(slice *authv1beta1.ResourceSlice) corev1.ResourceList {
	if slice.Spec.Class != "" && slice.Spec.Class != defaultClass {
		return nil
	}
	return slice.Spec.Resources
}

// ConditionOf returns a condition of a slice, or nil.
func ConditionOf(slice *authv1beta1.ResourceSlice, kind authv1beta1.ResourceSliceConditionType) *authv1beta1.ResourceSliceCondition {
	for i := range slice.Status.Conditions {
		if slice.Status.Conditions[i].Type == kind {
			return &slice.Status.Conditions[i]
		}
	}
	return nil
}

// IsAccepted reports whether the provider accepted both the credentials and the resources of a
// slice.
func IsAccepted(slice *authv1beta1.ResourceSlice) bool {
	for _, kind := range []authv1beta1.ResourceSliceConditionType{
		authv1beta1.ResourceSliceConditionTypeAuthentication, authv1beta1.ResourceSliceConditionTypeResources,
	} {
		if c := ConditionOf(slice, kind); c == nil || c.Status != authv1beta1.ResourceSliceConditionAccepted {
			return false
		}
	}
	return true
}

// IsCopy reports whether a slice is the copy of a consumer's request in the provider.
func IsCopy(slice client.Object) bool {
	labels := slice.GetLabels()
	return labels[liqocorev1beta1.ReplicatedLabel] == "true" && labels[liqocorev1beta1.OriginIDLabel] != ""
}
