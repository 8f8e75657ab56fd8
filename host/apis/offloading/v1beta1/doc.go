// Package v1beta1 holds the kinds of offloading.liqo.io/v1beta1, letter for letter
// as Liqo's wire has them (wire 1): virtual nodes and their
// template, the offloading of namespaces, and the shadow objects that travel to the
// provider. Labels, annotations, finalizers and taints of the offloading path stand
// beside the kind that owns them. No behavior lives here.
//
// +kubebuilder:object:generate=true
// +groupName=offloading.liqo.io
package v1beta1

//go:generate go tool -modfile=../../../../hack/tools/go.mod controller-gen object paths=.
