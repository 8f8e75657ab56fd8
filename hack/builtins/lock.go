package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	builtinpolicies "github.com/longshore-dev/longshore/builtin-policies"
)

// built is a compiled module and the lock that fits it.
type built struct {
	packed []byte
	lock   builtinpolicies.Lock
}

func compileBuiltins(top string) (*built, error) {
	version, err := goVersion(top)
	if err != nil {
		return nil, err
	}
	data, err := compile(filepath.Join(top, "builtin-policies", "module"))
	if err != nil {
		return nil, err
	}
	packed, err := pack(data)
	if err != nil {
		return nil, err
	}
	return &built{packed: packed, lock: builtinpolicies.Lock{
		Go: version, Size: len(data), SHA256: builtinpolicies.Digest(data), PackedSHA256: builtinpolicies.Digest(packed),
	}}, nil
}

// build compiles the built-in module into dist/. The lock follows the sources. With
// another Go version than the lock's it stays as it is, since a developer's toolchain
// does not decide what a release contains, and a local lock records what was built.
func build(messages io.Writer) error {
	top, err := root()
	if err != nil {
		return err
	}
	b, err := compileBuiltins(top)
	if err != nil {
		return err
	}
	folder := filepath.Join(top, "builtin-policies")
	if _, err := writeIfChanged(filepath.Join(folder, builtinpolicies.ModuleFile), b.packed); err != nil {
		return err
	}
	content, err := json.MarshalIndent(b.lock, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the lock: %w", err)
	}
	content = append(content, '\n')
	committed, err := committedLock(folder)
	if err != nil {
		return err
	}
	local := filepath.Join(folder, builtinpolicies.LocalLockFile)
	if committed != nil && committed.Go != b.lock.Go {
		fmt.Fprintf(messages, "builtins: warning: compiled with %s, the lock names %s: the digest may differ from a release's\n", b.lock.Go, committed.Go)
		_, err := writeIfChanged(local, content)
		return err
	}
	if err := os.Remove(local); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the local lock: %w", err)
	}
	changed, err := writeIfChanged(filepath.Join(folder, builtinpolicies.LockFile), content)
	if changed {
		fmt.Fprintf(messages, "builtins: %s changed: commit it with the sources\n", builtinpolicies.LockFile)
	}
	return err
}

// committedLock reads the lock, nil when there is none yet.
func committedLock(folder string) (*builtinpolicies.Lock, error) {
	data, err := os.ReadFile(filepath.Join(folder, builtinpolicies.LockFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the lock: %w", err)
	}
	lock, err := builtinpolicies.ParseLock(data)
	if err != nil {
		return nil, err
	}
	return &lock, nil
}

// verify compiles the built-in module and compares it with the lock.
func verify(messages io.Writer) error {
	top, err := root()
	if err != nil {
		return err
	}
	want, err := committedLock(filepath.Join(top, "builtin-policies"))
	if err != nil {
		return err
	}
	if want == nil {
		return fmt.Errorf("no %s: run make builtins and commit it", builtinpolicies.LockFile)
	}
	b, err := compileBuiltins(top)
	if err != nil {
		return err
	}
	return compare(b.lock, *want, messages)
}

// compare returns an error if the built module is not that of the lock.
func compare(got, want builtinpolicies.Lock, messages io.Writer) error {
	if got.Go != want.Go {
		return fmt.Errorf("the lock names %s, this is %s: verify with the lock's Go", want.Go, got.Go)
	}
	if got != want {
		return fmt.Errorf("the sources give a module with digest %.12s (%d bytes), the lock has %.12s (%d bytes): run make builtins and commit %s",
			got.SHA256, got.Size, want.SHA256, want.Size, builtinpolicies.LockFile)
	}
	fmt.Fprintf(messages, "builtins: sha256:%s, as locked\n", got.SHA256)
	return nil
}
