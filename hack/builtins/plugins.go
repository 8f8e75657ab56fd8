package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/longshore-dev/longshore/conformance/guests"
	"github.com/longshore-dev/longshore/conformance/guests/toolchain"
)

// plugins compiles every example policy into bin/plugins/<name>/module.wasm.gz.
func plugins(messages io.Writer) error {
	top, err := root()
	if err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(top, "plugins", "*", "plugin.yaml"))
	if err != nil {
		return fmt.Errorf("listing plugins: %w", err)
	}
	for _, file := range files {
		dir := filepath.Dir(file)
		name := filepath.Base(dir)
		data, err := guests.BuildFolder(context.Background(), dir)
		if errors.Is(err, toolchain.ErrMissing) {
			fmt.Fprintf(messages, "plugins: %s is left out: %v\n", name, err)
			continue
		}
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
