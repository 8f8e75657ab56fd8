package guests_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/conformance/guests"
	"github.com/longshore-dev/longshore/conformance/guests/toolchain"
	"github.com/longshore-dev/longshore/conformance/suite"
	"github.com/longshore-dev/longshore/conformance/vectors"
)

// The policy "gate" answers the points without a default policy alike in C and AssemblyScript.
func TestTheGateInEachLanguage(t *testing.T) {
	cases, err := vectors.Of("gate")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(cases), 11)
	for name, build := range map[string]func(*testing.T) ([]byte, error){
		"c": func(t *testing.T) ([]byte, error) {
			source, err := os.ReadFile("gate/policy.c")
			require.NoError(t, err)
			return toolchain.C(t.Context(), source)
		},
		"assemblyscript": func(t *testing.T) ([]byte, error) {
			return toolchain.AssemblyScript(t.Context(), guests.Pinned{FS: os.DirFS("gate")}, "policy", "~lib/@longshore/policy/index/stop")
		},
	} {
		t.Run(name, func(t *testing.T) {
			wasm, err := build(t)
			toolchain.Need(t, err)
			report, err := suite.Conform(t.Context(), wasm, suite.Options{Vectors: cases, Strict: true})
			require.NoError(t, err)
			assert.Empty(t, report.Findings)
			assert.True(t, report.Conforms)
			assert.Equal(t, len(cases), report.Vectors)
			assert.Less(t, len(wasm), 32_000)
		})
	}
}
