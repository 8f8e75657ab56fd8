package targets

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

var (
	pinned  = regexp.MustCompile(`^[\w./-]+@[0-9a-f]{40}$`)
	makeRun = regexp.MustCompile(`(?m)^\s*make ([a-z-]+)`)
)

// A workflow runs no code that can change under its name, its scripts are those of a shell, and its
// make targets exist.
func TestWorkflowsAreSound(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", ".github", "workflows", "*.yaml"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	makefile, err := os.ReadFile(filepath.Join("..", "..", "Makefile"))
	require.NoError(t, err)
	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		var workflow struct {
			Jobs map[string]struct {
				Strategy struct {
					Matrix struct {
						Include []struct{ Target, Lanes string } `json:"include"`
					} `json:"matrix"`
				} `json:"strategy"`
				Steps []struct {
					Name string `json:"name"`
					Uses string `json:"uses"`
					Run  string `json:"run"`
				} `json:"steps"`
			} `json:"jobs"`
		}
		require.NoError(t, yaml.Unmarshal(raw, &workflow), file)
		targets := 0
		lanes := map[string][]string{}
		for _, job := range workflow.Jobs {
			for _, part := range job.Strategy.Matrix.Include {
				lanes[part.Target] = append(lanes[part.Target], strings.Fields(part.Lanes)...)
			}
			for _, step := range job.Steps {
				assert.True(t, step.Uses == "" || pinned.MatchString(step.Uses), "%s: %q is not pinned by digest", file, step.Uses)
				if step.Run != "" {
					cmd := exec.CommandContext(t.Context(), "bash", "-n", "-c", step.Run)
					out, err := cmd.CombinedOutput()
					require.NoError(t, err, "%s: %s: %s", file, step.Name, out)
				}
				assert.NotContains(t, step.Run, "${{", "%s: %s: expressions in a script are a way to inject commands: use env", file, step.Name)
				for _, match := range makeRun.FindAllStringSubmatch(step.Run, -1) {
					targets++
					assert.Regexp(t, `(?m)^`+match[1]+`:`, string(makefile), file)
				}
			}
		}
		if filepath.Base(file) == "ci.yaml" {
			runsAllOfCI(t, lanes)
			continue
		}
		assert.NotZero(t, targets, file)
	}
}

// runsAllOfCI expects the targets of make ci, and each lane of the tests once.
func runsAllOfCI(t *testing.T, lanes map[string][]string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "make", "--eval=print-lanes: ; @echo $(LANES)", "print-lanes")
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=")
	out, err := cmd.Output()
	require.NoError(t, err)
	assert.ElementsMatch(t, strings.Fields(string(out)), lanes["test"])
	assert.ElementsMatch(t, []string{"verify", "lint", "test-race", "test"}, slices.Collect(maps.Keys(lanes)))
}
