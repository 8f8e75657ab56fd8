// Package v1alpha1 holds the kinds of policy.longshore.dev/v1alpha1: the
// OffloadingPolicy, which binds a WebAssembly module to extension points, and the
// keys that tell on an object who decided about it. It is Longshore's own group;
// all others are Liqo's wire.
//
// +kubebuilder:object:generate=true
// +groupName=policy.longshore.dev
package v1alpha1

//go:generate go tool -modfile=../../../../hack/tools/go.mod controller-gen object paths=.
