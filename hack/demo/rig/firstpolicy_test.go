package rig_test

import (
	"context"
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
	startReader(t, r, topOf(t), t.TempDir()).follows(t, "docs/tutorials/first-policy.md")
}

// writePolicy is docs/tutorials/write-a-policy.md, command by command, from an empty folder to a changed
// pod.
func writePolicy(t *testing.T, r *rig.Rig) {
	start := time.Now()
	startReader(t, r, topOf(t), t.TempDir()).follows(t, "docs/tutorials/write-a-policy.md")
	t.Logf("from an empty folder to a changed pod, and back: %.0f s", time.Since(start).Seconds())
}

// readmePolicy runs the commands of README.md that switch a policy off.
func readmePolicy(t *testing.T, r *rig.Rig) {
	dir := t.TempDir()
	startReader(t, r, dir, filepath.Join(dir, ".demo")).follows(t, "README.md", "### Switch a policy off")
	setMode(t, r, "default-antiaffinity", policyv1alpha1.ModeEnforce)
}

func topOf(t *testing.T) string {
	t.Helper()
	top, err := filepath.Abs(filepath.Join("..", "..", ".."))
	require.NoError(t, err)
	return top
}

// reader runs the commands of documents in one shell, which keeps variables and the folder.
type reader struct {
	dir   string
	shell *tutorial.Shell
}

// startReader starts a reader in a folder, with the files of the demo in another, which it makes: the
// kubeconfigs, and a folder with kubectl, longshorectl and helm. They use rome.
func startReader(t *testing.T, r *rig.Rig, dir, demo string) *reader {
	t.Helper()
	bin := filepath.Join(demo, "bin")
	_, err := rig.LinkKubectl(t.Context(), bin)
	require.NoError(t, err)
	require.NoError(t, os.Symlink(filepath.Join(topOf(t), "bin", "longshorectl"), filepath.Join(bin, "longshorectl")))
	_, err = r.WriteKubeconfigs(demo)
	require.NoError(t, err)
	linkHelm(t, r, demo)
	// It is closed after the end of the test's context.
	shell, err := tutorial.Start(context.WithoutCancel(t.Context()), dir, t.TempDir(), "DEMO="+demo,
		"PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "KUBECONFIG="+filepath.Join(demo, rig.Consumer+".kubeconfig"))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, shell.Close()) })
	return &reader{dir: dir, shell: shell}
}

// startHowTos starts a reader of docs/howto at the top of a clone: its files are in a folder of the
// reader's own, beside the kubeconfigs and links to what the clone has.
func startHowTos(t *testing.T, r *rig.Rig) *reader {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"charts", "docs"} {
		require.NoError(t, os.Symlink(filepath.Join(topOf(t), name), filepath.Join(dir, name)))
	}
	return startReader(t, r, dir, dir)
}

// follows runs the commands of a document, or of the sections with these headings, and compares what
// they write with the document. The test ends at the first command that fails.
func (r *reader) follows(t *testing.T, document string, headings ...string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(topOf(t), filepath.FromSlash(document)))
	require.NoError(t, err)
	text, err := tutorial.Sections(string(content), headings...)
	require.NoError(t, err, document)
	blocks, err := tutorial.Parse(text)
	require.NoError(t, err, document)
	run := 0
	for _, block := range blocks {
		if block.Kind != tutorial.Skip {
			runBlock(t, r.shell, document, block)
			run++
		}
	}
	require.NotZero(t, run, "%s has commands in %q", document, headings)
}

// runs runs commands that are not in a document: what its reader has done before, or does afterwards.
func (r *reader) runs(t *testing.T, commands string) {
	t.Helper()
	runBlock(t, r.shell, "the test", tutorial.Block{Commands: commands})
}

func runBlock(t *testing.T, shell *tutorial.Shell, document string, block tutorial.Block) {
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
		good = assert.Eventually(t, run, patience, 10*every, "%s:%d", document, block.Line)
	}
	require.NoError(t, broken, "%s:%d", document, block.Line)
	require.True(t, good, "%s:%d: %s\n--- wrote\n%s\n--- instead of\n%s", document, block.Line, strings.TrimSpace(block.Commands), output, block.Output)
}
