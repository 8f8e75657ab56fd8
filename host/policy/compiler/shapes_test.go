// The race detector needs more memory than the child may have.
//go:build !race

package compiler_test

import (
	"slices"

	. "github.com/longshore-dev/longshore/host/policy/encode"
)

// shape is a family of modules whose compilation costs more than their size.
type shape struct {
	// build returns the module of a size: the number of what the shape repeats, and of what
	// each of them meets.
	build func(n, m int) []byte
	// n and m of a module that is nearly as large as the bounds of package fuel allow.
	n, m int
}

func repeat(n int, part ...any) []byte { return slices.Repeat(Code(part...), n) }

func each(n int, part func(i int) []byte) []byte {
	var code []byte
	for i := range n {
		code = append(code, part(i)...)
	}
	return code
}

func values(n int, t byte) []byte { return slices.Repeat([]byte{t}, n) }

// body is a function's code with n local variables of a type, without the final end.
func body(n int, t byte, code ...any) []byte {
	return Code(1, Uleb(uint64(n)), t, Code(code...), 0x0b)
}

// oneFunction is a module with a memory and one function.
func oneFunction(locals int, t byte, code ...any) []byte {
	m := &Module{}
	m.Memory(1, 1)
	m.Export("describe", Function, m.RawFunc(nil, nil, body(locals, t, code...)))
	return m.Bytes()
}

const (
	block, loop, ifOp, elseOp, end = 0x02, 0x03, 0x04, 0x05, 0x0b
	br, brIf, brTable, empty       = 0x0c, 0x0d, 0x0e, 0x40
	drop, i64Add, i32Wrap, zero64  = 0x1a, 0x7c, 0xa7, 0x50
)

// increment adds one to a local variable.
func increment(i int) []byte {
	return Code(Get(uint64(i)), Const64(1), i64Add, Set(uint64(i)))
}

func truth(i int) []byte { return Code(Get(uint64(i)), zero64) }

// shapes are the worst that we found, by the part of the compiler that they wear out.
func shapes() map[string]shape {
	all := map[string]shape{}
	for _, group := range []map[string]shape{branchShapes(), valueShapes(), moduleShapes()} {
		for name, s := range group {
			all[name] = s
		}
	}
	return all
}

func branchShapes() map[string]shape {
	return map[string]shape{
		"a table of branches into a loop with many locals": {n: 400, m: 3000, build: func(n, m int) []byte {
			return oneFunction(n, I64, loop, empty, each(n, increment), truth(0), brTable, Uleb(uint64(m)), repeat(m, 0), 0, end)
		}},
		"a table of branches out of nested blocks": {n: 2000, m: 100, build: func(n, m int) []byte {
			return oneFunction(m, I64, loop, empty, repeat(n, block, empty), truth(0), brTable, Uleb(uint64(n)), each(n, func(i int) []byte { return Uleb(uint64(i)) }), 0,
				each(n, func(i int) []byte { return Code(end, increment(i%m)) }), truth(0), brIf, 0, end)
		}},
		"loops one after the other that change many locals": {n: 1000, m: 1000, build: func(n, m int) []byte {
			return oneFunction(m, I64, each(n, func(i int) []byte { return Code(loop, empty, increment(i%m), truth(i%m), brIf, 0, end) }), each(m, increment))
		}},
		"loops in loops that change many locals": {n: 200, m: 2000, build: func(n, m int) []byte {
			return oneFunction(m, I64, repeat(n, loop, empty), each(m, increment), each(n, func(i int) []byte { return Code(truth(i%m), brIf, 0, end) }))
		}},
		"branches that join many locals": {n: 1900, m: 1000, build: func(n, m int) []byte {
			return oneFunction(m, I64, each(n, func(i int) []byte { return Code(truth(0), ifOp, empty, increment(i%m), end) }), each(m, increment))
		}},
		"branches to one block from many places": {n: 3900, m: 500, build: func(n, m int) []byte {
			return oneFunction(m, I64, block, empty, each(n, func(i int) []byte { return Code(increment(i%m), truth(i%m), brIf, 0) }), end, each(m, increment))
		}},
		"a loop in front of many branches": {n: 2000, m: 500, build: func(n, m int) []byte {
			return oneFunction(m, I64, loop, empty, each(n, func(i int) []byte {
				return Code(truth(i%m), ifOp, empty, increment((i*7)%m), elseOp, increment((i*3)%m), end)
			}), truth(1), brIf, 0, end)
		}},
		"deep blocks": {n: 4000, m: 200, build: func(n, m int) []byte {
			return oneFunction(m, I64, repeat(n, block, empty), each(n, func(i int) []byte { return Code(increment(i%m), truth(i%m), brIf, Uleb(uint64(i%(n-i))), end) }))
		}},
		"locals read far from where they are set": {n: 1900, m: 20000, build: func(n, m int) []byte {
			return oneFunction(1000, I64, repeat(n, truth(0), brIf, 0), each(m, func(i int) []byte { return Code(Get(uint64(i%1000)), drop) }))
		}},
		"many small blocks": {n: 4500, m: 1, build: func(n, m int) []byte {
			return oneFunction(m, I64, repeat(n, block, empty, truth(0), brIf, 0, end))
		}},
	}
}

func valueShapes() map[string]shape {
	return map[string]shape{
		"values that wait on the stack across blocks": {n: 2000, m: 2000, build: func(n, m int) []byte {
			return oneFunction(2, I64, repeat(m, Get(0), Const64(1), i64Add), repeat(n, truth(1), ifOp, empty, increment(1), end), repeat(m, drop))
		}},
		"addresses that are known across blocks": {n: 1300, m: 1500, build: func(n, m int) []byte {
			return oneFunction(m, I32, each(m, func(i int) []byte {
				return Code(Get(uint64(i)), Const32(int64(i)), 0x6a, Set(uint64(i)), Get(uint64(i)), 0x28, 2, 0, drop)
			}),
				repeat(n, Get(0), brIf, 0), each(m, func(i int) []byte { return Code(Get(uint64(i)), 0x28, 2, 4, drop) }))
		}},
		"calls with many parameters and results": {n: 400, m: 60, build: func(n, m int) []byte {
			w := &Module{}
			w.Memory(1, 1)
			many := values(m, I64)
			self := w.RawFunc(many, many, Code(0, each(m, func(i int) []byte { return Get(uint64(i)) }), 0x0b))
			w.Export("describe", Function, w.RawFunc(nil, nil, body(1, I64, repeat(m, Get(0)), repeat(n, Call(self)), repeat(m, drop))))
			return w.Bytes()
		}},
		"blocks with many parameters and results": {n: 200, m: 60, build: func(n, m int) []byte {
			w := &Module{}
			w.Memory(1, 1)
			many := values(m, I64)
			w.RawFunc(many, many, Code(0, each(m, func(i int) []byte { return Get(uint64(i)) }), 0x0b))
			w.Export("describe", Function, w.RawFunc(nil, nil, body(1, I64, repeat(m, Get(0)), repeat(n, loop, 0, truth(0), brIf, 0), repeat(n, end), repeat(m, drop))))
			return w.Bytes()
		}},
		"a table of branches with many values": {n: 400, m: 60, build: func(n, m int) []byte {
			w := &Module{}
			w.Memory(1, 1)
			many := values(m, I64)
			w.RawFunc(many, many, Code(0, each(m, func(i int) []byte { return Get(uint64(i)) }), 0x0b))
			w.Export("describe", Function, w.RawFunc(nil, nil, body(1, I64, repeat(m, Get(0)), block, 0, truth(0), brTable, Uleb(uint64(n)), repeat(n, 0), 0, end, repeat(m, drop))))
			return w.Bytes()
		}},
		"one long block": {n: 25000, m: 500, build: func(n, m int) []byte {
			return oneFunction(m, I64, each(n, func(i int) []byte {
				return Code(Get(uint64(i%m)), Get(uint64((i*7+1)%m)), i64Add, Set(uint64((i*13)%m)))
			}))
		}},
		"selects in a chain": {n: 30000, m: 2, build: func(n, m int) []byte {
			return oneFunction(m, I64, Get(0), repeat(n, Get(1), truth(0), 0x1b), drop)
		}},
		"vectors": {n: 10000, m: 100, build: func(n, m int) []byte {
			return oneFunction(m, V128, each(n, func(i int) []byte {
				return Code(Get(uint64(i%m)), Code(0xfd, 12, Sleb(int64(i))[:1], values(15, byte(i))), 0xfd, 0xae, 1, Set(uint64((i*7)%m)))
			}))
		}},
		"shuffles": {n: 8000, m: 100, build: func(n, m int) []byte {
			return oneFunction(m, V128, each(n, func(i int) []byte {
				return Code(Get(uint64(i%m)), Get(uint64((i+1)%m)), 0xfd, 13, values(16, byte(i%32)), Set(uint64((i*7)%m)))
			}))
		}},
		"stores to many addresses": {n: 20000, m: 500, build: func(n, m int) []byte {
			return oneFunction(m, I32, each(n, func(i int) []byte { return Code(Get(uint64(i%m)), Get(uint64((i+1)%m)), 0x36, 2, Uleb(uint64(i*8))) }))
		}},
		"many locals that nothing uses": {n: 50000, m: 40, build: func(n, m int) []byte {
			w := &Module{}
			w.Memory(1, 1)
			for range m {
				w.RawFunc(nil, nil, body(n, I64))
			}
			w.Export("describe", Function, 0)
			return w.Bytes()
		}},
	}
}

func moduleShapes() map[string]shape {
	return map[string]shape{
		"calls in a module with many globals": {n: 1000, m: 390, build: func(n, m int) []byte {
			w := &Module{}
			w.Memory(1, 1)
			for range m {
				w.Global(I64, true, Const64(0))
			}
			callee := w.RawFunc(nil, nil, Code(0, 0x0b))
			w.Export("describe", Function, w.RawFunc(nil, nil, Code(0, each(m, func(i int) []byte { return Code(GlobalGet(uint64(i)), drop) }), repeat(n, Call(callee)), 0x0b)))
			return w.Bytes()
		}},
		"many functions in a module with many types": {n: 10000, m: 3500, build: func(n, m int) []byte {
			w := &Module{}
			w.Memory(1, 1)
			for i := range m {
				var params []byte
				for bit := range 13 {
					params = append(params, []byte{I32, I64}[i>>bit&1])
				}
				w.RawFunc(params, nil, Code(0, 0x0b))
			}
			for range n {
				w.RawFunc(nil, nil, Code(0, 0x0b))
			}
			w.Export("describe", Function, uint32(m))
			return w.Bytes()
		}},
		"many functions in a module with many globals": {n: 9000, m: 5000, build: func(n, m int) []byte {
			w := &Module{}
			w.Memory(1, 1)
			for range m {
				w.Global(I64, true, Const64(0))
			}
			for range n {
				w.RawFunc(nil, nil, Code(0, 0x0b))
			}
			w.Export("describe", Function, 0)
			return w.Bytes()
		}},
		"functions of moderate size": {n: 2000, m: 40, build: func(n, m int) []byte {
			w := &Module{}
			w.Memory(1, 1)
			for range n {
				w.RawFunc(nil, nil, body(m, I64, each(m, func(i int) []byte { return Code(loop, empty, increment(i), truth(i), brIf, 0, end) }), each(m, increment)))
			}
			w.Export("describe", Function, 0)
			return w.Bytes()
		}},
	}
}
