package toolchain

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

// lock are the files that pin the packages.
var lock = []string{"package.json", "package-lock.json"}

// installed is the folder of the packages that a tree's lock pins.
func installed(tree fs.FS) (string, map[string][]byte, error) {
	dir, err := folder()
	if err != nil {
		return "", nil, err
	}
	files := map[string][]byte{}
	parts := []string{"npm"}
	for _, name := range lock {
		if files[name], err = fs.ReadFile(tree, name); err != nil {
			return "", nil, fmt.Errorf("reading what pins the packages of npm: %w", err)
		}
		parts = append(parts, string(files[name]))
	}
	return filepath.Join(dir, "npm-"+key(parts...)[:16]), files, nil
}

// InstallPackages installs the packages of npm that the tree's package-lock.json pins in
// the cache folder, unless they are there, and returns their folder node_modules.
func InstallPackages(ctx context.Context, tree fs.FS) (string, error) {
	dir, files, err := installed(tree)
	if err != nil {
		return "", err
	}
	modules := filepath.Join(dir, "node_modules")
	if _, err := os.Stat(dir); err == nil {
		return modules, nil
	}
	npm, err := find("npm")
	if err != nil {
		return "", fmt.Errorf("%w: install Node.js 20 with npm: %w", ErrMissing, err)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return "", fmt.Errorf("making the cache of guests: %w", err)
	}
	work, err := os.MkdirTemp(filepath.Dir(dir), "new-")
	if err != nil {
		return "", fmt.Errorf("making a folder to install in: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }() // gone already when it became the folder
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(work, name), data, 0o600); err != nil {
			return "", fmt.Errorf("writing what pins the packages: %w", err)
		}
	}
	cmd := exec.CommandContext(ctx, npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	cmd.Dir = work
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("installing the packages of npm: %w\n%s", err, text)
	}
	if err := os.Rename(work, dir); err != nil {
		return "", fmt.Errorf("keeping the packages of npm: %w", err)
	}
	return modules, nil
}
