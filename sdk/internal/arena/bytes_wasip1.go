package arena

// text holds requests and responses.
var text = New[byte](64 << 10)

// Bytes returns an empty list with a capacity of n bytes.
func Bytes(n int) []byte { return text.Make(n) }
