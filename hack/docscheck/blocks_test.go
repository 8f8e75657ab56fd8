package docscheck

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// runDocuments are the documents, or their sections, whose commands hack/demo/rig runs one by one and
// compares with the output shown, by the name of the function that does.
var runDocuments = map[string]struct{ function, section string }{
	"docs/tutorials/first-policy.md":   {"firstPolicy", ""},
	"docs/tutorials/write-a-policy.md": {"writePolicy", ""},
	"README.md":                        {"readmePolicy", "### Switch a policy off"},
}

// skipReasons are the words behind "sh skip" that say why no test runs the commands of a block, and
// what such a block contains. TestEveryCommandOfADocumentExists still checks its commands.
var skipReasons = map[string]*regexp.Regexp{
	// Compiles or tests for minutes. CI and `make e2e` run these targets.
	"build": regexp.MustCompile(`(?m)^(make|go) `),
	// Needs the reader's clusters and Helm. hack/demo/chart and `make e2e` do the same with Helm's library.
	"helm": regexp.MustCompile(`(?m)\bhelm `),
	// Needs root. `make e2e` is such a test.
	"root": regexp.MustCompile(`(?m)^(cd .* && )?sudo `),
	// Needs a registry, or the containerd of a node.
	"registry": regexp.MustCompile(`(?m)^(ctr|skopeo) `),
	// Names clusters and objects of the reader, which no test has.
	"example": regexp.MustCompile(`(?m)\b(kubectl|longshorectl) `),
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
func problemsOfBlocks(document, section string, isRun bool) map[int]string {
	problems := map[int]string{}
	inside, start, info := false, 0, ""
	var content []string
	inSection := section == ""
	for i, line := range strings.Split(document, "\n") {
		after, fence := strings.CutPrefix(line, "```")
		switch {
		case fence && !inside:
			inside, start, info, content = true, i+1, after, nil
		case fence:
			inside = false
			if problem := problemOfBlock(info, strings.Join(content, "\n"), isRun && inSection); problem != "" {
				problems[start] = problem
			}
		case inside:
			content = append(content, line)
		case section != "" && line == section:
			inSection = true
		case section != "" && strings.HasPrefix(line, "## "):
			inSection = false
		}
	}
	return problems
}

// A test runs the commands of a block, or the block says why none can.
func TestCommandsAreRunOrSayWhyNot(t *testing.T) {
	rig, err := os.ReadFile(filepath.Join(root, "hack/demo/rig/firstpolicy_test.go"))
	require.NoError(t, err)
	checked := 0
	for _, path := range files(t, ".md") {
		relative, err := filepath.Rel(root, path)
		require.NoError(t, err)
		name := filepath.ToSlash(relative)
		// The pages of docs/reference with commands are generated from these.
		if !strings.HasPrefix(name, "docs/howto/") && !strings.HasPrefix(name, "docs/tutorials/") && name != "README.md" && name != "CONTRIBUTING.md" {
			continue
		}
		checked++
		run, isRun := runDocuments[name]
		if isRun {
			function := regexp.MustCompile(`(?s)\nfunc ` + run.function + `\(.*?\n}\n`).FindString(string(rig))
			assert.Contains(t, function, `"`+filepath.Base(name)+`"`, "%s is run by %s", name, run.function)
			assert.Contains(t, function, run.section, "%s is run by %s", name, run.function)
		}
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		for line, problem := range problemsOfBlocks(string(raw), run.section, isRun) {
			assert.Fail(t, problem, "%s:%d: the block", name, line)
		}
	}
	assert.Greater(t, checked, 20)
}

func TestABlockThatNoTestRunsIsNoticed(t *testing.T) {
	fenced := func(info string) string { return "```" + info + "\nkubectl get pods\n```\n" }
	for name, tc := range map[string]struct {
		document, section string
		isRun             bool
		want              map[int]string
	}{
		"run by a test":                    {fenced("sh until"), "", true, map[int]string{}},
		"skipped for a reason":             {fenced("sh skip example"), "", false, map[int]string{}},
		"output":                           {"```text\na\n```\n", "", false, map[int]string{}},
		"not run":                          {"text\n" + fenced("sh"), "", false, map[int]string{2: "is not run by a test: write sh skip, and the reason"}},
		"outside of the section":           {"### A\n" + fenced("sh") + "## B\n" + fenced("sh"), "### A", true, map[int]string{6: "is not run by a test: write sh skip, and the reason"}},
		"skipped without a reason":         {fenced("sh skip"), "", true, map[int]string{1: "does not say why it is skipped: write sh skip, and a word of skipReasons"}},
		"a reason that is not on the list": {fenced("sh skip later"), "", false, map[int]string{1: "does not say why it is skipped: write sh skip, and a word of skipReasons"}},
		"another reason":                   {fenced("sh skip root"), "", false, map[int]string{1: "is skipped for the reason root, and has no such command"}},
		"not marked as commands":           {fenced(""), "", false, map[int]string{1: "has commands: write sh behind ```"}},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tc.want, problemsOfBlocks(tc.document, tc.section, tc.isRun)) })
	}
}
