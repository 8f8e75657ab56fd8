//go:build !wasip1

package arena

// Bytes returns an empty list with a capacity of n bytes. Natively, policies may run
// concurrently, so the runtime allocates it.
func Bytes(n int) []byte { return make([]byte, 0, n) }
