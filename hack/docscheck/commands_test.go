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

var (
	commandHeading = regexp.MustCompile(`(?m)^## longshorectl ((?:[a-z][a-z-]*)(?: [a-z][a-z-]*)*)`)
	flagInTable    = regexp.MustCompile("(?m)^\\| ((?:`-{1,2}[a-z-]+`(?:, )?)+) \\|")
	flagName       = regexp.MustCompile(`-{1,2}[a-z][a-z-]*`)
	makeTarget     = regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*):`)
	setKey         = regexp.MustCompile(`--set(?:-file)? ([A-Za-z][A-Za-z0-9]*(?:\.[A-Za-z0-9]+)*)=`)
	valueRow       = regexp.MustCompile("(?m)^(?:\\| `([^`]+)` \\||## ([A-Za-z]+)$)")
)

// commands returns the flags of each command, by its words, as the reference lists them.
func commands(t *testing.T) map[string]map[string]bool {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, "docs/reference/longshorectl.md"))
	require.NoError(t, err)
	page, found := string(raw), map[string]map[string]bool{}
	headings := commandHeading.FindAllStringSubmatchIndex(page, -1)
	for i, heading := range headings {
		end := len(page)
		if i+1 < len(headings) {
			end = headings[i+1][0]
		}
		flags := map[string]bool{"--help": true}
		for _, row := range flagInTable.FindAllStringSubmatch(page[heading[1]:end], -1) {
			for _, name := range flagName.FindAllString(row[1], -1) {
				flags[name] = true
			}
		}
		found[page[heading[2]:heading[3]]] = flags
	}
	require.NotEmpty(t, found)
	return found
}

// invocations returns the commands in the code of a page, one for each line that begins with the
// name of a program. A line that ends in a backslash continues.
func invocations(text, program string) []string {
	var found []string
	var lines []string
	inside := false
	for line := range strings.SplitSeq(text, "\n") {
		switch {
		case strings.HasPrefix(strings.TrimSpace(line), "```"):
			inside = !inside
		case inside:
			lines = append(lines, strings.TrimSpace(line))
		default:
			for _, span := range codeSpan.FindAllStringSubmatch(line, -1) {
				lines = append(lines, span[1])
			}
		}
	}
	joined := strings.ReplaceAll(strings.Join(lines, "\n"), "\\\n", " ")
	for line := range strings.SplitSeq(joined, "\n") {
		line, _, _ = strings.Cut(line, "   #")
		line = strings.TrimPrefix(line, "bin/")
		if after, ok := strings.CutPrefix(line, program+" "); ok {
			found = append(found, strings.TrimSpace(after))
		}
	}
	return found
}

// problemOf returns what is wrong with the arguments of longshorectl, or "".
func problemOf(arguments string, known map[string]map[string]bool) string {
	words := strings.Fields(arguments)
	name := ""
	for i := range words {
		if candidate := strings.Join(words[:i+1], " "); known[candidate] != nil {
			name = candidate
		}
	}
	if name == "" {
		return "is not a command of docs/reference/longshorectl.md"
	}
	for _, word := range words {
		if flag, _, _ := strings.Cut(word, "="); flagName.FindString(flag) == flag && strings.HasPrefix(flag, "-") && !known[name][flag] {
			return "has no flag " + flag
		}
	}
	return ""
}

func TestEveryCommandOfADocumentExists(t *testing.T) {
	known := commands(t)
	groups := map[string]bool{}
	for name := range known {
		first, _, _ := strings.Cut(name, " ")
		groups[first] = true
	}
	targets := map[string]bool{}
	// Of the repository, and of a project of a policy.
	for _, makefile := range []string{"Makefile", "cmd/longshorectl/policy/project/go/Makefile.tmpl"} {
		raw, err := os.ReadFile(filepath.Join(root, makefile))
		require.NoError(t, err)
		for _, match := range makeTarget.FindAllStringSubmatch(string(raw), -1) {
			targets[match[1]] = true
		}
	}
	values, err := os.ReadFile(filepath.Join(root, "docs/reference/values.md"))
	require.NoError(t, err)
	keys := map[string]bool{}
	for _, match := range valueRow.FindAllStringSubmatch(string(values), -1) {
		keys[match[1]+match[2]] = true
	}
	checked := 0
	for _, path := range files(t, ".md") {
		relative := filepath.ToSlash(strings.TrimPrefix(path, root))
		if !strings.Contains(relative, "docs/howto/") && !strings.Contains(relative, "docs/tutorials/") && !strings.HasSuffix(relative, "README.md") {
			continue
		}
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, arguments := range invocations(string(raw), "longshorectl") {
			first := strings.Fields(arguments)[0]
			if !groups[first] {
				assert.True(t, strings.HasPrefix(first, "-") || strings.HasPrefix(first, "…"), "%s: longshorectl %s", path, arguments)
				continue
			}
			if len(strings.Fields(arguments)) == 1 && known[first] == nil {
				continue // A group, named in a sentence.
			}
			checked++
			assert.Empty(t, problemOf(arguments, known), "%s: longshorectl %s", path, arguments)
		}
		for _, arguments := range invocations(string(raw), "make") {
			target := strings.Fields(arguments)[0]
			assert.True(t, targets[target] || strings.Contains(target, "="), "%s: make %s", path, arguments)
		}
		for _, key := range setKey.FindAllStringSubmatch(string(raw), -1) {
			assert.True(t, keys[key[1]] || strings.HasPrefix(key[1], "policies.custom."), "%s: --set %s", path, key[1])
		}
	}
	assert.Greater(t, checked, 30)
}

func TestAWrongCommandIsNoticed(t *testing.T) {
	known := commands(t)
	for name, tc := range map[string]struct{ arguments, want string }{
		"a command":           {"create resourceslice gpu --remote-cluster-id milan --cpu=8", ""},
		"an unknown command":  {"create slice gpu", "is not a command"},
		"an unknown flag":     {"status --fast", "has no flag --fast"},
		"a flag with a value": {"peer --remote-kubeconfig=milan.kubeconfig", ""},
	} {
		t.Run(name, func(t *testing.T) {
			problem := problemOf(tc.arguments, known)
			assert.Equal(t, tc.want == "", problem == "", problem)
			assert.Contains(t, problem, tc.want)
		})
	}
	assert.Equal(t, []string{"a --b", "c"}, invocations("`longshorectl a --b`\n```sh\nlongshorectl c\n```\n", "longshorectl"))
}
