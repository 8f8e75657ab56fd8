// Package version reports the version of the binary.
package version

import "runtime/debug"

// released is the version of a released binary; the linker sets it (hack/release).
var released string

// Version returns the version of a released binary, or else the version of the module that it
// was built from, or "devel".
func Version() string {
	if released != "" {
		return released
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "devel"
	}
	return info.Main.Version
}
