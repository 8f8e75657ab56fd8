// Package defaults describes the module of the built-in policies as a whole.
package defaults

import (
	"github.com/longshore-dev/longshore/builtin-policies/antiaffinity"
	"github.com/longshore-dev/longshore/builtin-policies/metadatafilter"
	"github.com/longshore-dev/longshore/builtin-policies/offloadingpatch"
	"github.com/longshore-dev/longshore/builtin-policies/podplacement"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// Name of the module.
const Name = "longshore-defaults"

// Version of the module. The digest, not the version, says which bytes run.
const Version = "1.0.0"

// Manifest declares what the four policies read and write, in the order in which a
// pod meets them.
func Manifest() contract.Manifest {
	return contract.Manifest{
		Name:      Name,
		Version:   Version,
		Contracts: contract.Versions(),
		Points: []contract.PointManifest{
			metadatafilter.Manifest(),
			offloadingpatch.Manifest(),
			antiaffinity.Manifest(),
			podplacement.Manifest(),
		},
	}
}
