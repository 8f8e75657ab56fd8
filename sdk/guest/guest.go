// Package guest holds what policies of all extension points share: the request as
// an author sees it, and the settings of a binding.
//
// A policy module is a main package that imports one package per extension point
// that it answers (importing it adds the wasm export) and registers its functions
// in an init function, because main of a library is never called:
//
//	package main
//
//	import (
//		"github.com/longshore-dev/longshore/sdk/contract"
//		"github.com/longshore-dev/longshore/sdk/guest/describe"
//		"github.com/longshore-dev/longshore/sdk/guest/offloadingpatch"
//	)
//
//	func init() {
//		describe.Handle(manifest)
//		offloadingpatch.Handle(func(r *offloadingpatch.Request) ([]contract.Operation, error) {
//			return []contract.Operation{contract.Merge("/spec/nodeSelector", contract.StringMap{"pool": "gpu"})}, nil
//		})
//	}
//
//	func main() {}
//
// It is built with the standard Go toolchain:
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -trimpath -ldflags='-s -w' -o module.wasm .
//
// A policy is a pure function: the host resets the module after every call, its clock
// is constant, and there are no random numbers, files, network or environment.
package guest

import "github.com/longshore-dev/longshore/sdk/contract"

// Request is a request to a policy. F is the type of the facts of the extension
// point. They have only the fields that the manifest declares in reads.
type Request[F any] struct {
	// Moment is set for PodMutation only.
	Moment contract.Moment
	// Facts is what the host knows.
	Facts F
	// Settings is the binding's spec.settings.
	Settings Settings
}

// Settings is the JSON text of a binding's spec.settings, empty when it has none;
// sdk/guest/strictjson decodes it.
type Settings []byte

// Answer is what a policy of PodMutation, ShadowPodAdmission or ResourceSliceAdmission
// answers; the zero value changes nothing.
type Answer struct {
	// Operations change facts.object, in order.
	Operations []contract.Operation
	// Deny refuses the pod; Operations are then ignored.
	Deny *contract.Denial
	// Warnings are shown to the user who created the pod, at most contract.MaxWarnings.
	Warnings []string
}
