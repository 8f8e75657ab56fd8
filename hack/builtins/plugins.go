package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// plugins compiles every example policy into bin/plugins/<name>/module.wasm.gz.
func plugins(messages io.Writer) error {
	top, err := root()
	if err != nil {
		return err
	}
	mains, err := filepath.Glob(filepath.Join(top, "plugins", "*", "main.go"))
	if err != nil {
		return fmt.Errorf("listing plugins: %w", err)
	}
	for _, main := range mains {
		dir := filepath.Dir(main)
		name := filepath.Base(dir)
		data, err := compile(dir)
		if err != nil {
			return err
		}
		packed, err := pack(data)
		if err != nil {
			return err
		}
		out := filepath.Join(top, "bin", "plugins", name)
		if _, err := writeIfChanged(filepath.Join(out, "module.wasm.gz"), packed); err != nil {
			return err
		}
		if err := copySpec(dir, out); err != nil {
			return err
		}
		fmt.Fprintf(messages, "plugins: %s: %d bytes, %d compressed\n", name, len(data), len(packed))
	}
	return nil
}

// copySpec puts the plugin's policy.yaml, an example of its binding, beside the module.
func copySpec(dir, out string) error {
	data, err := os.ReadFile(filepath.Join(dir, "policy.yaml"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading policy.yaml: %w", err)
	}
	_, err = writeIfChanged(filepath.Join(out, "policy.yaml"), data)
	return err
}
