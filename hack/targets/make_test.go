// Package targets tests the targets of the Makefile, and the workflows that run them.
package targets

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
			assert.Regexp(t, `left out: \d+ tests that take long or measure time; run them with: make test-long\n`, string(out))
			content, err := os.ReadFile(calls)
			require.NoError(t, err, string(out))
			assert.ElementsMatch(t, []string{"sdk", "plugins", "conformance"}, strings.Fields(string(content)))
		})
	}
}

// The packages that take long are tested beside the others, and each package once.
func TestMakeTestsEachPackageOnce(t *testing.T) {
	dir := t.TempDir()
	calls, fake := filepath.Join(dir, "calls"), filepath.Join(dir, "go")
	const module = "github.com/longshore-dev/longshore"
	script := "#!/bin/sh\ncase $1 in list) echo " + module + "/cmd; echo " + module + "/host; echo " + module + "/host/app; echo " + module + "/hack/demo/rig;; *) echo \"$(basename \"$PWD\") $*\" >> " + calls + ";; esac\n"
	require.NoError(t, os.WriteFile(fake, []byte(script), 0o700))
	cmd := exec.CommandContext(t.Context(), "make", "-o", "builtins", "test-fast", "GO="+fake, "TESTED=. hack/demo sdk")
	root, err := filepath.Abs(filepath.Join("..", ".."))
	require.NoError(t, err)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	content, err := os.ReadFile(calls)
	require.NoError(t, err)
	const test = " test -vet=off -skip ^TestLong -short -timeout 10m "
	assert.ElementsMatch(t, []string{
		"host" + test + module + "/cmd " + module + "/host " + module + "/hack/demo/rig", "app" + test + "./...",
		"demo" + test + module + "/cmd " + module + "/host " + module + "/host/app", "rig" + test + "-parallel 3 ./...",
		filepath.Base(root) + test + module + "/cmd " + module + "/hack/demo/rig", "sdk" + test + "./...",
	}, strings.Split(strings.TrimSpace(string(content)), "\n"), "the list is the same in each folder here")
}

// A finding of the linter must not hide the results of the tests.
func TestMakeCIRunsEveryTargetAndNamesThoseThatFail(t *testing.T) {
	dir := t.TempDir()
	calls := filepath.Join(dir, "calls")
	script := "#!/bin/sh\necho \"$(basename \"$PWD\") $*\" >> " + calls + "\n" +
		"case \"$(basename \"$PWD\") $*\" in 'sdk tool '*golangci-lint*|*' test '*' -race -short '*|*' verify') exit 1;; esac\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go"), []byte(script), 0o700))
	// The tree of who runs this test may have changes.
	require.NoError(t, os.WriteFile(filepath.Join(dir, "git"), []byte("#!/bin/sh\n"), 0o700))
	cmd := exec.CommandContext(t.Context(), "make", "ci", "GO="+filepath.Join(dir, "go"), "TESTED=sdk plugins")
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=", "PATH="+dir+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	require.Error(t, err, string(out))
	assert.Contains(t, string(out), "\nfailed: verify test-race or lint\n")
	for target, line := range map[string]string{"lint": "go vet or lint failed in: sdk\n", "test-race": "tests failed in: host\n"} {
		assert.Contains(t, string(out), line, target)
	}
	content, err := os.ReadFile(calls)
	require.NoError(t, err, string(out))
	for _, call := range []string{"plugins mod tidy -diff", "kubernetes vet -trimpath ./...", "sdk test -vet=off -skip ^TestLong -race ./...", "sdk test -vet=off -skip ^TestLong -p 1 -timeout 40m ./...", "plugins test -vet=off -skip ^TestLong -p 1 -timeout 40m ./..."} {
		assert.Contains(t, string(content), call+"\n")
	}
}
