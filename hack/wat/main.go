// Command wat assembles WebAssembly text: the files, one after the other, are one module.
//
//	go run ./hack/wat docs/tutorials/modules/trap.wat > trap.wasm
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/longshore-dev/longshore/conformance/wat"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "wat:", err)
		os.Exit(1)
	}
}

func run(files []string, out io.Writer) error {
	if len(files) == 0 {
		return errors.New("want the files of a module in WebAssembly text format")
	}
	var text strings.Builder
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("reading the module's text: %w", err)
		}
		text.Write(content)
		text.WriteByte('\n')
	}
	wasm, err := wat.Assemble(text.String())
	if err != nil {
		return fmt.Errorf("assembling %s: %w", strings.Join(files, ", "), err)
	}
	if _, err := out.Write(wasm); err != nil {
		return fmt.Errorf("writing the module: %w", err)
	}
	return nil
}
