// Package rust holds the SDK for policies in Rust, one file, for programs that create or
// compile policies.
package rust

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Source is the content of longshore.rs, which a policy has as its module longshore.
//
//go:embed longshore.rs
var Source string

// SourceFile is the name of the file with Source.
const SourceFile = "longshore.rs"

// Target is the target of the compiler for policies.
const Target = "wasm32-unknown-unknown"

// ErrNoCompiler is the error when no compiler for the target is installed.
var ErrNoCompiler = errors.New("no rustc with the standard library for " + Target +
	" is installed: install one (Debian: apt-get install rustc libstd-rust-dev-wasm32 lld; rustup: rustup target add " + Target + "), or set RUSTC to its path")

// Arguments returns the arguments with which the compiler compiles the policy in source, a
// file beside longshore.rs, to the module in output.
func Arguments(source, output string) []string {
	return []string{
		"--edition", "2021", "--crate-type", "cdylib", "--target", Target,
		"-C", "opt-level=s", "-C", "panic=abort", "-C", "lto=fat", "-C", "strip=symbols", "-C", "link-arg=-zstack-size=65536",
		"-o", output, source,
	}
}

// Compiler returns the path of the first rustc in path, a list of folders like PATH, that
// has the standard library for Target. The first rustc of a machine is often one without it.
// The error is ErrNoCompiler, with the compilers that lack the target.
func Compiler(ctx context.Context, path string) (string, error) {
	var lacking []string
	for _, folder := range filepath.SplitList(path) {
		rustc := filepath.Join(folder, "rustc")
		if found, err := exec.LookPath(rustc); err != nil || found != rustc {
			continue
		}
		if HasTarget(ctx, rustc) {
			return rustc, nil
		}
		lacking = append(lacking, rustc)
	}
	if len(lacking) > 0 {
		return "", fmt.Errorf("%w; without it: %s", ErrNoCompiler, strings.Join(lacking, ", "))
	}
	return "", ErrNoCompiler
}

// HasTarget reports whether the compiler has the standard library for Target.
func HasTarget(ctx context.Context, rustc string) bool {
	folder, err := exec.CommandContext(ctx, rustc, "--print", "target-libdir", "--target", Target).Output()
	if err != nil {
		return false
	}
	libraries, err := os.ReadDir(strings.TrimSpace(string(folder)))
	if err != nil {
		return false
	}
	for _, library := range libraries {
		if strings.HasPrefix(library.Name(), "libstd-") {
			return true
		}
	}
	return false
}
