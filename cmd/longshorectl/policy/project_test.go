package policy_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
	"github.com/longshore-dev/longshore/conformance/guests"
	"github.com/longshore-dev/longshore/conformance/guests/toolchain"
	"github.com/longshore-dev/longshore/conformance/suite"
	"github.com/longshore-dev/longshore/sdk/contract"
)

const sdk = "../../../sdk"

// projectTest is what the tests of projects in a language do beside the others.
type projectTest struct {
	// next are the commands that init shows.
	next string
	// prepare installs what the project needs, and returns further arguments for make.
	prepare func(t *testing.T, folder string) (arguments []string)
	// atMost are the bytes of the module.
	atMost int64
}

var projectTests = map[string]projectTest{
	"go": {"go mod tidy && make test conform", func(t *testing.T, folder string) []string {
		t.Helper()
		assert.Empty(t, command(t, folder, "gofmt", "-l", "."))
		command(t, folder, "go", "mod", "tidy")
		return nil
	}, 700 << 10},
	"c": {"my-policy\n  make test conform", func(t *testing.T, _ string) []string {
		t.Helper()
		clang, err := toolchain.Clang()
		toolchain.Need(t, err)
		return []string{"CC=" + clang}
	}, 16 << 10},
	"rust": {"my-policy\n  make test conform", func(t *testing.T, _ string) []string {
		t.Helper()
		_, err := toolchain.Rustc(t.Context())
		toolchain.Need(t, err)
		return nil
	}, 24 << 10},
	"assemblyscript": {"npm install && make test conform", prepareAssemblyScript, 16 << 10},
}

// prepareAssemblyScript does what npm install does, without a registry.
func prepareAssemblyScript(t *testing.T, folder string) []string {
	t.Helper()
	installed, err := toolchain.AssemblyScriptModules(guests.AssemblyScript())
	toolchain.Need(t, err)
	var manifest struct{ DevDependencies map[string]string }
	content, err := os.ReadFile(filepath.Join(folder, "package.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(content, &manifest))
	modules := filepath.Join(folder, "node_modules")
	require.NoError(t, os.MkdirAll(filepath.Join(modules, "@longshore"), 0o750))
	local, isLocal := strings.CutPrefix(manifest.DevDependencies["@longshore/policy"], "file:")
	require.True(t, isLocal)
	require.NoError(t, os.Symlink(local, filepath.Join(modules, "@longshore", "policy")))
	content, err = os.ReadFile(filepath.Join(installed, "assemblyscript", "package.json"))
	require.NoError(t, err)
	assert.Contains(t, string(content), `"version": "`+manifest.DevDependencies["assemblyscript"]+`"`, "the tested compiler is the one that the project names")
	return []string{"ASC=node " + filepath.Join(installed, "assemblyscript", "bin", "asc.js")}
}

// An author goes from an empty folder to a conforming module, in each language.
func TestAProjectBuildsTestsAndConforms(t *testing.T) {
	projectsConform(t, func(point contract.Point) bool { return point == contract.PodMutation })
}

// So does an author at the other points.
func TestLongAProjectOfEachPointBuildsTestsAndConforms(t *testing.T) {
	projectsConform(t, func(point contract.Point) bool { return point != contract.PodMutation })
}

func projectsConform(t *testing.T, isTested func(contract.Point) bool) {
	t.Helper()
	if testing.Short() {
		t.Skip("compiles Go guests")
	}
	binary, err := os.Executable()
	require.NoError(t, err)
	for name, tc := range projectTests {
		for _, point := range contract.Points() {
			if !isTested(point) {
				continue
			}
			t.Run(name+"/"+string(point), func(t *testing.T) {
				folder := filepath.Join(t.TempDir(), "my-policy")
				arguments := []string{"init", "my-policy", "--lang", name, "--folder", folder, "--point", string(point)}
				if name == "go" || name == "assemblyscript" {
					arguments = append(arguments, "--sdk", sdk)
				}
				out, code, message := run(t, "", arguments...)
				require.Equal(t, output.CodeDone, code, message)
				assert.Contains(t, out, tc.next)
				targets := []string{"build", "LONGSHORECTL=env " + asCommand + "=yes " + binary}
				if name == "go" || point == contract.PodMutation {
					targets = append(targets, "test") // the suite below asks the others the golden cases
				}
				made := command(t, folder, "make", append(targets, tc.prepare(t, folder)...)...)
				assert.NotContains(t, made, "warning")
				conforms(t, folder, point, tc.atMost)
			})
		}
	}
}

// command runs a program in a folder, and returns what it printed.
func command(t *testing.T, folder, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = folder
	text, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", text)
	return string(text)
}

// conforms runs the suite with the project's golden cases on its module.
func conforms(t *testing.T, folder string, point contract.Point, atMost int64) {
	t.Helper()
	out, code, message := run(t, "", "conform", filepath.Join(folder, "module.wasm.gz"), "--vectors", filepath.Join(folder, "vectors"), "--strict", "-o", "json")
	require.Equal(t, output.CodeDone, code, "%s%s", message, out)
	var report suite.Report
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	assert.True(t, report.Conforms)
	assert.Equal(t, 1, report.Vectors)
	assert.Equal(t, "my-policy", report.Module.Name)
	spec, err := os.ReadFile(filepath.Join(folder, "policy.yaml"))
	require.NoError(t, err)
	assert.Contains(t, string(spec), "points: ["+string(point)+"]")
	at := slices.IndexFunc(report.Checks, func(c suite.RuleResult) bool { return c.Rule == "answer.vector" })
	assert.Equal(t, suite.Counts{Passed: 1}, report.Checks[at].Counts)
	module, err := os.Stat(filepath.Join(folder, "module.wasm.gz"))
	require.NoError(t, err)
	assert.Less(t, module.Size(), atMost)
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
		"an unknown extension point":     {[]string{"mine", "--sdk", sdk, "--point", "Scheduling"}, output.CodeUsage, `invalid --point "Scheduling": the extension points are MetadataFilter`},
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
