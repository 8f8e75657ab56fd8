// Package toolchain compiles guests in the languages that tests use: with the
// compilers of the machine, and none of its own. Modules are kept outside the clone,
// in the user's cache folder, under a key made of everything that goes into them.
//
// A compiler that is missing is ErrMissing, which names what to install; tests skip
// then, unless Environment requires all compilers, as in CI.
package toolchain

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	csdk "github.com/longshore-dev/longshore/sdk/c"
)

// Environment names the variable that, when it is set to "required", turns a missing
// toolchain from a reason to skip a test into its failure.
const Environment = "LONGSHORE_TOOLCHAINS"

// ErrMissing is the error for a compiler that is not installed.
var ErrMissing = errors.New("the toolchain is missing")

// Need fails or skips a test that got this error from one of the compilers.
func Need(tb testing.TB, err error) {
	tb.Helper()
	switch {
	case err == nil:
	case errors.Is(err, ErrMissing) && os.Getenv(Environment) != "required":
		tb.Skip(err)
	default:
		tb.Fatal(err)
	}
}

// Go compiles a main package, named by its folder, as a library for wasip1. The Go
// toolchain has a cache of its own.
func Go(ctx context.Context, dir string) ([]byte, error) {
	return inTemporary(func(work string) ([]byte, error) {
		out := filepath.Join(work, "guest.wasm")
		cmd := exec.CommandContext(ctx, "go", "build", "-buildmode=c-shared", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", out, ".")
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOFLAGS=")
		return output(cmd, out)
	})
}

// Clang returns the path of a C compiler with a linker for wasm.
func Clang() (string, error) {
	clang, err := find("clang", "clang-19", "clang-16", "clang-14")
	if err != nil {
		return "", fmt.Errorf("%w: install clang and lld (Debian: apt-get install clang lld): %w", ErrMissing, err)
	}
	if _, err := find("wasm-ld", "wasm-ld-19", "wasm-ld-16", "wasm-ld-14"); err != nil {
		return "", fmt.Errorf("%w: install lld (Debian: apt-get install lld): %w", ErrMissing, err)
	}
	return clang, nil
}

// C compiles one file of C without a library. It can include the SDK's longshore.h.
func C(ctx context.Context, source []byte) ([]byte, error) {
	clang, err := Clang()
	if err != nil {
		return nil, err
	}
	version, err := exec.CommandContext(ctx, clang, "--version").Output()
	if err != nil {
		return nil, fmt.Errorf("asking clang for its version: %w", err)
	}
	flags := []string{"--target=wasm32", "-O2", "-nostdlib", "-ffreestanding", "-Wall", "-Wextra", "-Werror", "-Wl,--no-entry", "-Wl,--strip-all"}
	return cached(key("c", string(version), strings.Join(flags, " "), string(source), csdk.Header), func(work string) ([]byte, error) {
		in, out := filepath.Join(work, "policy.c"), filepath.Join(work, "guest.wasm")
		if err := os.WriteFile(in, source, 0o600); err != nil {
			return nil, fmt.Errorf("writing the source: %w", err)
		}
		if err := os.WriteFile(filepath.Join(work, "longshore.h"), []byte(csdk.Header), 0o600); err != nil {
			return nil, fmt.Errorf("writing the SDK: %w", err)
		}
		return output(exec.CommandContext(ctx, clang, append(flags, "-o", out, in)...), out)
	})
}

// output runs a compiler and reads what it wrote.
func output(cmd *exec.Cmd, file string) ([]byte, error) {
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("compiling a guest with %s: %w\n%s", filepath.Base(cmd.Path), err, text)
	}
	wasm, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading a compiled guest: %w", err)
	}
	return wasm, nil
}

// find returns the first of the programs that is installed.
func find(names ...string) (string, error) {
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is not in PATH", names[0])
}

// folder is where modules and toolchains are kept.
func folder() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the user's cache folder: %w", err)
	}
	return filepath.Join(cache, "longshore", "guests"), nil
}

func key(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// cached returns the module that was kept under the key, or builds it.
func cached(key string, build func(work string) ([]byte, error)) ([]byte, error) {
	dir, err := folder()
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, key+".wasm")
	if wasm, err := os.ReadFile(file); err == nil {
		return wasm, nil
	}
	return inTemporary(func(work string) ([]byte, error) {
		wasm, err := build(work)
		if err != nil {
			return nil, err
		}
		return wasm, keep(file, wasm)
	})
}

// keep writes a file whole or not at all.
func keep(file string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fmt.Errorf("making the cache of guests: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(file), "new-")
	if err == nil {
		_, err = f.Write(data)
		err = errors.Join(err, f.Close())
		if err == nil {
			err = os.Rename(f.Name(), file)
		}
	}
	if err != nil {
		return fmt.Errorf("keeping a compiled guest: %w", err)
	}
	return nil
}

func inTemporary(build func(work string) ([]byte, error)) ([]byte, error) {
	work, err := os.MkdirTemp("", "longshore-guest-")
	if err != nil {
		return nil, fmt.Errorf("making a folder to compile in: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }()
	return build(work)
}

// sources reads the files of a tree with one of the endings, by name.
func sources(tree fs.FS, endings ...string) (map[string][]byte, error) {
	found := map[string][]byte{}
	entries, err := fs.ReadDir(tree, ".")
	if err != nil {
		return nil, fmt.Errorf("reading sources: %w", err)
	}
	for _, e := range entries {
		if e.IsDir() || !slices.Contains(endings, filepath.Ext(e.Name())) {
			continue
		}
		if found[e.Name()], err = fs.ReadFile(tree, e.Name()); err != nil {
			return nil, fmt.Errorf("reading sources: %w", err)
		}
	}
	return found, nil
}
