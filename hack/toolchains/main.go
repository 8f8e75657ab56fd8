// Command toolchains installs the compilers of the test guests that come from npm. The
// others, clang, lld and rustc, come from the system's packages (.ci/run installs them).
// Tests that need a missing one are skipped, with the reason.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/longshore-dev/longshore/conformance/guests"
	"github.com/longshore-dev/longshore/conformance/guests/toolchain"
)

func main() {
	if _, err := toolchain.InstallPackages(context.Background(), guests.AssemblyScript()); err != nil {
		fmt.Fprintln(os.Stderr, "toolchains:", err)
		os.Exit(1)
	}
}
