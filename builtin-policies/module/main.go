// Command module is the built-in policies as one wasm module: a Go runtime costs
// memory and start-up time once, so they share it. `make builtins` builds
// it for wasip1 as a C-shared library.
package main

import (
	"runtime/debug"

	"github.com/longshore-dev/longshore/builtin-policies/antiaffinity"
	"github.com/longshore-dev/longshore/builtin-policies/defaults"
	"github.com/longshore-dev/longshore/builtin-policies/metadatafilter"
	"github.com/longshore-dev/longshore/builtin-policies/offloadingpatch"
	"github.com/longshore-dev/longshore/builtin-policies/podplacement"
	"github.com/longshore-dev/longshore/builtin-policies/resourceslice"
	"github.com/longshore-dev/longshore/sdk/contract"
	"github.com/longshore-dev/longshore/sdk/guest"
	"github.com/longshore-dev/longshore/sdk/guest/antiaffinitypreset"
	"github.com/longshore-dev/longshore/sdk/guest/describe"
	metadatafilterpoint "github.com/longshore-dev/longshore/sdk/guest/metadatafilter"
	offloadingpatchpoint "github.com/longshore-dev/longshore/sdk/guest/offloadingpatch"
	"github.com/longshore-dev/longshore/sdk/guest/podmutation"
	"github.com/longshore-dev/longshore/sdk/guest/resourcesliceadmission"
	"github.com/longshore-dev/longshore/sdk/guest/settings"
)

// noCollection has the runtime collect garbage from 40 MiB on only, ten times its least
// heap: an instance is set back after each call, so garbage is gone anyway, and marking what
// is read from a large object takes several times as long as reading it.
const noCollection = 1000

func init() {
	debug.SetGCPercent(noCollection)
	describe.Handle(defaults.Manifest)
	settings.HandlePoints(func(points []contract.Point, s guest.Settings) error { return defaults.CheckSettings(points, s) })
	metadatafilterpoint.HandleEntries(func(r *metadatafilterpoint.EntriesRequest) ([]contract.Operation, error) {
		return metadatafilter.Decide(r.Facts, r.Settings)
	})
	offloadingpatchpoint.Handle(func(r *offloadingpatchpoint.Request) ([]contract.Operation, error) {
		if err := defaults.RefuseSettings(contract.OffloadingPatch, r.Settings); err != nil {
			return nil, err
		}
		return offloadingpatch.Decide(r.Facts)
	})
	antiaffinitypreset.HandleEntries(func(r *antiaffinitypreset.EntriesRequest) ([]contract.Operation, error) {
		if err := defaults.RefuseSettings(contract.AntiAffinityPreset, r.Settings); err != nil {
			return nil, err
		}
		return antiaffinity.Decide(r.Facts)
	})
	podmutation.Handle(func(r *podmutation.Request) (*guest.Answer, error) {
		if err := defaults.RefuseSettings(contract.PodMutation, r.Settings); err != nil {
			return nil, err
		}
		operations, err := podplacement.Decide(r.Facts)
		return &guest.Answer{Operations: operations}, err
	})
	resourcesliceadmission.Handle(func(r *resourcesliceadmission.Request) (*guest.Answer, error) {
		if err := defaults.RefuseSettings(contract.ResourceSliceAdmission, r.Settings); err != nil {
			return nil, err
		}
		operations, err := resourceslice.Decide(r.Facts)
		return &guest.Answer{Operations: operations}, err
	})
}

// main is never called: the host calls the exports of a library.
func main() {}
