package toolchain

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/longshore-dev/longshore/sdk/rust"
)

// Rustc returns the path of a Rust compiler that has the standard library for wasm.
func Rustc(ctx context.Context) (string, error) {
	rustc, err := rust.Compiler(ctx, os.Getenv("PATH"))
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrMissing, err)
	}
	return rustc, nil
}

// Rust compiles one file of Rust, which can have the SDK's longshore.rs as its module longshore.
func Rust(ctx context.Context, source []byte) ([]byte, error) {
	rustc, err := Rustc(ctx)
	if err != nil {
		return nil, err
	}
	version, err := exec.CommandContext(ctx, rustc, "--version").Output()
	if err != nil {
		return nil, fmt.Errorf("asking rustc for its version: %w", err)
	}
	arguments := append(rust.Arguments("policy.rs", "guest.wasm"), "-D", "warnings")
	return cached(key("rust", string(version), strings.Join(arguments, " "), string(source), rust.Source), func(work string) ([]byte, error) {
		for name, content := range map[string][]byte{"policy.rs": source, rust.SourceFile: []byte(rust.Source)} {
			if err := os.WriteFile(filepath.Join(work, name), content, 0o600); err != nil {
				return nil, fmt.Errorf("writing the source: %w", err)
			}
		}
		cmd := exec.CommandContext(ctx, rustc, arguments...)
		cmd.Dir = work
		return output(cmd, filepath.Join(work, "guest.wasm"))
	})
}
