// Package guests holds one small policy, "accelerator", in every language that tests compare:
// Go, C, AssemblyScript and Rust with the SDKs, AssemblyScript with Extism's kit, and the text
// format, which is the smallest policy without any SDK.
//
// They answer PodMutation in the same way: a pod that selects nodes with an accelerator gets
// the toleration of their taint. Each reads its whole request and refuses invalid JSON.
package guests

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/longshore-dev/longshore/conformance/guests/toolchain"
)

//go:embed c/policy.c rust/policy.rs text/policy.wasm assemblyscript/*.ts assemblyscript/*.json
var files embed.FS

// Guest is the policy in one language.
type Guest struct {
	// Name of the language, and of the folder.
	Name string
	// Small is set for modules without a language's runtime.
	Small bool
	build func(ctx context.Context) ([]byte, error)
}

// All lists the guests.
func All() []Guest {
	return []Guest{
		{Name: "golang", build: buildGo},
		{Name: "c", Small: true, build: func(ctx context.Context) ([]byte, error) {
			return withFile("c/policy.c", func(source []byte) ([]byte, error) { return toolchain.C(ctx, source) })
		}},
		{Name: "rust", Small: true, build: func(ctx context.Context) ([]byte, error) {
			return withFile("rust/policy.rs", func(source []byte) ([]byte, error) { return toolchain.Rust(ctx, source) })
		}},
		{Name: "assemblyscript", Small: true, build: func(ctx context.Context) ([]byte, error) {
			return toolchain.AssemblyScript(ctx, AssemblyScript(), "policy", "~lib/@longshore/policy/index/stop")
		}},
		{Name: "assemblyscript with Extism's kit", Small: true, build: func(ctx context.Context) ([]byte, error) {
			return toolchain.AssemblyScript(ctx, AssemblyScript(), "pdk", "pdk/stop")
		}},
		{Name: "text", Small: true, build: func(context.Context) ([]byte, error) {
			return withFile("text/policy.wasm", func(wasm []byte) ([]byte, error) { return wasm, nil })
		}},
	}
}

// Build compiles the guest. The error wraps toolchain.ErrMissing when its compiler is
// not installed.
func (g *Guest) Build(ctx context.Context) ([]byte, error) {
	wasm, err := g.build(ctx)
	if err != nil {
		return nil, fmt.Errorf("building guest %s: %w", g.Name, err)
	}
	return wasm, nil
}

// Wasm compiles the guest for a test, which is skipped without its compiler.
func (g *Guest) Wasm(tb testing.TB) []byte {
	tb.Helper()
	wasm, err := g.Build(tb.Context())
	toolchain.Need(tb, err)
	return wasm
}

// AssemblyScript returns the sources of the guests in AssemblyScript, and the lock file of
// their compiler.
func AssemblyScript() fs.FS {
	tree, err := fs.Sub(files, "assemblyscript")
	if err != nil {
		panic(err) // The name is a constant.
	}
	return tree
}

func withFile(name string, build func([]byte) ([]byte, error)) ([]byte, error) {
	source, err := files.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("reading the source: %w", err)
	}
	return build(source)
}

// buildGo compiles the guest of the clone that holds the working directory.
func buildGo(ctx context.Context) ([]byte, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", "github.com/longshore-dev/longshore/conformance/guests/golang").Output()
	if err != nil {
		return nil, fmt.Errorf("finding the source: %w", err)
	}
	return toolchain.Go(ctx, strings.TrimSpace(string(out)))
}

// BuildFolder compiles the policy in a folder: Go with a main.go, C in policy.c, Rust in
// policy.rs, or AssemblyScript in policy.ts. The error wraps toolchain.ErrMissing when its compiler is not installed.
func BuildFolder(ctx context.Context, folder string) ([]byte, error) {
	tree := os.DirFS(folder)
	if _, err := fs.Stat(tree, "main.go"); err == nil {
		return toolchain.Go(ctx, folder)
	}
	if source, err := fs.ReadFile(tree, "policy.c"); err == nil {
		return toolchain.C(ctx, source)
	}
	if source, err := fs.ReadFile(tree, "policy.rs"); err == nil {
		return toolchain.Rust(ctx, source)
	}
	if _, err := fs.Stat(tree, "policy.ts"); err == nil {
		return toolchain.AssemblyScript(ctx, Pinned{FS: tree}, "policy", "~lib/@longshore/policy/index/stop")
	}
	return nil, fmt.Errorf("folder %s has none of main.go, policy.c, policy.rs, policy.ts", folder)
}

// Pinned adds the files that pin the AssemblyScript compiler to a tree.
type Pinned struct{ fs.FS }

// Open implements fs.FS.
func (p Pinned) Open(name string) (fs.File, error) {
	if strings.HasSuffix(name, ".json") {
		return AssemblyScript().Open(name) //nolint:wrapcheck // Its errors are those of an fs.FS.
	}
	return p.FS.Open(name) //nolint:wrapcheck // As above.
}
