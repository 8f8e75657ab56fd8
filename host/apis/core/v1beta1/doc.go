// Package v1beta1 holds the kinds of core.liqo.io/v1beta1 (wire P1.2):
// the ForeignCluster, the type of a cluster's ID, and the labels that tell to which
// cluster an object belongs and whether it is a replica.
//
// +kubebuilder:object:generate=true
// +groupName=core.liqo.io
package v1beta1

//go:generate go tool -modfile=../../../../hack/tools/go.mod controller-gen object paths=.
