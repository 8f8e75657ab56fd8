// Package wasmtest compiles modules from Go source for tests.
package wasmtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

var (
	buildMutex sync.Mutex
	built      = map[string][]byte{}
)

// BuildGo compiles the main package in a directory for wasip1 as a library and
// returns its bytes. Each directory is compiled once per test binary.
func BuildGo(tb testing.TB, dir string) []byte {
	tb.Helper()
	dir, err := filepath.Abs(dir)
	if err != nil {
		tb.Fatal(err)
	}
	buildMutex.Lock()
	defer buildMutex.Unlock()
	if wasm, ok := built[dir]; ok {
		return wasm
	}
	file := filepath.Join(tb.TempDir(), "guest.wasm")
	cmd := exec.Command("go", "build", "-buildmode=c-shared", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", file, ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOFLAGS=")
	if text, err := cmd.CombinedOutput(); err != nil {
		tb.Fatalf("compiling the guest in %s: %v\n%s", dir, err, text)
	}
	wasm, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	built[dir] = wasm
	return wasm
}
