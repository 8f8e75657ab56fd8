package policy_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
	"github.com/longshore-dev/longshore/cmd/longshorectl/policy"
)

const sdk = "../../../sdk"

// An author goes from an empty folder to a conforming module.
func TestAProjectBuildsTestsAndConforms(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles a Go guest")
	}
	folder := filepath.Join(t.TempDir(), "my-policy")
	out, code, message := run(t, "", "init", "my-policy", "--sdk", sdk, "--folder", folder)
	require.Equal(t, output.CodeDone, code, message)
	assert.Contains(t, out, "go mod tidy && make test conform")
	command := func(env []string, name string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir, cmd.Env = folder, append(os.Environ(), env...)
		text, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", text)
	}
	command(nil, "gofmt", "-l", ".")
	command(nil, "go", "mod", "tidy")
	command(nil, "go", "vet", "./...")
	command(nil, "go", "test", "./...")
	command(nil, "make", "build")
	out, code, message = run(t, "", "conform", filepath.Join(folder, "module.wasm.gz"), "--vectors", filepath.Join(folder, "vectors"), "--strict", "-o", "json")
	require.Equal(t, output.CodeDone, code, "%s%s", message, out)
	var report policy.ConformanceReport
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	assert.True(t, report.Conforms)
	assert.Equal(t, 1, report.Vectors)
	assert.Equal(t, "my-policy", report.Module.Name)
	assert.Contains(t, report.Checks, policy.ConformanceCheck{Check: "vector", Passed: 1})
	module, err := os.Stat(filepath.Join(folder, "module.wasm.gz"))
	require.NoError(t, err)
	assert.Less(t, module.Size(), int64(700<<10), "a policy in standard Go fits a ConfigMap")
}

func TestInitRefuses(t *testing.T) {
	full := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(full, "notes.txt"), []byte("mine"), 0o600))
	cases := map[string]struct {
		args []string
		code int
		want string
	}{
		"no name":                        {[]string{"--sdk", sdk}, output.CodeUsage, "want one name"},
		"a name that Kubernetes refuses": {[]string{"My_Policy", "--sdk", sdk}, output.CodeUsage, `invalid name "My_Policy"`},
		"no SDK":                         {[]string{"mine"}, output.CodeUsage, "--sdk is missing"},
		"a folder that is not the SDK":   {[]string{"mine", "--sdk", t.TempDir()}, output.CodeUsage, "no go.mod of Longshore's SDK"},
		"a language without a project":   {[]string{"mine", "--sdk", sdk, "--lang", "cobol"}, output.CodeUsage, `invalid --lang "cobol"`},
		"a folder with files":            {[]string{"mine", "--sdk", sdk, "--folder", full}, output.CodeFailed, "is not empty"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, code, message := run(t, "", append([]string{"init"}, tc.args...)...)
			assert.Equal(t, tc.code, code)
			assert.Contains(t, message, tc.want)
		})
	}
	entries, err := os.ReadDir(full)
	require.NoError(t, err)
	assert.Len(t, entries, 1, "nothing is written into a folder with files")
}

func TestConform(t *testing.T) {
	cases := map[string]struct {
		module guest
		code   int
		want   []string
	}{
		"a module that ignores what it is asked answers garbage": {
			guest{answer: labels("red")}, output.CodeModule,
			[]string{"CHECK", "deterministic", "failed  garbage is an error: PodMutation, text", "The module does not conform."},
		},
		"a module that writes what it did not declare": {
			guest{answer: `{"version":"v1alpha1","operations":[{"op":"merge","path":"/metadata/annotations","value":{"a":"b"}}]}`}, output.CodeModule,
			[]string{"failed  inside its writes", "/metadata/annotations"},
		},
		"a module that a cluster refuses": {
			guest{imports: `(import "env" "open" (func (param i32)))`, answer: labels("red")}, output.CodeModule,
			[]string{"failed  accepted: load", "env.open"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			out, code, message := run(t, "", "conform", tc.module.build(t))
			assert.Equal(t, tc.code, code, message)
			for _, want := range tc.want {
				assert.Contains(t, out, want)
			}
		})
	}
	_, code, message := run(t, "", "conform", guest{answer: labels("red")}.build(t), "--vectors", t.TempDir())
	assert.Equal(t, output.CodeFailed, code)
	assert.Contains(t, message, "the folder has no .json files")
}
