package rig_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/hack/demo/rig"
	"github.com/longshore-dev/longshore/hack/demo/rig/tutorial"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
)

// firstPolicy is docs/tutorials/first-policy.md, command by command.
func firstPolicy(t *testing.T, r *rig.Rig) {
	top, demo := topOf(t), t.TempDir()
	runDocument(t, r, document(t, filepath.Join(top, "docs", "tutorials", "first-policy.md")), top, demo)
}

// writePolicy is docs/tutorials/write-a-policy.md, command by command, from an empty folder to a changed
// pod.
func writePolicy(t *testing.T, r *rig.Rig) {
	top, demo := topOf(t), t.TempDir()
	start := time.Now()
	runDocument(t, r, document(t, filepath.Join(top, "docs", "tutorials", "write-a-policy.md")), top, demo)
	t.Logf("from an empty folder to a changed pod, and back: %.0f s", time.Since(start).Seconds())
}

// readmePolicy runs the commands of README.md that switch a policy off.
func readmePolicy(t *testing.T, r *rig.Rig) {
	const title = "\n### Switch a policy off\n"
	content := document(t, filepath.Join(topOf(t), "README.md"))
	from := strings.Index(content, title)
	require.NotEqual(t, -1, from, "the README has a section %q", title)
	end := strings.Index(content[from+len(title):], "\n## ")
	require.NotEqual(t, -1, end, "another section follows")
	section := content[from : from+len(title)+end]
	// As many lines before it as there are in the README, for messages.
	dir := t.TempDir()
	runDocument(t, r, strings.Repeat("\n", strings.Count(content[:from], "\n"))+section, dir, filepath.Join(dir, ".demo"))
	setMode(t, r, "default-antiaffinity", policyv1alpha1.ModeEnforce)
}

func topOf(t *testing.T) string {
	t.Helper()
	top, err := filepath.Abs(filepath.Join("..", "..", ".."))
	require.NoError(t, err)
	return top
}

func document(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(content)
}

// runDocument runs the commands of a document in a folder, with the files of the demo in
// another, which it makes.
func runDocument(t *testing.T, r *rig.Rig, document, dir, demo string) {
	t.Helper()
	_, err := rig.LinkKubectl(t.Context(), filepath.Join(demo, "bin"))
	require.NoError(t, err)
	_, err = r.WriteKubeconfigs(demo)
	require.NoError(t, err)
	blocks, err := tutorial.Parse(document)
	require.NoError(t, err)
	require.NotEmpty(t, blocks)
	shell, err := tutorial.Start(t.Context(), dir, t.TempDir(), "DEMO="+demo)
	require.NoError(t, err)
	for _, block := range blocks {
		if block.Kind != tutorial.Skip && !runBlock(t, shell, block) {
			break
		}
	}
	require.NoError(t, shell.Close())
}

func runBlock(t *testing.T, shell *tutorial.Shell, block tutorial.Block) bool {
	t.Helper()
	var output string
	var broken error // the shell's own end, after which there is nothing to try again
	run := func() bool {
		var ok bool
		output, ok, broken = shell.Run(block.Commands)
		return broken != nil || ok == (block.Kind != tutorial.Refused) && block.Matches(output)
	}
	good := run()
	if !good && block.Kind == tutorial.Until {
		good = assert.Eventually(t, run, patience, 10*every, "line %d", block.Line)
	}
	require.NoError(t, broken, "line %d", block.Line)
	return assert.True(t, good, "line %d: %s\n--- wrote\n%s\n--- instead of\n%s", block.Line, strings.TrimSpace(block.Commands), output, block.Output)
}
