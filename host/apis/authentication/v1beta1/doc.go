// Package v1beta1 holds the kinds of authentication.liqo.io/v1beta1 (wire
// P1.1): tenants, identities, slices of a provider's resources, and the
// labels of the Secrets that carry credentials between clusters.
//
// +kubebuilder:object:generate=true
// +groupName=authentication.liqo.io
package v1beta1

//go:generate go tool -modfile=../../../../hack/tools/go.mod controller-gen object paths=.
