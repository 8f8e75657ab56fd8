package toolchain

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/longshore-dev/longshore/sdk/assemblyscript"
)

// InstallCommand installs what can be installed without the system's packages: the
// AssemblyScript compiler, with npm.
const InstallCommand = "go run ./hack/toolchains"

// AssemblyScriptModules returns the folder node_modules with the compiler that the tree's
// package-lock.json pins.
func AssemblyScriptModules(tree fs.FS) (string, error) {
	dir, _, err := installed(tree)
	if err != nil {
		return "", err
	}
	modules := filepath.Join(dir, "node_modules")
	if _, err := os.Stat(filepath.Join(modules, "assemblyscript", "bin", "asc.js")); err != nil {
		return "", fmt.Errorf("%w: the AssemblyScript compiler is not installed: run %s", ErrMissing, InstallCommand)
	}
	return modules, nil
}

// AssemblyScript compiles the .ts files of a tree, beginning with the file entry.ts. The
// guest calls the function stop, such as "policy/stop" for one in policy.ts, when it gives
// up. The tree can import the SDK by its name.
func AssemblyScript(ctx context.Context, tree fs.FS, entry, stop string) ([]byte, error) {
	node, err := find("node")
	if err != nil {
		return nil, fmt.Errorf("%w: install Node.js 20 with npm, then run %s: %w", ErrMissing, InstallCommand, err)
	}
	modules, err := AssemblyScriptModules(tree)
	if err != nil {
		return nil, err
	}
	compiler := filepath.Join(modules, "assemblyscript", "bin", "asc.js")
	files, err := sources(tree, ".ts")
	if err != nil {
		return nil, err
	}
	sdk, err := sources(assemblyscript.Package, ".ts")
	if err != nil {
		return nil, err
	}
	for name, data := range sdk {
		files[filepath.Join("node_modules", filepath.FromSlash(assemblyscript.Name), name)] = data
	}
	parts := []string{"assemblyscript", filepath.Base(filepath.Dir(modules)), entry, stop}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		parts = append(parts, name, string(files[name]))
	}
	return cached(key(parts...), func(work string) ([]byte, error) {
		for name, data := range files {
			if err := os.MkdirAll(filepath.Join(work, filepath.Dir(name)), 0o700); err != nil {
				return nil, fmt.Errorf("making a folder for the source: %w", err)
			}
			if err := os.WriteFile(filepath.Join(work, name), data, 0o600); err != nil {
				return nil, fmt.Errorf("writing the source: %w", err)
			}
		}
		cmd := exec.CommandContext(ctx, node, compiler, entry+".ts", "--outFile", "guest.wasm", "--optimize",
			"--runtime", "stub", "--use", "abort="+stop, "--path", modules)
		cmd.Dir = work
		return output(cmd, filepath.Join(work, "guest.wasm"))
	})
}
