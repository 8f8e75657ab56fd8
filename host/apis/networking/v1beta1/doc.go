// Package v1beta1 defines the kinds of networking.liqo.io/v1beta1: what two clusters
// agree on about their networks, and the gateways between them. Longshore has no network fabric.
// It serves these kinds so that manifests apply and a fabric can be added.
//
// +kubebuilder:object:generate=true
// +groupName=networking.liqo.io
package v1beta1

//go:generate go tool -modfile=../../../../hack/tools/go.mod controller-gen object paths=.
