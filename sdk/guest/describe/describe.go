// Package describe provides a module's manifest: importing it adds the wasm export
// describe, which every module must have, and [Handle] registers its manifest.
package describe

import (
	"github.com/longshore-dev/longshore/sdk/contract"
	"github.com/longshore-dev/longshore/sdk/internal/arena"
	"github.com/longshore-dev/longshore/sdk/internal/codec"
	"github.com/longshore-dev/longshore/sdk/internal/dispatch"
)

// Handle registers the manifest of the module. Call it in an init function, once.
// Contracts may be left empty: the versions that this SDK speaks are then filled in.
//
//	describe.Handle(func() contract.Manifest {
//		return contract.Manifest{
//			Name:    "gpu-pool",
//			Version: "1.0.0",
//			Points: []contract.PointManifest{{
//				Point:  contract.OffloadingPatch,
//				Reads:  []string{"/virtualNode/labels"},
//				Writes: []contract.WriteRule{{Path: "/spec/nodeSelector", Verbs: []contract.Verb{contract.VerbMerge}}},
//			}},
//		}
//	})
func Handle(manifest func() contract.Manifest) {
	dispatch.Register(contract.ExportDescribe, func([]byte) ([]byte, error) {
		m := manifest()
		if len(m.Contracts) == 0 {
			m.Contracts = contract.Versions()
		}
		answer := codec.AppendManifest(nil, &m)
		// The host calls describe while it loads the module, before any other export.
		arena.Refill()
		return answer, nil
	})
}
