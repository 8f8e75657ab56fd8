// Package defaults describes the module of the built-in policies as a whole.
package defaults

import (
	"errors"
	"strings"

	"github.com/longshore-dev/longshore/builtin-policies/antiaffinity"
	"github.com/longshore-dev/longshore/builtin-policies/metadatafilter"
	"github.com/longshore-dev/longshore/builtin-policies/offloadingpatch"
	"github.com/longshore-dev/longshore/builtin-policies/podplacement"
	"github.com/longshore-dev/longshore/builtin-policies/resourceslice"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// Name of the module.
const Name = "longshore-defaults"

// Version of the module. The digest, not the version, identifies the bytes.
const Version = "1.0.0"

// CheckSettings refuses settings that the policies of these points could not use; none
// means all points. Only the metadata filter has settings.
func CheckSettings(points []contract.Point, settings []byte) error {
	if err := metadatafilter.CheckSettings(settings); err != nil {
		return err
	}
	if len(points) == 0 {
		points = contract.Points()
	}
	for _, point := range points {
		if point == contract.MetadataFilter {
			continue
		}
		if err := RefuseSettings(point, settings); err != nil {
			return err
		}
	}
	return nil
}

// RefuseSettings refuses any settings of a policy that has none.
func RefuseSettings(point contract.Point, settings []byte) error {
	if empty(settings) {
		return nil
	}
	return errors.New("spec.settings: the default policy of " + string(point) + " has none; give the settings of " +
		string(contract.MetadataFilter) + " to a policy whose spec.points lists that point alone")
}

// empty takes settings that are known to be null, an object or nothing.
func empty(settings []byte) bool {
	text := strings.TrimSpace(string(settings))
	return text == "" || text == "null" || strings.TrimSpace(strings.Trim(text, "{}")) == ""
}

// Manifest declares what the policies read and write: those of offloading in the order in
// which a pod meets them, then that of the provider.
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
			resourceslice.Manifest(),
		},
	}
}
