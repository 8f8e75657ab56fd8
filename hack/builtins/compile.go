package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// compile builds the main package in dir as a wasm library and returns its bytes.
// Two builds with one Go version give the same bytes, wherever the clone is: no
// paths, no version control stamp, none of the developer's Go settings.
func compile(dir string) ([]byte, error) {
	out, err := os.MkdirTemp("", "longshore-wasm-")
	if err != nil {
		return nil, fmt.Errorf("creating a folder for the module: %w", err)
	}
	// Files that stay in the temporary folder do no harm.
	defer func() { _ = os.RemoveAll(out) }()
	file := filepath.Join(out, "module.wasm")
	cmd := exec.Command("go", "build", "-buildmode=c-shared", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid=", "-o", file, ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOFLAGS=", "GOEXPERIMENT=", "GOWASM=", "GOWORK=off")
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("compiling %s: %w\n%s", dir, err, text)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the module: %w", err)
	}
	return data, nil
}

// pack compresses with gzip. Its header holds neither name nor time, so equal modules
// give equal files.
func pack(data []byte) ([]byte, error) {
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return nil, fmt.Errorf("preparing compression: %w", err)
	}
	if _, err := w.Write(data); err != nil {
		return nil, fmt.Errorf("compressing: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("compressing: %w", err)
	}
	return packed.Bytes(), nil
}

// goVersion returns the version of the toolchain that compile uses, e.g. "go1.26.8".
func goVersion(dir string) (string, error) {
	cmd := exec.Command("go", "env", "GOVERSION")
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("asking go for its version: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// root finds the top folder of the clone, from wherever the command runs in it.
func root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the working folder: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "builtin-policies", "builtin.go")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("no builtin-policies here or above: run this inside the clone")
		}
		dir = parent
	}
}

// writeIfChanged writes a file unless it has this content already, so that build
// caches stay warm.
func writeIfChanged(file string, data []byte) (bool, error) {
	if old, err := os.ReadFile(file); err == nil && bytes.Equal(old, data) {
		return false, nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return false, fmt.Errorf("creating the folder of %s: %w", file, err)
	}
	if err := os.WriteFile(file, data, 0o644); err != nil {
		return false, fmt.Errorf("writing %s: %w", file, err)
	}
	return true, nil
}
