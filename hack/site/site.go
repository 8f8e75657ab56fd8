package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

const (
	home = "README.md"
	docs = "docs"
	// source is where files are that are not pages.
	source = "https://github.com/longshore-dev/longshore/blob/main/"
)

// sections are the folders of docs in the order of the menu.
var sections = []struct{ folder, title string }{
	{"tutorials", "Tutorials"}, {"howto", "How-to"}, {"explanation", "Explanation"}, {"reference", "Reference"}, {"adr", "Decisions"},
}

var markdown = goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithParserOptions(parser.WithAutoHeadingID()))

// page is a Markdown file of the repository.
type page struct {
	// name of the file in the repository, and url of the page in the site.
	name, url string
	title     string
	content   []byte
	tree      ast.Node
	// anchors are the IDs of the headings.
	anchors map[string]bool
}

// site is all pages of a repository, by the names of their files.
type site struct {
	repository fs.FS
	pages      map[string]*page
}

// read parses all files below docs, and the Markdown files elsewhere that a page links to.
func read(repository fs.FS) (*site, error) {
	s := &site{repository: repository, pages: map[string]*page{}}
	waiting := []string{home}
	err := fs.WalkDir(repository, docs, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && path.Ext(name) == ".md" {
			waiting = append(waiting, name)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listing the documents: %w", err)
	}
	for len(waiting) > 0 {
		name := waiting[0]
		waiting = waiting[1:]
		if s.pages[name] != nil {
			continue
		}
		p, err := parse(repository, name)
		if err != nil {
			return nil, err
		}
		s.pages[name] = p
		for _, link := range links(p.tree) {
			target, _ := resolve(name, string(link.Destination))
			if target != "" && path.Ext(target) == ".md" && exists(repository, target) {
				waiting = append(waiting, target)
			}
		}
	}
	return s, nil
}

func parse(repository fs.FS, name string) (*page, error) {
	content, err := fs.ReadFile(repository, name)
	if err != nil {
		return nil, fmt.Errorf("reading a document: %w", err)
	}
	p := &page{name: name, url: urlOf(name), title: name, content: content, anchors: map[string]bool{}}
	p.tree = markdown.Parser().Parse(text.NewReader(content))
	for _, heading := range headings(p.tree) {
		id, _ := heading.AttributeString("id")
		if raw, ok := id.([]byte); ok {
			p.anchors[string(raw)] = true
		}
		if heading.Level == 1 && p.title == name {
			p.title = plain(heading, content)
		}
	}
	return p, nil
}

// urlOf returns the address of a file's page: docs/howto/upgrade.md is howto/upgrade.html.
func urlOf(name string) string {
	if name == home {
		return "index.html"
	}
	return strings.TrimSuffix(strings.TrimPrefix(name, docs+"/"), ".md") + ".html"
}

// resolve returns the file of the repository that a relative link in a document leads to, and the
// heading in it. Links to other sites have no file.
func resolve(from, destination string) (target, anchor string) {
	if strings.Contains(destination, "://") || strings.HasPrefix(destination, "mailto:") {
		return "", ""
	}
	target, anchor, _ = strings.Cut(destination, "#")
	if target == "" {
		return from, anchor
	}
	return path.Join(path.Dir(from), target), anchor
}

// render returns the files of the site. It joins the errors of all links that lead nowhere.
func (s *site) render() (map[string][]byte, error) {
	files := map[string][]byte{}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(s.pages)) {
		p := s.pages[name]
		if err := s.rewriteLinks(p); err != nil {
			errs = append(errs, err)
			continue
		}
		labelCells(p)
		var body, out bytes.Buffer
		if err := markdown.Renderer().Render(&body, p.content, p.tree); err != nil {
			errs = append(errs, fmt.Errorf("rendering %s: %w", name, err))
			continue
		}
		err := layout.Execute(&out, view{
			Title: p.title, Root: strings.Repeat("../", strings.Count(p.url, "/")), URL: p.url, Menu: s.menu(),
			// The content is that of the repository, and goldmark drops HTML in it.
			Body: template.HTML(body.String()),
		})
		if err != nil {
			errs = append(errs, fmt.Errorf("rendering %s: %w", name, err))
		}
		files[p.url] = out.Bytes()
	}
	index, err := s.searchIndex()
	if err != nil {
		errs = append(errs, err)
	}
	files["search-index.js"] = index
	for _, name := range []string{"style.css", "search.js"} {
		content, err := assets.ReadFile("assets/" + name)
		if err != nil {
			errs = append(errs, fmt.Errorf("reading an asset: %w", err))
		}
		files[name] = content
	}
	return files, errors.Join(errs...)
}

// rewriteLinks makes the links of a page those of the site, and checks that they lead somewhere.
func (s *site) rewriteLinks(p *page) error {
	var errs []error
	for _, link := range links(p.tree) {
		destination := string(link.Destination)
		target, anchor := resolve(p.name, destination)
		if target == "" {
			continue
		}
		other := s.pages[target]
		switch {
		case !exists(s.repository, target):
			errs = append(errs, fmt.Errorf("%s links to %s, which does not exist", p.name, destination))
		case other == nil:
			link.Destination = []byte(source + target)
		case anchor != "" && !other.anchors[anchor]:
			errs = append(errs, fmt.Errorf("%s links to %s: %s has no heading #%s", p.name, destination, target, anchor))
		default:
			address := relative(p.url, other.url)
			if anchor != "" {
				address += "#" + anchor
			}
			link.Destination = []byte(address)
		}
	}
	return errors.Join(errs...)
}

// labelCells names the column in each cell of a table with more than two columns. A narrow screen
// shows a row of such a table as a list of its cells.
func labelCells(p *page) {
	walk(p.tree, func(node ast.Node) {
		table, ok := node.(*extast.Table)
		if !ok || len(table.Alignments) <= 2 {
			return
		}
		table.SetAttributeString("class", []byte("wide"))
		var columns []string
		for row := table.FirstChild(); row != nil; row = row.NextSibling() {
			_, isHeader := row.(*extast.TableHeader)
			column := 0
			for cell := row.FirstChild(); cell != nil; cell = cell.NextSibling() {
				if isHeader {
					columns = append(columns, plain(cell, p.content))
				} else if column < len(columns) {
					cell.SetAttributeString("data-label", []byte(columns[column]))
				}
				column++
			}
		}
	})
}

// relative returns the address of a page as a link in another.
func relative(from, to string) string {
	return strings.Repeat("../", strings.Count(from, "/")) + to
}

// entry of the menu.
type entry struct{ Title, URL string }

// group of entries of the menu.
type group struct {
	Title   string
	Entries []entry
}

func (s *site) menu() []group {
	var groups []group
	for _, section := range sections {
		g := group{Title: section.title}
		for _, p := range s.pages {
			if path.Dir(p.name) == path.Join(docs, section.folder) {
				g.Entries = append(g.Entries, entry{p.title, p.url})
			}
		}
		slices.SortFunc(g.Entries, func(a, b entry) int {
			if section.folder == "adr" {
				return cmp.Compare(a.URL, b.URL)
			}
			return cmp.Compare(a.Title, b.Title)
		})
		groups = append(groups, g)
	}
	return groups
}

func links(tree ast.Node) []*ast.Link {
	var found []*ast.Link
	walk(tree, func(node ast.Node) {
		if link, ok := node.(*ast.Link); ok {
			found = append(found, link)
		}
	})
	return found
}

func headings(tree ast.Node) []*ast.Heading {
	var found []*ast.Heading
	walk(tree, func(node ast.Node) {
		if heading, ok := node.(*ast.Heading); ok {
			found = append(found, heading)
		}
	})
	return found
}

func walk(tree ast.Node, visit func(ast.Node)) {
	// The visitor returns no error.
	_ = ast.Walk(tree, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			visit(node)
		}
		return ast.WalkContinue, nil
	})
}
