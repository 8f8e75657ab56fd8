// Package v1alpha1 defines the kinds of ipam.liqo.io/v1alpha1: networks and addresses
// of other clusters, and what they are translated to in this cluster.
//
// +kubebuilder:object:generate=true
// +groupName=ipam.liqo.io
package v1alpha1

//go:generate go tool -modfile=../../../../hack/tools/go.mod controller-gen object paths=.
