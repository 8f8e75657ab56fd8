package arena

// Arena holds preallocated values of one type. Make it with [New].
type Arena[T any] struct {
	free  []T
	block int
	// initial makes the values; nil means that they are zero.
	initial func() T
}

// arenas are those that Refill refills.
var arenas []interface{ refill() }

// New returns an arena that allocates blocks of so many values, at least one. It is for
// package variables: the memory of an arena is never freed.
func New[T any](block int) *Arena[T] { return NewWith[T](block, nil) }

// NewWith is [New] for values that are not zero at first: [Arena.One] returns what the
// function makes.
func NewWith[T any](block int, initial func() T) *Arena[T] {
	a := &Arena[T]{block: block, initial: initial}
	a.free = a.allocate()
	arenas = append(arenas, a)
	return a
}

// allocate returns a block.
func (a *Arena[T]) allocate() []T {
	values := make([]T, a.block)
	if a.initial != nil {
		for i := range values {
			values[i] = a.initial()
		}
	}
	return values
}

// Refill refills the arenas of which more than half is used. It also makes the runtime
// allocate what else a call needs: one value of each size class, with and without pointers,
// and a stack that does not have to grow, because growing copies it, which costs as much as
// a decision.
func Refill() {
	for _, a := range arenas {
		a.refill()
	}
	for n := smallest; n <= largest; n += max(smallest, n/8) {
		bytes, pointers = make([]byte, n), make([]*byte, n/smallest*2)
	}
	growStack(len(bytes) + len(pointers))
	bytes, pointers = nil, nil
}

// Sizes of values, in bytes: the runtime has about thirty size classes between them.
const (
	smallest = 16
	largest  = 1024
)

// bytes and pointers are assigned so that the compiler does not remove the allocations.
var (
	bytes    []byte
	pointers []*byte
)

// growStack uses a large frame.
//
//go:noinline
func growStack(n int) byte {
	var frame [stackBytes]byte
	for i := range frame {
		frame[i] = byte(n)
	}
	return frame[n%stackBytes]
}

// stackBytes is more than a call needs unless it is recursive.
const stackBytes = 16 << 10

func (a *Arena[T]) refill() {
	if len(a.free) < a.block/2 {
		a.free = a.allocate()
	}
}

// One returns a value.
func (a *Arena[T]) One() *T {
	if len(a.free) == 0 {
		a.free = a.allocate()
	}
	one := &a.free[0]
	a.free = a.free[1:]
	return one
}

// Open returns an empty list with capacity for at least one value; the values up to its
// capacity are zero. The list may grow, also beyond its capacity. [Arena.Close] takes it when
// it is complete. The capacity of a list that is not closed is lost.
func (a *Arena[T]) Open() []T {
	open := a.free
	if len(open) == 0 {
		open = a.allocate()
	}
	a.free = nil
	return open[:0]
}

// Close returns a list of [Arena.Open] without its unused capacity, which goes back to the
// arena.
func (a *Arena[T]) Close(list []T) []T {
	n := len(list)
	if rest := list[n:cap(list)]; len(rest) > len(a.free) {
		a.free = rest
	}
	return list[:n:n]
}

// Make returns an empty list with a capacity of n values.
func (a *Arena[T]) Make(n int) []T {
	if n > len(a.free) {
		if n > a.block/2 {
			return make([]T, 0, n)
		}
		a.free = a.allocate()
	}
	list := a.free[:0:n]
	a.free = a.free[n:]
	return list
}
