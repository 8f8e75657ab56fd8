package docscheck

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fence begins and ends a block.
const fence = "```"

var headingLine = regexp.MustCompile(`^#{1,6} `)

// run are the sections of a document whose commands hack/demo/rig runs one by one and compares with the
// output shown.
type run struct {
	all      bool
	headings []string
}

func (r run) has(heading string) bool { return r.all || slices.Contains(r.headings, heading) }

// runDocuments are the documents with commands that are run, by their paths: the literals in the calls
// of reader.follows.
func runDocuments(t *testing.T) map[string]run {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "hack/demo/rig/*_test.go"))
	require.NoError(t, err)
	found := map[string]run{}
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		require.NoError(t, err)
		ast.Inspect(file, func(node ast.Node) bool {
			call, isCall := node.(*ast.CallExpr)
			if !isCall {
				return true
			}
			if method, ok := call.Fun.(*ast.SelectorExpr); !ok || method.Sel.Name != "follows" {
				return true
			}
			var texts []string
			for _, argument := range call.Args[1:] {
				literal, ok := argument.(*ast.BasicLit)
				require.True(t, ok, "%s: the arguments of follows are literals", path)
				text, err := strconv.Unquote(literal.Value)
				require.NoError(t, err)
				texts = append(texts, text)
			}
			r := found[texts[0]]
			found[texts[0]] = run{all: r.all || len(texts) == 1, headings: append(r.headings, texts[1:]...)}
			return true
		})
	}
	require.NotEmpty(t, found)
	return found
}

// skipReasons are the words behind "sh skip" that say why no test runs the commands of a block, and
// what such a block contains. TestEveryCommandOfADocumentExists still checks its commands.
var skipReasons = map[string]*regexp.Regexp{
	// Compiles or tests for minutes, or with the compiler of a language that a machine may lack. CI and
	// `make e2e` run these targets, and cmd/longshorectl/policy those of a project in each language.
	"build": regexp.MustCompile(`(?m)^(make|go) `),
	// Needs root. `make e2e` is such a test.
	"root": regexp.MustCompile(`(?m)^(cd .* && )?sudo `),
	// Needs a registry, or the containerd of a node.
	"registry": regexp.MustCompile(`(?m)^(ctr|skopeo) `),
	// Needs containers, with their files or cgroups, which the demo simulates. `make e2e` moves a volume
	// and resizes a pod.
	"containers": regexp.MustCompile(`(?m)^(longshorectl move volume|kubectl patch pod .*--subresource=resize) `),
}

// problemOfBlock returns what is wrong with the words behind ``` of a block, or "".
func problemOfBlock(info, content string, isRun bool) string {
	words := strings.Fields(info)
	switch {
	case len(words) == 0 && regexp.MustCompile(`(?m)^(make|kubectl|longshorectl|helm|sudo) `).MatchString(content):
		return "has commands: write sh behind ```"
	case len(words) == 0 || words[0] != "sh":
		return ""
	case len(words) >= 2 && words[1] == "skip":
		if len(words) != 3 || skipReasons[words[2]] == nil {
			return "does not say why it is skipped: write sh skip, and a word of skipReasons"
		}
		if !skipReasons[words[2]].MatchString(content) {
			return "is skipped for the reason " + words[2] + ", and has no such command"
		}
		return ""
	case !isRun:
		return "is not run by a test: write sh skip, and the reason"
	}
	return ""
}

// problemsOfBlocks returns what is wrong with the blocks of a document, by their lines.
func problemsOfBlocks(document string, isRun run) map[int]string {
	problems := map[int]string{}
	inside, start, info, heading := false, 0, "", ""
	var content []string
	for i, line := range strings.Split(document, "\n") {
		after, isFence := strings.CutPrefix(strings.TrimSpace(line), fence)
		switch {
		case isFence && !inside:
			inside, start, info, content = true, i+1, after, nil
		case isFence:
			inside = false
			if problem := problemOfBlock(info, strings.Join(content, "\n"), isRun.has(heading)); problem != "" {
				problems[start] = problem
			}
		case inside:
			content = append(content, strings.TrimSpace(line))
		case headingLine.MatchString(line):
			heading = line
		}
	}
	return problems
}

// A test runs the commands of a block, or the block says why none can.
func TestCommandsAreRunOrSayWhyNot(t *testing.T) {
	isRun, checked := runDocuments(t), 0
	for _, path := range files(t, ".md") {
		relative, err := filepath.Rel(root, path)
		require.NoError(t, err)
		name := filepath.ToSlash(relative)
		// The pages of docs/reference with commands are generated from these.
		if !strings.HasPrefix(name, "docs/howto/") && !strings.HasPrefix(name, "docs/tutorials/") && name != "README.md" && name != "CONTRIBUTING.md" {
			continue
		}
		checked++
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		for line, problem := range problemsOfBlocks(string(raw), isRun[name]) {
			assert.Fail(t, problem, "%s:%d: the block", name, line)
		}
	}
	assert.Greater(t, checked, 20)
}

func TestABlockThatNoTestRunsIsNoticed(t *testing.T) {
	fenced := func(info string) string { return "```" + info + "\nkubectl get pods\n```\n" }
	for name, tc := range map[string]struct {
		document string
		isRun    run
		want     map[int]string
	}{
		"run by a test":                    {fenced("sh until"), run{all: true}, map[int]string{}},
		"skipped for a reason":             {"```sh skip build\nmake demo\n```\n", run{}, map[int]string{}},
		"output":                           {"```text\na\n```\n", run{}, map[int]string{}},
		"not run":                          {"text\n" + fenced("sh"), run{}, map[int]string{2: "is not run by a test: write sh skip, and the reason"}},
		"not run, in a list":               {"1. Do:\n   ```sh\n   kubectl get pods\n   ```\n", run{}, map[int]string{2: "is not run by a test: write sh skip, and the reason"}},
		"outside of the section":           {"### A\n" + fenced("sh") + "## B\n" + fenced("sh"), run{headings: []string{"### A"}}, map[int]string{6: "is not run by a test: write sh skip, and the reason"}},
		"skipped without a reason":         {fenced("sh skip"), run{all: true}, map[int]string{1: "does not say why it is skipped: write sh skip, and a word of skipReasons"}},
		"a reason that is not on the list": {fenced("sh skip later"), run{}, map[int]string{1: "does not say why it is skipped: write sh skip, and a word of skipReasons"}},
		"another reason":                   {fenced("sh skip root"), run{}, map[int]string{1: "is skipped for the reason root, and has no such command"}},
		"not marked as commands":           {fenced(""), run{}, map[int]string{1: "has commands: write sh behind ```"}},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tc.want, problemsOfBlocks(tc.document, tc.isRun)) })
	}
}
