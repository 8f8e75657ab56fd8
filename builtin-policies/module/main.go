// Command module is the built-in policies as one wasm module: a Go runtime costs
// memory and start-up time once, so the four share it (ADR 2). `make builtins` builds
// it for wasip1 as a C-shared library.
package main

import (
	"github.com/longshore-dev/longshore/builtin-policies/antiaffinity"
	"github.com/longshore-dev/longshore/builtin-policies/defaults"
	"github.com/longshore-dev/longshore/builtin-policies/metadatafilter"
	"github.com/longshore-dev/longshore/builtin-policies/offloadingpatch"
	"github.com/longshore-dev/longshore/builtin-policies/podplacement"
	"github.com/longshore-dev/longshore/sdk/contract"
	"github.com/longshore-dev/longshore/sdk/guest"
	"github.com/longshore-dev/longshore/sdk/guest/antiaffinitypreset"
	"github.com/longshore-dev/longshore/sdk/guest/describe"
	metadatafilterpoint "github.com/longshore-dev/longshore/sdk/guest/metadatafilter"
	offloadingpatchpoint "github.com/longshore-dev/longshore/sdk/guest/offloadingpatch"
	"github.com/longshore-dev/longshore/sdk/guest/podmutation"
	"github.com/longshore-dev/longshore/sdk/guest/settings"
)

func init() {
	describe.Handle(defaults.Manifest)
	settings.HandlePoints(func(points []contract.Point, s guest.Settings) error { return defaults.CheckSettings(points, s) })
	metadatafilterpoint.Handle(func(r *metadatafilterpoint.Request) ([]contract.Operation, error) {
		return metadatafilter.Decide(r.Facts, r.Settings)
	})
	offloadingpatchpoint.Handle(func(r *offloadingpatchpoint.Request) ([]contract.Operation, error) {
		return offloadingpatch.Decide(r.Facts)
	})
	antiaffinitypreset.Handle(func(r *antiaffinitypreset.Request) ([]contract.Operation, error) {
		return antiaffinity.Decide(r.Facts)
	})
	podmutation.Handle(func(r *podmutation.Request) (*guest.Answer, error) {
		operations, err := podplacement.Decide(r.Facts)
		return &guest.Answer{Operations: operations}, err
	})
}

// main is never called: the host calls the exports of a library.
func main() {}
