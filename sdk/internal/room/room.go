package room

// Of is a supply of values of one type. Make it with [New].
type Of[T any] struct {
	free    []T
	portion int
	// initial makes the values; nil means that they are zero.
	initial func() T
}

// supplies are those that Fill fills.
var supplies []interface{ fill() }

// New returns a supply that is made in portions of so many values, at least one. It is
// for package variables: a supply is never given up.
func New[T any](portion int) *Of[T] { return NewWith[T](portion, nil) }

// NewWith is [New] for values that are not zero at first: [Of.One] returns what the
// function makes.
func NewWith[T any](portion int, initial func() T) *Of[T] {
	o := &Of[T]{portion: portion, initial: initial}
	o.free = o.more()
	supplies = append(supplies, o)
	return o
}

// more returns a portion.
func (o *Of[T]) more() []T {
	values := make([]T, o.portion)
	if o.initial != nil {
		for i := range values {
			values[i] = o.initial()
		}
	}
	return values
}

// Fill makes the supplies full of which more than half was taken. What else a call needs it
// makes the runtime make now: a piece of memory for values of each size, with pointers and
// without, and a stack that need not grow, since a stack that grows is copied, which costs
// as much as a decision.
func Fill() {
	for _, s := range supplies {
		s.fill()
	}
	for n := smallest; n <= largest; n += max(smallest, n/8) {
		bytes, pointers = make([]byte, n), make([]*byte, n/smallest*2)
	}
	deepen(len(bytes) + len(pointers))
	bytes, pointers = nil, nil
}

// Sizes of values, in bytes: a runtime keeps memory for each of some thirty.
const (
	smallest = 16
	largest  = 1024
)

// bytes and pointers are written to so that the values are made.
var (
	bytes    []byte
	pointers []*byte
)

// deepen uses a large frame.
//
//go:noinline
func deepen(n int) byte {
	var frame [stackBytes]byte
	for i := range frame {
		frame[i] = byte(n)
	}
	return frame[n%stackBytes]
}

// stackBytes is more than a call needs unless it is recursive.
const stackBytes = 16 << 10

func (o *Of[T]) fill() {
	if len(o.free) < o.portion/2 {
		o.free = o.more()
	}
}

// One returns a value.
func (o *Of[T]) One() *T {
	if len(o.free) == 0 {
		o.free = o.more()
	}
	one := &o.free[0]
	o.free = o.free[1:]
	return one
}

// Open returns an empty list with room for at least one value, behind which are zero
// values up to its capacity. The list may grow, also beyond its capacity; [Of.Keep] takes
// it when it is complete. A list that is not kept costs its room.
func (o *Of[T]) Open() []T {
	open := o.free
	if len(open) == 0 {
		open = o.more()
	}
	o.free = nil
	return open[:0]
}

// Keep returns a list of [Of.Open] without the room behind it, which goes back to the
// supply.
func (o *Of[T]) Keep(list []T) []T {
	n := len(list)
	if rest := list[n:cap(list)]; len(rest) > len(o.free) {
		o.free = rest
	}
	return list[:n:n]
}

// Empty returns an empty list with room for n values.
func (o *Of[T]) Empty(n int) []T {
	if n > len(o.free) {
		if n > o.portion/2 {
			return make([]T, 0, n)
		}
		o.free = o.more()
	}
	empty := o.free[:0:n]
	o.free = o.free[n:]
	return empty
}
