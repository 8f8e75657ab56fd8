package fuel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Names are the names of the exports that rewriting adds.
type Names struct {
	// Fuel is the name of a mutable i64 global: the remaining fuel. The module calls the host
	// when it is negative.
	Fuel string
	// Stack is the name of a mutable i64 global: the remaining stack, negative after a trap
	// because calls were nested too deep.
	Stack string
	// RefuelModule and Refuel are the names of an imported function without parameters or
	// results, which is called when the fuel is negative. It adds fuel or ends the call.
	RefuelModule, Refuel string
	// Globals is the prefix of the names of the mutable globals; the global's index follows.
	Globals string
	// Memory is the name of the memory, if the module does not import one.
	Memory string
	// Start is the name of the start function, which no longer runs by itself.
	Start string
}

// initialFuel is the value of fuel and stack until the host sets them. Code that runs earlier
// calls the host.
const initialFuel = 0

// Rewritten is the result of rewriting a module.
type Rewritten struct {
	// Wasm is the module. Custom sections are dropped.
	Wasm []byte
	// Unrestorable lists state that the module changes outside its memory and the exported
	// globals: "table.set in function 12", "global 3 of type v128". A host cannot reset such an
	// instance.
	Unrestorable []string
}

// Meter returns the module with charges and exports.
func (m *Module) Meter(names Names) (*Rewritten, error) { return m.rewrite(names, true) }

// Expose returns the module with the exports but without charges, to measure the cost of
// metering. Calls of such a module may not end.
func (m *Module) Expose(names Names) (*Rewritten, error) { return m.rewrite(names, false) }

func (m *Module) rewrite(names Names, charge bool) (*Rewritten, error) {
	if err := m.checkNames(names); err != nil {
		return nil, err
	}
	w := &metering{charge: charge, fuel: m.fuelIndex(), stack: m.fuelIndex() + 1, module: m, signatures: slices.Clip(m.signatures)}
	own := map[byte][]byte{}
	if charge {
		w.look = uint32(m.importedFunctions)
		w.fill = uint32(len(m.functions)) + 1
		w.copy = w.fill + 1
		own[sectionImport] = m.importSection(names, w.typeIndex(Signature{}))
		own[sectionElement] = m.shifted(sectionElement)
	}
	code, err := m.code(w)
	if err != nil {
		return nil, err
	}
	if w.parts {
		own[sectionFunction] = m.functionSection(w.typeIndex(Signature{Params: partTypes}))
	}
	own[sectionType] = m.typeSection(w.signatures[len(m.signatures):])
	own[sectionGlobal] = m.globalSection(charge)
	own[sectionExport] = m.exportSection(names, charge)
	out := make([]byte, 0, len(code)+len(code)/4+m.size())
	out = append(out, header...)
	for id := byte(sectionType); id <= sectionDataCount; id++ {
		out = m.rewriteSection(out, order[id-1], own, code)
	}
	return &Rewritten{Wasm: out, Unrestorable: append(m.unrestorableGlobals(), w.unrestorable...)}, nil
}

// unrestorableGlobals lists the mutable globals with more than 64 bits or with a reference.
func (m *Module) unrestorableGlobals() []string {
	var names []string
	for _, g := range m.Globals {
		if g.Mutable && !g.Type.number() {
			names = append(names, fmt.Sprintf("global %d of type %s", g.Index, g.Type))
		}
	}
	return names
}

// order lists the sections by rank.
var order = [...]byte{
	sectionType, sectionImport, sectionFunction, sectionTable, sectionMemory, sectionGlobal,
	sectionExport, sectionStart, sectionElement, sectionDataCount, sectionCode, sectionData,
}

func (m *Module) rewriteSection(out []byte, id byte, own map[byte][]byte, code []byte) []byte {
	content := own[id]
	switch {
	case content != nil:
	case id == sectionStart:
		return out
	case id == sectionCode && len(m.bodies) > 0:
		content = code
	default:
		s := m.find(id)
		if s == nil {
			return out
		}
		content = s.data
	}
	return appendSection(out, id, content)
}

func (m *Module) find(id byte) *section {
	for i := range m.sections {
		if m.sections[i].id == id {
			return &m.sections[i]
		}
	}
	return nil
}

func (m *Module) size() int {
	n := 1024
	for i := range m.sections {
		if m.sections[i].id != sectionCode {
			n += len(m.sections[i].data) + 16
		}
	}
	return n
}

// checkNames returns an error if the module exports one of the added names itself.
func (m *Module) checkNames(names Names) error {
	if slices.Contains([]string{names.Fuel, names.Stack, names.RefuelModule, names.Refuel, names.Globals, names.Memory, names.Start}, "") {
		return errors.New("the names of the exports are not set")
	}
	for _, e := range m.Exports {
		if e.Name == names.Fuel || e.Name == names.Stack || e.Name == names.Memory || e.Name == names.Start || strings.HasPrefix(e.Name, names.Globals) {
			return fmt.Errorf("the module exports %q, a name that the host reserves: rename it", e.Name)
		}
	}
	for _, i := range m.Imports {
		if i.Module == names.RefuelModule && i.Name == names.Refuel {
			return fmt.Errorf("the module imports %s.%s, a name that the host reserves: remove the import", i.Module, i.Name)
		}
	}
	return nil
}

// fuelIndex is the index of the fuel global. It follows the globals of the module, and the
// stack global follows it.
func (m *Module) fuelIndex() uint32 { return uint32(m.importedGlobals + len(m.Globals)) }

// vector appends items to a list as encoded in a section, which may be nil.
func vector(section []byte, count int, items []byte) []byte {
	var present []byte
	if section != nil {
		r := &reader{data: section}
		count += int(r.u32())
		present = section[r.pos:]
	}
	out := binary.AppendUvarint(make([]byte, 0, len(present)+len(items)+8), uint64(count))
	return append(append(out, present...), items...)
}

// content returns the content of a section, nil when it is absent.
func (m *Module) content(id byte) []byte {
	if s := m.find(id); s != nil {
		return s.data
	}
	return nil
}

// shifted returns a section with the indices of functions increased for the added import.
func (m *Module) shifted(id byte) []byte {
	s := m.find(id)
	if s == nil {
		return nil
	}
	out := make([]byte, 0, len(s.data)+len(s.functions))
	copied := 0
	for _, f := range s.functions {
		out = append(out, s.data[copied:f.from]...)
		out = binary.AppendUvarint(out, uint64(m.shift(f.index)))
		copied = f.to
	}
	return append(out, s.data[copied:]...)
}

// shift returns the index of a function after the added import.
func (m *Module) shift(function uint32) uint32 {
	if int64(function) >= int64(m.importedFunctions) {
		return function + 1
	}
	return function
}

// importSection appends the function that is called when the fuel is negative.
func (m *Module) importSection(names Names, signature uint32) []byte {
	items := append(sized([]byte(names.RefuelModule)), sized([]byte(names.Refuel))...)
	items = binary.AppendUvarint(append(items, byte(KindFunction)), uint64(signature))
	return vector(m.content(sectionImport), 1, items)
}

// functionSection appends the functions that fill and copy memory.
func (m *Module) functionSection(signature uint32) []byte {
	item := binary.AppendUvarint(nil, uint64(signature))
	return vector(m.content(sectionFunction), 2, append(item, item...))
}

// typeSection appends types.
func (m *Module) typeSection(added []Signature) []byte {
	var items []byte
	for _, s := range added {
		items = append(items, 0x60)
		for _, types := range [][]ValueType{s.Params, s.Results} {
			items = binary.AppendUvarint(items, uint64(len(types)))
			for _, t := range types {
				items = append(items, byte(t))
			}
		}
	}
	return vector(m.content(sectionType), len(added), items)
}

// globalSection appends fuel and stack.
func (m *Module) globalSection(charge bool) []byte {
	present := m.content(sectionGlobal)
	if charge {
		present = m.shifted(sectionGlobal)
	}
	item := append(appendConst64([]byte{byte(I64), 1}, initialFuel), opEnd)
	return vector(present, 2, append(item, item...))
}

func (m *Module) exportSection(names Names, charge bool) []byte {
	var items []byte
	count := 0
	add := func(name string, kind Kind, index uint32) {
		if kind == KindFunction && charge {
			index = m.shift(index)
		}
		items = binary.AppendUvarint(items, uint64(len(name)))
		items = append(append(items, name...), byte(kind))
		items = binary.AppendUvarint(items, uint64(index))
		count++
	}
	for _, e := range m.Exports {
		add(e.Name, e.Kind, e.index)
	}
	add(names.Fuel, KindGlobal, m.fuelIndex())
	add(names.Stack, KindGlobal, m.fuelIndex()+1)
	for _, g := range m.Globals {
		if g.Mutable && g.Type.number() {
			add(names.Globals+strconv.FormatUint(uint64(g.Index), 10), KindGlobal, g.Index)
		}
	}
	if m.Memory != nil {
		add(names.Memory, KindMemory, uint32(m.importedMemories))
	}
	if m.HasStart {
		add(names.Start, KindFunction, m.start)
	}
	return vector(nil, count, items)
}

func (m *Module) code(w *metering) ([]byte, error) {
	total := 0
	for _, b := range m.bodies {
		total += len(b.data) + 8
	}
	out := make([]byte, 0, total+total/8)
	for i := range m.bodies {
		var err error
		if out, err = w.function(out, i); err != nil {
			return nil, fmt.Errorf("rewriting function %d: %w", m.importedFunctions+i, err)
		}
	}
	count := len(m.bodies)
	if w.parts {
		out, count = append(out, w.partFunctions()...), count+2
	}
	return append(binary.AppendUvarint(make([]byte, 0, len(out)+4), uint64(count)), out...), nil
}
