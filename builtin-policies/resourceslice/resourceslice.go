// Package resourceslice is the default policy of ResourceSliceAdmission: a ResourceSlice
// is granted all that it asks for, and the provider's defaults for what it does not name
// (reference, section P4.3).
package resourceslice

import "github.com/longshore-dev/longshore/sdk/contract"

const grantedPath = "/status/resources"

// Manifest declares what the policy reads and writes.
func Manifest() contract.PointManifest {
	return contract.PointManifest{
		Point:  contract.ResourceSliceAdmission,
		Reads:  []string{"/defaults", "/object/spec/resources"},
		Writes: []contract.WriteRule{{Path: grantedPath, Verbs: []contract.Verb{contract.VerbSet}}},
	}
}

// Decide answers what is granted.
func Decide(facts contract.ResourceSliceAdmissionFacts) ([]contract.Operation, error) {
	granted := make(contract.StringMap, len(facts.Defaults)+len(facts.Object.Spec.Resources))
	for _, amounts := range []map[string]string{facts.Defaults, facts.Object.Spec.Resources} {
		for name, amount := range amounts {
			granted[name] = amount
		}
	}
	return []contract.Operation{contract.Set(grantedPath, granted)}, nil
}
