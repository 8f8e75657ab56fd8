package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/longshore-dev/longshore/conformance/guests/toolchain"
)

const (
	assembler = "hack/generate/wabt"
	// prelude is the name of texts that others include, and that are no modules.
	prelude = "prelude.wat"
)

// generateModules assembles the WebAssembly text of the repository, with wabt from npm. Tests
// and tutorials use the committed modules, so that they do not need npm.
func generateModules(ctx context.Context) error {
	packages, err := toolchain.InstallPackages(ctx, os.DirFS(assembler))
	if err != nil {
		return fmt.Errorf("installing the assembler: %w", err)
	}
	texts, err := moduleTexts(os.DirFS("."))
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "node", append([]string{filepath.Join(assembler, "assemble.js")}, texts...)...)
	cmd.Env = append(os.Environ(), "NODE_PATH="+packages)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("assembling WebAssembly text: %w\n%s", err, out)
	}
	return nil
}

// moduleTexts lists the modules in WebAssembly text. The tree has those that git ignores, too:
// what tools install is in folders that begin with a point or are named node_modules.
func moduleTexts(tree fs.FS) ([]string, error) {
	var texts []string
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "node_modules" || name != "." && strings.HasPrefix(entry.Name(), ".")):
			return fs.SkipDir
		case filepath.Ext(name) == ".wat" && entry.Name() != prelude:
			texts = append(texts, name)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing WebAssembly text: %w", err)
	}
	slices.Sort(texts)
	return texts, nil
}
