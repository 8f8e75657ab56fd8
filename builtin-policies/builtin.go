// Package builtinpolicies carries the built-in policies as a compiled wasm module.
//
// The module itself is not in version control: `make builtins` compiles it from
// builtin-policies/module into dist/, from where it is embedded. What is in version
// control is dist/builtin.lock, the digest that a build must have, so a fresh clone
// compiles without the module and no other module runs by accident.
package builtinpolicies

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
)

// The files of dist/.
const (
	// ModuleFile is the module, compressed with gzip.
	ModuleFile = "dist/builtin.wasm.gz"
	// LockFile is the lock under version control.
	LockFile = "dist/builtin.lock"
	// LocalLockFile replaces LockFile in a clone whose Go is not the one that LockFile
	// names; it is never committed.
	LocalLockFile = "dist/builtin.wasm.lock"
)

//go:embed dist
var dist embed.FS

// Lock identifies the compiled module.
type Lock struct {
	// Go is the exact version of the toolchain: another patch version may give other bytes.
	Go string `json:"go"`
	// Size of the unpacked module, in bytes.
	Size int `json:"size"`
	// SHA256 of the unpacked module, in hexadecimal: what a policy's status and the
	// decisions annotation show.
	SHA256 string `json:"sha256"`
	// PackedSHA256 is the SHA-256 of the compressed module.
	PackedSHA256 string `json:"packedSHA256"`
}

// ErrNotBuilt is returned by [Module] in a binary that was built before the module.
var ErrNotBuilt = errors.New("the built-in policies are not compiled into this binary: run make builtins and build again")

// Module returns the compressed module. It fails with [ErrNotBuilt] when the module
// is missing, and when the module is not the one that the lock names.
func Module() ([]byte, error) { return module(dist) }

// Locked returns the lock of the compiled module.
func Locked() (Lock, error) { return readLock(dist) }

func module(files fs.FS) ([]byte, error) {
	packed, err := fs.ReadFile(files, ModuleFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNotBuilt
	}
	if err != nil {
		return nil, fmt.Errorf("reading the built-in policies: %w", err)
	}
	lock, err := readLock(files)
	if err != nil {
		return nil, err
	}
	if got := Digest(packed); got != lock.PackedSHA256 {
		return nil, fmt.Errorf("the built-in policies have digest %.12s, but the lock has %.12s: run make builtins and build again", got, lock.PackedSHA256)
	}
	return packed, nil
}

func readLock(files fs.FS) (Lock, error) {
	data, err := fs.ReadFile(files, LocalLockFile)
	if errors.Is(err, fs.ErrNotExist) {
		data, err = fs.ReadFile(files, LockFile)
	}
	if err != nil {
		return Lock{}, fmt.Errorf("reading the lock of the built-in policies: %w", err)
	}
	return ParseLock(data)
}

// ParseLock reads a lock file.
func ParseLock(data []byte) (Lock, error) {
	var lock Lock
	if err := json.Unmarshal(data, &lock); err != nil {
		return Lock{}, fmt.Errorf("parsing the lock of the built-in policies: %w", err)
	}
	return lock, nil
}

// Digest returns the SHA-256 of data in hexadecimal, as locks hold it.
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
