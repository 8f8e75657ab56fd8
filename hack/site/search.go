package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"
)

// record is what a search finds: the text below a heading.
type record struct {
	Title   string `json:"t"`
	Heading string `json:"h,omitempty"`
	URL     string `json:"u"`
	Text    string `json:"x"`
}

// searchIndex returns a script that sets the index, which a browser also loads from a file.
func (s *site) searchIndex() ([]byte, error) {
	var records []record
	for _, name := range slices.Sorted(maps.Keys(s.pages)) {
		records = append(records, recordsOf(s.pages[name])...)
	}
	raw, err := json.Marshal(records)
	if err != nil {
		return nil, fmt.Errorf("encoding the search index: %w", err)
	}
	return append(append([]byte("window.searchIndex="), raw...), ';'), nil
}

// recordsOf returns a record for each section of a page.
func recordsOf(p *page) []record {
	var records []record
	current := record{Title: p.title, URL: p.url}
	var words []string
	end := func() {
		if current.Text = strings.Join(words, " "); current.Text != "" || current.Heading == "" {
			records = append(records, current)
		}
		words = nil
	}
	for node := p.tree.FirstChild(); node != nil; node = node.NextSibling() {
		heading, ok := node.(*ast.Heading)
		if !ok {
			words = append(words, plain(node, p.content))
			continue
		}
		if heading.Level == 1 {
			continue
		}
		end()
		current = record{Title: p.title, Heading: plain(heading, p.content), URL: p.url}
		if id, ok := heading.AttributeString("id"); ok {
			if raw, ok := id.([]byte); ok {
				current.URL += "#" + string(raw)
			}
		}
	}
	end()
	return records
}

// plain returns the text of a node, code included, with single spaces.
func plain(node ast.Node, content []byte) string {
	var out strings.Builder
	walk(node, func(n ast.Node) {
		switch n := n.(type) {
		case *ast.Text:
			out.Write(n.Segment.Value(content))
			if n.SoftLineBreak() || n.HardLineBreak() {
				out.WriteByte(' ')
			}
		case *ast.String:
			out.Write(n.Value)
		case *ast.FencedCodeBlock, *ast.CodeBlock:
			out.Write(n.Lines().Value(content))
		default:
			if n.Type() == ast.TypeBlock {
				out.WriteByte(' ')
			}
		}
	})
	return strings.Join(strings.Fields(out.String()), " ")
}
