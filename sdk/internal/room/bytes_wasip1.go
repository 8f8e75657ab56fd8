package room

// text is what requests and answers are written to.
var text = New[byte](64 << 10)

// Bytes returns an empty list of bytes with room for n.
func Bytes(n int) []byte { return text.Empty(n) }
