package contract

// Version is the contract version that this package implements. It is a field of every
// [Request] and [Response]. It is independent of the version of the ABI (Extism's),
// which defines how bytes are passed and not their meaning.
const Version = "v1alpha1"

// Versions lists the contract versions that a host built with this package
// serves, preferred one first.
func Versions() []string { return []string{Version} }

// Negotiate returns the first of the host's versions that the module implements too.
// It reports false if there is none.
func Negotiate(host, module []string) (string, bool) {
	for _, h := range host {
		for _, m := range module {
			if h == m {
				return h, true
			}
		}
	}
	return "", false
}
