package suite_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/conformance/suite"
	"github.com/longshore-dev/longshore/conformance/vectors"
)

// mutant is the policy of conformance/guests/text with one mistake.
type mutant struct {
	// rule is the one that the mutant breaks.
	rule    string
	vectors []vectors.Vector
}

// mutants are named like their files in the folder mutants. input.shape is broken by the policy
// itself.
func mutants() map[string]mutant {
	return map[string]mutant{
		"imports what the ABI does not have":  {rule: "module.loads"},
		"describes itself by the time of day": {rule: "module.describe"},
		"answers a vector in another way": {rule: "answer.vector", vectors: []vectors.Vector{{
			Name: "own", Description: "d", Origin: "o",
			Request: []byte(`{"version":"v1alpha1","point":"PodMutation","moment":"Admission","facts":{"object":{"spec":{"nodeSelector":{"accelerator":"tpu"}}}}}`),
			Response: []byte(`{"version":"v1alpha1","operations":[{"op":"ensure","path":"/spec/tolerations",` +
				`"value":[{"key":"accelerator","operator":"Equal","value":"tpu","effect":"NoSchedule"}]}]}`),
		}}},
		"refuses everything":                        {rule: "answer.given"},
		"crashes over some pods":                    {rule: "answer.completes"},
		"does not end over some pods":               {rule: "answer.completes"},
		"answers by the time of day":                {rule: "answer.same"},
		"answers with unknown members":              {rule: "answer.valid"},
		"denies without a reason":                   {rule: "answer.valid"},
		"writes what it does not declare":           {rule: "answer.writes"},
		"adds items to a map":                       {rule: "answer.applies"},
		"reads what it does not declare":            {rule: "answer.unread"},
		"adds and removes in turn":                  {rule: "object.idempotent"},
		"adds a toleration that Kubernetes refuses": {rule: "object.valid"},
		"gives pods the network of the node":        {rule: "object.isolation"},
		"replaces a structure as a whole":           {rule: "object.unknown"},
		"answers what is not JSON":                  {rule: "input.broken"},
		"crashes over short input":                  {rule: "input.broken"},
		"crashes over a number where text belongs":  {rule: "input.types"},
		"crashes over many labels":                  {rule: "input.large"},
		"is slow":                                   {rule: "budget.ordinary"},
		"accepts all settings":                      {rule: "settings.refused"},
		"crashes over long settings":                {rule: "settings.completes"},
		"refuses settings and uses them":            {rule: "settings.request"},
	}
}

// wasm reads the module of the mutant.
func wasm(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("mutants", strings.ReplaceAll(name, " ", "-")+".wasm"))
	require.NoError(t, err)
	return data
}

// rulesOf returns the rules with findings.
func rulesOf(report *suite.Report) []string {
	var found []string
	for i := range report.Findings {
		found = append(found, report.Findings[i].Rule)
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// A module with one mistake has findings of one rule, with the sentence of the contract.
func TestEachMistakeIsFoundByItsRule(t *testing.T) {
	cache := t.TempDir()
	files, err := filepath.Glob("mutants/*.wasm")
	require.NoError(t, err)
	assert.Len(t, files, len(mutants()), "each module is tested")
	for name, m := range mutants() {
		t.Run(name, func(t *testing.T) {
			report, err := suite.Conform(t.Context(), wasm(t, name), suite.Options{CacheDir: cache, Vectors: m.vectors})
			require.NoError(t, err)
			found := slices.DeleteFunc(rulesOf(report), func(rule string) bool { return rule == "input.shape" })
			require.Equal(t, []string{m.rule}, found, "%+v", report.Findings)
			at := slices.IndexFunc(suite.Rules(), func(r suite.Rule) bool { return r.ID == m.rule })
			assert.Equal(t, suite.Rules()[at].Advice, report.Conforms)
			for i := range report.Findings {
				if f := &report.Findings[i]; f.Rule == m.rule {
					assert.Equal(t, suite.Rules()[at].Sentence, f.Sentence)
				}
			}
		})
	}
}

// The policy itself has one finding, which is advice.
func TestThePolicyInTheTextFormatConforms(t *testing.T) {
	policy, err := os.ReadFile("../guests/text/policy.wasm")
	require.NoError(t, err)
	for _, strict := range []bool{false, true} {
		report, err := suite.Conform(t.Context(), policy, suite.Options{CacheDir: t.TempDir(), Strict: strict})
		require.NoError(t, err)
		assert.Equal(t, []string{"input.shape"}, rulesOf(report))
		assert.Equal(t, !strict, report.Conforms)
	}
}

// A rule without a module that breaks it does not exist.
func TestEachRuleHasAModuleThatBreaksIt(t *testing.T) {
	broken := map[string]bool{"input.shape": true} // TestThePolicyInTheTextFormatConforms
	for _, m := range mutants() {
		broken[m.rule] = true
	}
	for _, rule := range suite.Rules() {
		assert.True(t, broken[rule.ID], "no module breaks %s", rule.ID)
		delete(broken, rule.ID)
	}
	assert.Empty(t, broken, "these rules do not exist")
}
