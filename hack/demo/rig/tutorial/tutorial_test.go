package tutorial_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/hack/demo/rig/tutorial"
)

func fenced(info, content string) string { return "```" + info + "\n" + content + "\n```\n" }

func TestParse(t *testing.T) {
	document := "# Title\n" + fenced("sh", "echo a") + "\nprose\n\n" + fenced("text", "a") + fenced("sh refused", "false") + fenced("sh skip build", "make")
	blocks, err := tutorial.Parse(document)
	require.NoError(t, err)
	assert.Equal(t, []tutorial.Block{
		{Line: 3, Commands: "echo a", Output: "a"}, {Line: 12, Kind: tutorial.Refused, Commands: "false"},
		{Line: 15, Kind: tutorial.Skip, Commands: "make"},
	}, blocks)

	blocks, err = tutorial.Parse("1. Do:\n   ```sh\n   echo a\n     b\n\n   ```\n" + fenced("go", "a()") + fenced("yaml", "a: b"))
	require.NoError(t, err)
	assert.Equal(t, []tutorial.Block{{Line: 3, Commands: "echo a\n  b\n"}}, blocks, "a block of a list; fragments are part of the text")

	for name, document := range map[string]string{
		"a block without an end":   "```sh\necho",
		"output of nothing":        fenced("text", "a"),
		"two outputs of one block": fenced("sh", "echo a") + fenced("text", "a") + fenced("text", "a"),
		"an unknown kind":          fenced("sh sometimes", "echo a"),
		"two kinds":                fenced("sh refused until", "echo a"),
		"skipped without a reason": fenced("sh skip", "echo a"),
	} {
		_, err := tutorial.Parse(document)
		assert.Error(t, err, name)
	}
}

func TestSections(t *testing.T) {
	document := "# Title\na\n## One\nb\n" + fenced("sh", "# no heading\nc") + "### Two\nd\n## Three\ne"
	for name, tc := range map[string]struct {
		headings []string
		want     string
	}{
		"all":                     {nil, document},
		"the beginning":           {[]string{"# Title"}, "# Title\na\n\n\n\n\n\n\n\n\n\n"},
		"a section with a block":  {[]string{"## One"}, "\n\n## One\nb\n" + fenced("sh", "# no heading\nc") + "\n\n\n"},
		"two, in their own order": {[]string{"## Three", "### Two"}, "\n\n\n\n\n\n\n\n### Two\nd\n## Three\ne"},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := tutorial.Sections(document, tc.headings...)
			require.NoError(t, err)
			assert.Equal(t, tc.want, text)
		})
	}
	_, err := tutorial.Sections(document, "## One", "## Four")
	assert.ErrorContains(t, err, "1 of the headings")
}

func TestAFileOfTheReaderIsWritten(t *testing.T) {
	blocks, err := tutorial.Parse(fenced("yaml web.yaml", "name: $HOME\n\nlist:\n- it's") + fenced("sh", "cat web.yaml") + fenced("text", "name: $HOME\nlist:\n- it's"))
	require.NoError(t, err)
	require.Len(t, blocks, 2)
	shell, err := tutorial.Start(t.Context(), t.TempDir(), t.TempDir())
	require.NoError(t, err)
	for _, block := range blocks {
		output, ok, err := shell.Run(block.Commands)
		require.NoError(t, err)
		assert.True(t, ok)
		assert.True(t, block.Matches(output), output)
	}
	require.NoError(t, shell.Close())
}

func TestMatches(t *testing.T) {
	cases := map[string]struct {
		shown, output string
		want          bool
	}{
		"the same":                      {"a b", "a b\n", true},
		"another layout":                {"a b\nc", "  a    b  \n\nc", true},
		"something else":                {"a b", "a c\n", false},
		"more lines than shown":         {"a", "a\nb\n", false},
		"fewer lines than shown":        {"a\nb", "a\n", false},
		"anything in a line":            {"pod … ready", "pod web-1 is ready\n", true},
		"an ellipsis is within a line":  {"pod … ready", "pod web-1\nready\n", false},
		"no word between words":         {"pod … ready …", "pod ready\n", true},
		"any lines":                     {"a\n…\nd", "a\nb\nc\nd\n", true},
		"no lines are any lines":        {"a\n…", "a\n", true},
		"what regular expressions mean": {"a.b[*]", "aXb*\n", false},
		"nothing shown, anything goes":  {"", "whatever", true},
	}
	for name, tc := range cases {
		block := tutorial.Block{Output: tc.shown}
		assert.Equal(t, tc.want, block.Matches(tc.output), name)
	}
}

func TestShell(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("MAKELEVEL", "1")
	shell, err := tutorial.Start(t.Context(), dir, t.TempDir(), "GREETING=hello")
	require.NoError(t, err)
	steps := []struct {
		commands, output string
		ok               bool
	}{
		{`echo "$GREETING"; name=web`, "hello\n", true},
		{`echo "$MAKELEVEL"`, "\n", true},
		{`echo "$name"; mkdir sub && cd sub`, "web\n", true},
		{"pwd", filepath.Join(dir, "sub") + "\n", true},
		{"false\necho on", "on\n", false},
		{"f() { false; true; }", "", true},
		{"f; true", "", false},
		{"false | cat", "", false},
		{"if false; then echo; fi", "", true},
		{"read answer; echo $answer", "yes\n", true},
		{"read answer; read next; echo $next", "yes\n", true},
		{"cat <<'END'\n$HOME\nEND", "$HOME\n", true},
		{"echo wrong >&2", "wrong\n", true},
	}
	for _, step := range steps {
		output, ok, err := shell.Run(step.commands)
		require.NoError(t, err)
		assert.Equal(t, step.output, output, step.commands)
		assert.Equal(t, step.ok, ok, step.commands)
	}
	require.NoError(t, shell.Close())
}

// Every tutorial can be read, so that no block escapes the test that runs it.
func TestTutorialsParse(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "..", "..", "docs", "tutorials", "*.md"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		blocks, err := tutorial.Parse(string(content))
		require.NoError(t, err, file)
		for _, block := range blocks {
			assert.False(t, block.Kind == tutorial.Until && strings.TrimSpace(block.Output) == "", "%s:%d: until what?", file, block.Line)
		}
	}
}
