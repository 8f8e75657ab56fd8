package testcheck

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A failure in one module must not hide the results of the others.
func TestMakeTestsEveryModuleAndNamesThoseThatFail(t *testing.T) {
	for _, target := range []string{"test", "test-fast"} {
		t.Run(target, func(t *testing.T) {
			dir := t.TempDir()
			calls := filepath.Join(dir, "calls")
			fake := filepath.Join(dir, "go")
			script := "#!/bin/sh\nbasename \"$PWD\" >> " + calls + "\necho \"output of $(basename \"$PWD\")\"\ncase $(basename \"$PWD\") in sdk|plugins) exit 1;; esac\n"
			require.NoError(t, os.WriteFile(fake, []byte(script), 0o700))
			// What the target needs is built by other targets, which are not run (-o).
			cmd := exec.CommandContext(t.Context(), "make", "-o", "build", "-o", "builtins", "-o", "plugins", target, "GO="+fake, "TESTED=sdk plugins conformance")
			cmd.Dir = filepath.Join("..", "..")
			// A make that runs this test must not share its flags and its job server.
			cmd.Env = append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=")
			out, err := cmd.CombinedOutput()
			require.Error(t, err, string(out))
			assert.Regexp(t, "tests failed in: (sdk plugins|plugins sdk)\n", string(out))
			assert.Contains(t, string(out), "output of conformance\n")
			content, err := os.ReadFile(calls)
			require.NoError(t, err, string(out))
			assert.ElementsMatch(t, []string{"sdk", "plugins", "conformance"}, strings.Fields(string(content)))
		})
	}
}
