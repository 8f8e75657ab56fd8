package main

import (
	"embed"
	"html/template"
)

// assets are the files that all pages share, and their layout.
//
//go:embed assets
var assets embed.FS

var layout = template.Must(template.ParseFS(assets, "assets/layout.html"))

// view is what the layout shows.
type view struct {
	Title, URL string
	// Root is the way from the page to the root of the site.
	Root string
	Menu []group
	Body template.HTML
}
