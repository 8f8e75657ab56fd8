package testkit

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	builtinpolicies "github.com/longshore-dev/longshore/builtin-policies"
)

// PolicyCache returns a compilation cache that all test runs share, because compiling the built-in
// module takes seconds. It fails the test at once, with the command that builds the module, if the
// module is missing: a component would wait for its policies until the test times out.
func PolicyCache(tb testing.TB) string {
	tb.Helper()
	_, err := builtinpolicies.Module()
	require.NoError(tb, err)
	dir, err := os.UserCacheDir()
	require.NoError(tb, err)
	dir = filepath.Join(dir, "longshore", "test-policies")
	require.NoError(tb, os.MkdirAll(dir, 0o700))
	return dir
}
