package suite_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/longshore-dev/longshore/conformance/guests"
	"github.com/longshore-dev/longshore/conformance/guests/toolchain"
	"github.com/longshore-dev/longshore/conformance/suite"
	"github.com/longshore-dev/longshore/conformance/vectors"
	"github.com/longshore-dev/longshore/sdk/contract"
)

func TestBuiltinsConform(t *testing.T) {
	all, err := vectors.All()
	require.NoError(t, err)
	suite.Run(t, builtinModule(t), suite.Options{Vectors: all, CacheDir: t.TempDir(), Strict: true, BuiltIn: true})
}

// Every example policy conforms, and answers its own vectors.
func TestPluginsConform(t *testing.T) {
	files, err := filepath.Glob("../../plugins/*/plugin.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		folder := filepath.Dir(file)
		t.Run(filepath.Base(folder), func(t *testing.T) {
			own, err := vectors.Read(os.DirFS(filepath.Join(folder, "vectors")))
			require.NoError(t, err)
			require.NotEmpty(t, own, "a plugin shows by vectors what it does")
			wasm := buildPlugin(t, filepath.Base(folder))
			assertDescribed(t, file, wasm)
			suite.Run(t, wasm, suite.Options{Vectors: own, CacheDir: t.TempDir(), Strict: true})
		})
	}
}

// assertDescribed compares plugin.yaml with the manifest of the module.
func assertDescribed(t *testing.T, file string, wasm []byte) {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	var described struct {
		Name, Version, Summary, License string
		Points                          []contract.Point
	}
	require.NoError(t, yaml.UnmarshalStrict(data, &described))
	host, err := suite.NewLongshore(t.Context(), wasm, suite.Options{CacheDir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, host.Close(context.WithoutCancel(t.Context()))) })
	manifest := host.Manifest()
	assert.Equal(t, []string{manifest.Name, manifest.Version}, []string{described.Name, described.Version})
	points := make([]contract.Point, len(manifest.Points))
	for i := range manifest.Points {
		points[i] = manifest.Points[i].Point
	}
	assert.Equal(t, points, described.Points)
	assert.NotEmpty(t, described.Summary)
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
