//go:build !wasip1

package room

// Bytes returns an empty list of bytes with room for n. Natively policies may run side by
// side, so it comes from the runtime.
func Bytes(n int) []byte { return make([]byte, 0, n) }
