package native_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/builtin-policies/defaults"
	"github.com/longshore-dev/longshore/builtin-policies/native"
	"github.com/longshore-dev/longshore/builtin-policies/podplacement"
	"github.com/longshore-dev/longshore/conformance/vectors"
	"github.com/longshore-dev/longshore/sdk/contract"
)

func TestEveryDeclaredPointHasAFunction(t *testing.T) {
	manifest, functions := defaults.Manifest(), native.Functions()
	assert.Len(t, functions, len(manifest.Points))
	for _, point := range contract.CorePoints() {
		assert.Contains(t, functions, point)
		assert.NotNil(t, manifest.For(point), point)
	}
}

// Equal questions give equal bytes: maps are written in order.
func TestAnswersAreDeterministic(t *testing.T) {
	all, err := vectors.All()
	require.NoError(t, err)
	for _, v := range all {
		var request contract.Request
		require.NoError(t, json.Unmarshal(v.Request, &request))
		answers := make([]string, 20)
		for i := range answers {
			response, err := native.Functions()[request.Point](request)
			if err != nil {
				answers[i] = err.Error()
				continue
			}
			data, err := json.Marshal(response)
			require.NoError(t, err)
			answers[i] = string(data)
		}
		assert.Len(t, slices.Compact(answers), 1, v.Name)
	}
}

func TestFactsOfAnotherTypeAreAnError(t *testing.T) {
	for point, ask := range native.Functions() {
		_, err := ask(contract.Request{Version: contract.Version, Point: point, Facts: []byte(`[]`)})
		assert.ErrorContains(t, err, "decoding the facts", point)
	}
}

// A selector whose lists have room left must not be written into: the facts may be
// shared between calls.
func TestPlacementLeavesTheFactsAlone(t *testing.T) {
	expressions := make([]contract.NodeSelectorRequirement, 1, 8)
	expressions[0] = contract.NodeSelectorRequirement{Key: "a", Operator: "Exists"}
	terms := make([]contract.NodeSelectorTerm, 1, 8)
	terms[0].MatchExpressions = expressions
	for _, strategy := range []string{"Remote", "LocalAndRemote"} {
		facts := contract.PodMutationFacts{Offloading: &contract.NamespaceOffloading{
			PodOffloadingStrategy: strategy, ClusterSelector: contract.NodeSelector{NodeSelectorTerms: terms},
		}}
		_, err := podplacement.Decide(facts)
		require.NoError(t, err)
		assert.Zero(t, expressions[:2][1], strategy)
		assert.Zero(t, terms[:2][1], strategy)
		assert.Len(t, terms[0].MatchExpressions, 1, strategy)
	}
}
