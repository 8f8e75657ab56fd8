//go:build !linux

package footprint

// dropExecutable has nothing to do where the system does not tell the mappings.
func dropExecutable() error { return nil }
