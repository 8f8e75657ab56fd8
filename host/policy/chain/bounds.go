package chain

import (
	"slices"

	"github.com/longshore-dev/longshore/host/policy/operation"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// objectFact is the fact that policies change.
const objectFact = "object"

// bound is the maximum that an extension point allows, whatever a manifest declares.
type bound struct {
	*contract.PointRules
	writes operation.Rules
}

// bounds of the extension points.
var bounds = func() map[contract.Point]bound {
	all := map[contract.Point]bound{}
	for _, point := range contract.Points() {
		b := bound{PointRules: point.Rules()}
		var writes []contract.WriteRule
		for _, path := range b.Writes {
			writes = append(writes, contract.WriteRule{Path: path, Verbs: contract.Verbs()})
		}
		b.writes = operation.MustCompileRules(writes)
		all[point] = b
	}
	return all
}()

// hasFact reports whether a read begins with a fact of the point.
func (b bound) hasFact(path operation.Path) bool {
	return slices.Contains(b.Facts, path.Steps()[0].Key)
}
