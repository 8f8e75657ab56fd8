package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func repositoryOf(files map[string]string) fstest.MapFS {
	repository := fstest.MapFS{"README.md": {Data: []byte("# Home\n\n[How](docs/howto/run.md)\n")}, "docs/howto/run.md": {Data: []byte("# Run\n\ntext\n")}}
	for name, content := range files {
		repository[name] = &fstest.MapFile{Data: []byte(content)}
	}
	return repository
}

func TestLinksBecomeThoseOfTheSite(t *testing.T) {
	s, err := read(repositoryOf(map[string]string{
		"docs/howto/run.md":     "# Run\n\n[a](../reference/all.md#the-flags) [b](#here) [c](../../cmd/main.go) [d](https://example.com/x) [e](../../bench/README.md)\n\n## Here\n",
		"docs/reference/all.md": "# All\n\n## The flags\n",
		"cmd/main.go":           "package main",
		"bench/README.md":       "# Bench\n",
	}))
	require.NoError(t, err)
	files, err := s.render()
	require.NoError(t, err)
	page := string(files["howto/run.html"])
	for _, want := range []string{
		`<a href="../reference/all.html#the-flags">a</a>`, `<a href="../howto/run.html#here">b</a>`,
		`<a href="` + source + `cmd/main.go">c</a>`, `<a href="https://example.com/x">d</a>`, `<a href="../bench/README.html">e</a>`,
		`<link rel="stylesheet" href="../style.css">`, `<title>Run – Longshore</title>`, `<a href="../reference/all.html">All</a>`,
	} {
		assert.Contains(t, page, want)
	}
	assert.Contains(t, files, "bench/README.html")
	assert.Contains(t, string(files["index.html"]), `<a href="howto/run.html">How</a>`)
}

func TestCellsOfWideTablesNameTheirColumns(t *testing.T) {
	s, err := read(repositoryOf(map[string]string{
		"docs/howto/run.md": "# Run\n\n| key | `type` | says \"so\" |\n|---|---|---|\n| a | b | c |\n\n| two | columns |\n|---|---|\n| d | e |\n",
	}))
	require.NoError(t, err)
	files, err := s.render()
	require.NoError(t, err)
	page := string(files["howto/run.html"])
	for _, want := range []string{
		`<table class="wide">`, `<td data-label="key">a</td>`, `<td data-label="type">b</td>`, `<td data-label="says &quot;so&quot;">c</td>`,
		"<table>\n", `<td>d</td>`,
	} {
		assert.Contains(t, page, want)
	}
}

func TestALinkThatLeadsNowhereIsAnError(t *testing.T) {
	for name, tc := range map[string]struct{ content, want string }{
		"to a file":                 {"[a](gone.md)", "docs/howto/run.md links to gone.md, which does not exist"},
		"to a heading of the page":  {"[a](#gone)", "docs/howto/run.md has no heading #gone"},
		"to a heading of another":   {"[a](../../README.md#gone)", "README.md has no heading #gone"},
		"to a file with characters": {"[a](../../cmd/none.go)", "which does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := read(repositoryOf(map[string]string{"docs/howto/run.md": tc.content}))
			require.NoError(t, err)
			_, err = s.render()
			assert.ErrorContains(t, err, tc.want)
		})
	}
}

func TestTheSearchIndexHasARecordForEachSection(t *testing.T) {
	s, err := read(repositoryOf(map[string]string{"docs/howto/run.md": "# Run\n\nFirst *words*.\n\n## Stop `it`\n\n```sh\nmake demo-down\n```\n\n| a | b |\n|---|---|\n| c | `d` |\n"}))
	require.NoError(t, err)
	raw, err := s.searchIndex()
	require.NoError(t, err)
	var records []record
	require.NoError(t, json.Unmarshal([]byte(strings.TrimSuffix(strings.TrimPrefix(string(raw), "window.searchIndex="), ";")), &records))
	assert.Equal(t, []record{
		{Title: "Home", URL: "index.html", Text: "How"},
		{Title: "Run", URL: "howto/run.html", Text: "First words."},
		{Title: "Run", Heading: "Stop it", URL: "howto/run.html#stop-it", Text: "make demo-down a b c d"},
	}, records)
}

// The documentation of this repository has no link that leads nowhere, and all its pages are in the
// menu.
func TestTheDocumentationOfTheRepositoryIsBuilt(t *testing.T) {
	out := filepath.Join(t.TempDir(), "site")
	require.NoError(t, build(filepath.Join("..", ".."), out))
	pages, err := filepath.Glob(filepath.Join("..", "..", "docs", "*", "*.md"))
	require.NoError(t, err)
	require.NotEmpty(t, pages)
	index, err := os.ReadFile(filepath.Join(out, "index.html"))
	require.NoError(t, err)
	for _, name := range pages {
		relative, err := filepath.Rel(filepath.Join("..", "..", "docs"), name)
		require.NoError(t, err)
		url := strings.TrimSuffix(filepath.ToSlash(relative), ".md") + ".html"
		assert.FileExists(t, filepath.Join(out, filepath.FromSlash(url)))
		assert.Contains(t, string(index), `<a href="`+url+`"`, "the menu has every page")
	}
	local := regexp.MustCompile(`(?:href|src)="([^":]+)"`)
	require.NoError(t, filepath.WalkDir(out, func(path string, entry os.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".html" {
			return err
		}
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, match := range local.FindAllStringSubmatch(string(content), -1) {
			target, _, _ := strings.Cut(match[1], "#")
			if target != "" {
				assert.FileExists(t, filepath.Join(filepath.Dir(path), filepath.FromSlash(target)), path)
			}
		}
		return nil
	}))
}
