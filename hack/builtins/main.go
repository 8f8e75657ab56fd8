// Command builtins compiles policy modules to wasm, reproducibly: the built-in ones
// into builtin-policies/dist, with a lock, and the examples of plugins/ into
// bin/plugins.
//
//	go run ./hack/builtins build     compile the built-in module, update its lock
//	go run ./hack/builtins verify    compile it in a temporary folder and compare with the lock
//	go run ./hack/builtins plugins   compile the example policies
package main

import (
	"fmt"
	"io"
	"os"
)

func main() {
	if err := run(os.Args[1:], os.Stderr); err != nil {
		fmt.Fprintf(os.Stderr, "builtins: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string, messages io.Writer) error {
	if len(args) != 1 {
		return fmt.Errorf("want one argument: build, verify or plugins")
	}
	switch args[0] {
	case "build":
		return build(messages)
	case "verify":
		return verify(messages)
	case "plugins":
		return plugins(messages)
	default:
		return fmt.Errorf("unknown command %q: want build, verify or plugins", args[0])
	}
}
