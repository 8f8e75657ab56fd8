package json

import (
	"errors"
	"strconv"
)

// The reasons why a document is refused. [Scanner.Err] wraps one of them and adds
// the offset.
var (
	// ErrSyntax is a document that is not JSON.
	ErrSyntax = errors.New("invalid JSON")
	// ErrUTF8 is a string that is not UTF-8, or an escape that is half a surrogate pair.
	ErrUTF8 = errors.New("invalid UTF-8")
	// ErrDepth is a document nested deeper than MaxDepth.
	ErrDepth = errors.New("nested too deep")
	// ErrType is a value of another type than the one asked for.
	ErrType = errors.New("unexpected type")
)

// SyntaxError is the position and the reason at which a document was refused.
type SyntaxError struct {
	// Offset is the byte at which the scanner stopped.
	Offset int
	// Err is ErrSyntax, ErrUTF8, ErrDepth or ErrType.
	Err error
}

// Error describes the error in one line.
func (e *SyntaxError) Error() string {
	return e.Err.Error() + " at byte " + strconv.Itoa(e.Offset)
}

// Unwrap returns the reason.
func (e *SyntaxError) Unwrap() error { return e.Err }
