package docscheck

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// replacements are words that the writing guide (CONTRIBUTING.md) excludes, with the terms
// to use instead.
var replacements = map[string]string{
	"stranger":    "unmanaged object, conflict",
	"strangers":   "unmanaged objects, conflicts",
	"nobody":      "name the subject: no component, no user",
	"somebody":    "name the subject: a component, a user",
	"everybody":   "name the subject: all users",
	"someone":     "name the subject: an attacker, a user",
	"whoever":     "name the subject: the user who",
	"predecessor": "previous, stale",
	"told":        "reported, recorded, requested",
	"likened":     "compared",
	"scene":       "rig, clusters, testbed",
	"lest":        "so that … not",
	"heed":        "observe",
	"heeds":       "observes",
	"ailing":      "unhealthy, degraded",
	"ailment":     "failure reason",
	"sayings":     "messages, reports",
	"is no":       "is not a",
}

// part is a word of an identifier: requests, Told of setTold, and ID of clusterID.
var part = regexp.MustCompile(`[A-Z]+(?:[a-z]+|\b)|[a-z]+|[A-Z]+`)

// negation is a sentence such as "X is no error": write "X is not an error". "There is no error" is
// right.
var negation = regexp.MustCompile(`(?i)(\w*)\s*\b(?:is|are|was|were) no (?:error|conflict|object|list|value|result|change|event|failure|fault|secret)s?\b`)

// excludedWords returns the excluded words of a text, in alphabetical order.
func excludedWords(text string) []string {
	found := map[string]bool{}
	for _, match := range negation.FindAllStringSubmatch(text, -1) {
		if !strings.EqualFold(match[1], "there") {
			found["is no"] = true
		}
	}
	for _, word := range part.FindAllString(text, -1) {
		word = strings.ToLower(word)
		if _, excluded := replacements[word]; excluded {
			found[word] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

func TestTheWritingGuidesExcludedWordsStayOut(t *testing.T) {
	for _, path := range files(t, ".go", ".md", ".yaml", ".tpl") {
		relative, err := filepath.Rel(root, path)
		require.NoError(t, err)
		relative = filepath.ToSlash(relative)
		if relative == "hack/docscheck/words_test.go" {
			continue
		}
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		number := 0
		for line := range strings.Lines(string(content)) {
			number++
			for _, word := range excludedWords(line) {
				assert.Fail(t, "excluded word", "%s:%d: %q; write instead: %s", relative, number, word, replacements[word])
			}
		}
	}
}

func TestWordsAreFoundInIdentifiersAndSentences(t *testing.T) {
	for text, want := range map[string][]string{
		"// Nobody is told.":          {"nobody", "told"},
		"func isStranger() bool":      {"stranger"},
		"strangersOf(pods)":           {"strangers"},
		"previousNobodyID := 1":       {"nobody"},
		"setTOLD":                     {"told"},
		"a bold, scenic threshold":    nil,
		"lastly the latest checklist": nil,
		"A missing pod is no error.":  {"is no"},
		"There is no error.":          nil,
	} {
		assert.Equal(t, want, append([]string(nil), excludedWords(text)...), text)
	}
}
