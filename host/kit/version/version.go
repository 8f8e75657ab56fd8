// Package version reports the version of the binary.
package version

import "runtime/debug"

// Version returns the module version that the binary was built from, or "devel".
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "devel"
	}
	return info.Main.Version
}
