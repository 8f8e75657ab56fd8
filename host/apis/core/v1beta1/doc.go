// Package v1beta1 defines the kinds of core.liqo.io/v1beta1: the ForeignCluster, the type
// of cluster IDs, and the labels of clusters and replication.
//
// +kubebuilder:object:generate=true
// +groupName=core.liqo.io
package v1beta1

//go:generate go tool -modfile=../../../../hack/tools/go.mod controller-gen object paths=.
