// Package v1beta1 defines the kinds of offloading.liqo.io/v1beta1, which are wire compatible with
// Liqo: virtual nodes and their template, the offloading of namespaces, and shadow
// objects. Labels, annotations, finalizers and taints are defined beside the kind that uses them.
//
// +kubebuilder:object:generate=true
// +groupName=offloading.liqo.io
package v1beta1

//go:generate go tool -modfile=../../../../hack/tools/go.mod controller-gen object paths=.
