package suite_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/conformance/guests"
	"github.com/longshore-dev/longshore/conformance/guests/toolchain"
	"github.com/longshore-dev/longshore/conformance/suite"
	"github.com/longshore-dev/longshore/conformance/vectors"
)

func TestBuiltinsConform(t *testing.T) {
	all, err := vectors.All()
	require.NoError(t, err)
	suite.Run(t, builtinModule(t), suite.Options{Vectors: all, CacheDir: t.TempDir(), Strict: true, BuiltIn: true})
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
