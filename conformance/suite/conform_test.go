package suite_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/conformance/guests"
	"github.com/longshore-dev/longshore/conformance/guests/toolchain"
	"github.com/longshore-dev/longshore/conformance/suite"
	"github.com/longshore-dev/longshore/conformance/vectors"
	"github.com/longshore-dev/longshore/host/policy/fuel/wasmtest"
)

func TestBuiltinsConform(t *testing.T) {
	all, err := vectors.All()
	require.NoError(t, err)
	suite.Run(t, builtinModule(t), suite.Options{Vectors: all, CacheDir: t.TempDir(), Strict: true})
}

// Every example policy conforms, and answers its own vectors.
func TestPluginsConform(t *testing.T) {
	mains, err := filepath.Glob("../../plugins/*/main.go")
	require.NoError(t, err)
	require.NotEmpty(t, mains)
	for _, main := range mains {
		folder := filepath.Dir(main)
		t.Run(filepath.Base(folder), func(t *testing.T) {
			own, err := vectors.Read(os.DirFS(filepath.Join(folder, "vectors")))
			require.NoError(t, err)
			require.NotEmpty(t, own, "a plugin shows by vectors what it does")
			suite.Run(t, buildPlugin(t, filepath.Base(folder)), suite.Options{Vectors: own, CacheDir: t.TempDir(), Strict: true})
		})
	}
}

// A policy in each language that there is a compiler for conforms as well.
func TestGuestsConform(t *testing.T) {
	for _, guest := range guests.All() {
		t.Run(guest.Name, func(t *testing.T) {
			if testing.Short() && !guest.Small {
				t.Skip("compiles a Go runtime")
			}
			suite.Run(t, guest.Wasm(t), suite.Options{CacheDir: t.TempDir()})
		})
	}
}

// Natively it answers the same vectors in its own folder.
func TestTheGuestOfResourceMutationConforms(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles for wasip1")
	}
	const folder = "../guests/resource"
	own, err := vectors.Read(os.DirFS(filepath.Join(folder, "vectors")))
	require.NoError(t, err)
	require.NotEmpty(t, own)
	wasm, err := toolchain.Go(t.Context(), folder)
	require.NoError(t, err)
	suite.Run(t, wasm, suite.Options{Vectors: own, CacheDir: t.TempDir(), Strict: true})
}

func TestConformFindsWhatALiarDoes(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles for wasip1")
	}
	wrong := vectors.Vector{
		Name: "own", Description: "d", Origin: "o",
		Request:  []byte(`{"version":"v1alpha1","point":"PodMutation","facts":{}}`),
		Response: []byte(`{"version":"v1alpha1"}`),
	}
	results, err := suite.Conform(t.Context(), wasmtest.BuildGo(t, "testdata/liar"), suite.Options{Vectors: []vectors.Vector{wrong}, CacheDir: t.TempDir()})
	require.NoError(t, err)
	found := map[string]string{}
	for _, result := range results {
		if result.Err != nil {
			found[result.Check+": "+result.Name] = result.Err.Error()
		}
	}
	for check, want := range map[string]string{
		"vector: own": `want {"version":"v1alpha1"}`,
		"same in stock Extism: metadatafilter/reserved":   "/metadata/labels",
		"inside its writes: offloadingpatch/nodeselector": "set /spec/runtimeClassName is not allowed, only",
		"idempotent: podmutation/local":                   `made {`,
	} {
		assert.Contains(t, found[check], want, check)
		delete(found, check)
	}
	for check := range found {
		assert.Regexp(t, `^(same in stock Extism: metadatafilter/|inside its writes: offloadingpatch/|idempotent: (podmutation/|own))`, check, "nothing else is wrong with it")
	}
}

func TestConformTellsThatAModuleCannotBeLoaded(t *testing.T) {
	_, err := suite.Conform(t.Context(), []byte("no module"), suite.Options{})
	require.ErrorContains(t, err, "loading the module")
}
