// Command site builds the documentation as a static site: one page for each Markdown file below
// docs, and for the files beside it that these link to. It fails if a link leads nowhere.
//
//	go run -C hack/site . --out ../../dist/docs
package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

func main() {
	out := flag.String("out", filepath.Join("..", "..", "dist", "docs"), "folder of the site; it is replaced")
	root := flag.String("root", filepath.Join("..", ".."), "root of the repository")
	flag.Parse()
	if err := build(*root, *out); err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
}

// build writes the site of a repository into a folder.
func build(root, out string) error {
	site, err := read(os.DirFS(root))
	if err != nil {
		return err
	}
	files, err := site.render()
	if err != nil {
		return err
	}
	if err := os.RemoveAll(out); err != nil {
		return fmt.Errorf("removing the old site: %w", err)
	}
	for name, content := range files {
		path := filepath.Join(out, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, content, 0o644)); err != nil {
			return fmt.Errorf("writing %s: %w", name, err)
		}
	}
	fmt.Printf("%d pages in %s\n", len(site.pages), out)
	return nil
}

// exists reports whether a repository has a file or a folder of the name.
func exists(repository fs.FS, name string) bool {
	_, err := fs.Stat(repository, name)
	return err == nil
}
