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

// The policy "gate" answers the points without a default policy alike in C, AssemblyScript and Rust.
func TestTheGateInEachLanguage(t *testing.T) {
	cases, err := vectors.Of("gate")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(cases), 11)
	for name, tc := range map[string]struct {
		build  func(*testing.T) ([]byte, error)
		atMost int
	}{
		"c": {func(t *testing.T) ([]byte, error) {
			t.Helper()
			source, err := os.ReadFile("gate/policy.c")
			require.NoError(t, err)
			return toolchain.C(t.Context(), source)
		}, 32_000},
		"assemblyscript": {func(t *testing.T) ([]byte, error) {
			t.Helper()
			return toolchain.AssemblyScript(t.Context(), guests.Pinned{FS: os.DirFS("gate")}, "policy", "~lib/@longshore/policy/index/stop")
		}, 32_000},
		// The panics of Rust's library have texts.
		"rust": {func(t *testing.T) ([]byte, error) {
			t.Helper()
			source, err := os.ReadFile("gate/policy.rs")
			require.NoError(t, err)
			return toolchain.Rust(t.Context(), source)
		}, 48_000},
	} {
		t.Run(name, func(t *testing.T) {
			wasm, err := tc.build(t)
			toolchain.Need(t, err)
			report, err := suite.Conform(t.Context(), wasm, suite.Options{Vectors: cases, Strict: true})
			require.NoError(t, err)
			assert.Empty(t, report.Findings)
			assert.True(t, report.Conforms)
			assert.Equal(t, len(cases), report.Vectors)
			assert.Less(t, len(wasm), tc.atMost)
		})
	}
}
