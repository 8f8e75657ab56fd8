// Package native runs the built-in policies as plain Go functions: the oracle that
// the compiled module is held against, and the baseline that it is measured against.
// Nothing that runs in a cluster uses it.
package native

import (
	"encoding/json"
	"fmt"

	"github.com/longshore-dev/longshore/builtin-policies/antiaffinity"
	"github.com/longshore-dev/longshore/builtin-policies/defaults"
	"github.com/longshore-dev/longshore/builtin-policies/metadatafilter"
	"github.com/longshore-dev/longshore/builtin-policies/offloadingpatch"
	"github.com/longshore-dev/longshore/builtin-policies/podplacement"
	"github.com/longshore-dev/longshore/builtin-policies/resourceslice"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// Function answers one request.
type Function = func(contract.Request) (contract.Response, error)

// Functions returns the built-in policies by extension point.
func Functions() map[contract.Point]Function {
	return map[contract.Point]Function{
		contract.PodMutation:        function(contract.PodMutation, podplacement.Decide),
		contract.OffloadingPatch:    function(contract.OffloadingPatch, offloadingpatch.Decide),
		contract.AntiAffinityPreset: function(contract.AntiAffinityPreset, antiaffinity.Decide),
		contract.MetadataFilter:     configured(metadatafilter.Decide),

		contract.ResourceSliceAdmission: function(contract.ResourceSliceAdmission, resourceslice.Decide),
	}
}

// function is for policies without settings.
func function[F any](point contract.Point, decide func(F) ([]contract.Operation, error)) Function {
	return configured(func(facts F, settings []byte) ([]contract.Operation, error) {
		if err := defaults.RefuseSettings(point, settings); err != nil {
			return nil, err
		}
		return decide(facts)
	})
}

// configured is for policies with settings.
func configured[F any](decide func(F, []byte) ([]contract.Operation, error)) Function {
	return func(request contract.Request) (contract.Response, error) {
		var facts F
		if err := json.Unmarshal(request.Facts, &facts); err != nil {
			return contract.Response{}, fmt.Errorf("decoding the facts: %w", err)
		}
		operations, err := decide(facts, request.Settings)
		if err != nil {
			return contract.Response{}, err
		}
		return contract.Response{Version: request.Version, Operations: operations}, nil
	}
}
