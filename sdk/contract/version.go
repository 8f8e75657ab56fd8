package contract

// Version is the contract version that this package speaks. It stands in every
// [Request] and [Response]. It is a different number from the version of the ABI
// (Extism's), which defines how bytes are passed, not their meaning.
const Version = "v1alpha1"

// Versions lists the contract versions that a host built with this package
// serves, preferred one first.
func Versions() []string { return []string{Version} }

// Negotiate picks the first version in the host's order that the module speaks
// too. It reports false when there is none.
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
