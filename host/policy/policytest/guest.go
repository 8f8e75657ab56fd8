package policytest

import "github.com/longshore-dev/longshore/host/policy/encode"

// Guest is a module whose exports answer with fixed texts.
type Guest struct {
	encode.Module
	at                   int64
	alloc, store, output uint32
}

// NewGuest returns a module without exports. Imports must be added before them.
func NewGuest() *Guest {
	w := []byte{encode.I64}
	g := &Guest{}
	g.alloc = g.Import("extism:host/env", "alloc", w, w)
	g.store = g.Import("extism:host/env", "store_u8", []byte{encode.I64, encode.I32}, nil)
	g.output = g.Import("extism:host/env", "output_set", []byte{encode.I64, encode.I64}, nil)
	g.Memory(1, 1)
	return g
}

// Answers adds an export that answers with a text, copied byte by byte, after it executed
// the instructions of first.
func (g *Guest) Answers(export, text string, first ...any) *Guest {
	from, size := g.at, int64(len(text))
	g.Data(from, text)
	g.at += size
	const block, n = 0, 1
	g.Export(export, encode.Function, g.Func(nil, []byte{encode.I32}, []byte{encode.I64, encode.I64},
		encode.Code(first...),
		encode.Const64(size), encode.Call(g.alloc), encode.Set(block),
		0x03, 0x40, encode.Get(n), encode.Const64(size), 0x54, 0x04, 0x40,
		encode.Get(block), encode.Get(n), 0x7c,
		encode.Get(n), 0xa7, encode.Const32(from), 0x6a, 0x2d, 0, 0, encode.Call(g.store),
		encode.Get(n), encode.Const64(1), 0x7c, encode.Set(n), 0x0c, 1, 0x0b, 0x0b,
		encode.Get(block), encode.Const64(size), encode.Call(g.output), encode.Const32(0)))
	return g
}
