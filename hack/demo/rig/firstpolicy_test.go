package rig_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/hack/demo/rig"
	"github.com/longshore-dev/longshore/hack/demo/rig/tutorial"
)

// firstPolicy is docs/tutorials/first-policy.md, command by command.
func firstPolicy(t *testing.T, r *rig.Rig) {
	top, err := filepath.Abs(filepath.Join("..", "..", ".."))
	require.NoError(t, err)
	demo := t.TempDir()
	_, err = r.WriteKubeconfigs(demo)
	require.NoError(t, err)
	_, err = rig.LinkKubectl(t.Context(), filepath.Join(demo, "bin"))
	require.NoError(t, err)

	content, err := os.ReadFile(filepath.Join(top, "docs", "tutorials", "first-policy.md"))
	require.NoError(t, err)
	blocks, err := tutorial.Parse(string(content))
	require.NoError(t, err)
	shell, err := tutorial.Start(t.Context(), top, t.TempDir(), "DEMO="+demo)
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
	run := func() bool {
		var ok bool
		var err error
		output, ok, err = shell.Run(block.Commands)
		return assert.NoError(t, err) && ok == (block.Kind != tutorial.Refused) && block.Matches(output)
	}
	good := run()
	if !good && block.Kind == tutorial.Until {
		good = assert.Eventually(t, run, patience, 10*every, "line %d", block.Line)
	}
	return assert.True(t, good, "line %d: %s\n--- wrote\n%s\n--- instead of\n%s", block.Line, strings.TrimSpace(block.Commands), output, block.Output)
}
