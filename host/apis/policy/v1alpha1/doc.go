// Package v1alpha1 holds the kinds of policy.longshore.dev/v1alpha1: the
// OffloadingPolicy, which binds a WebAssembly module to extension points, the
// PolicyComponent, in which a process reports by which policies it decides, and the
// annotations about policies. It is Longshore's own group; all others are Liqo's wire.
//
// +kubebuilder:object:generate=true
// +groupName=policy.longshore.dev
package v1alpha1

//go:generate go tool -modfile=../../../../hack/tools/go.mod controller-gen object paths=.
