package fuel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Names are the export names that the rewritten module gets beside its own.
type Names struct {
	// Fuel is the name of a mutable i64 global: the ticks left, negative after a trap
	// for want of fuel.
	Fuel string
	// Globals is the prefix of the names of the mutable globals; the global's index follows.
	Globals string
	// Memory is the name of the memory, if the module has one of its own.
	Memory string
	// Start is the name of what was the start function; it no longer runs by itself.
	Start string
}

// initialFuel is what the fuel global holds until the host sets it: nothing, so that
// code which runs before the host has set a budget traps.
const initialFuel = 0

// Rewritten is the result of rewriting a module.
type Rewritten struct {
	// Wasm is the module. Custom sections are dropped, data segments joined where nobody
	// can tell.
	Wasm []byte
	// Unrestorable names what the module changes beside its memory and the exported
	// globals, once each: "table.set in function 12", "global 3 of type v128". A host
	// cannot bring such an instance back to an earlier state.
	Unrestorable []string
}

// Meter returns the module with charges and exports.
func (m *Module) Meter(names Names) (*Rewritten, error) { return m.rewrite(names, true) }

// Expose returns the module with the exports, but without any charge: with it one
// measures what metering costs. A module made so must not be trusted to end.
func (m *Module) Expose(names Names) (*Rewritten, error) { return m.rewrite(names, false) }

func (m *Module) rewrite(names Names, charge bool) (*Rewritten, error) {
	if err := m.checkNames(names); err != nil {
		return nil, err
	}
	w := &metering{charge: charge, global: m.fuelIndex(), module: m, signatures: slices.Clip(m.signatures)}
	code, err := m.code(w)
	if err != nil {
		return nil, err
	}
	own := map[byte][]byte{
		sectionType:   m.typeSection(w.signatures[len(m.signatures):]),
		sectionGlobal: m.globalSection(),
		sectionExport: m.exportSection(names),
	}
	if data := m.joined(); data != nil {
		own[sectionData] = data
	}
	out := make([]byte, 0, len(code)+len(code)/4+m.size())
	out = append(out, header...)
	for id := byte(sectionType); id <= sectionDataCount; id++ {
		out = m.appendSection(out, order[id-1], own, code)
	}
	return &Rewritten{Wasm: out, Unrestorable: append(m.unrestorableGlobals(), w.unrestorable...)}, nil
}

// unrestorableGlobals names the mutable globals whose value does not fit 64 bits or
// is a reference.
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

func (m *Module) appendSection(out []byte, id byte, own map[byte][]byte, code []byte) []byte {
	content, ok := own[id]
	switch {
	case ok:
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
	out = append(out, id)
	out = binary.AppendUvarint(out, uint64(len(content)))
	return append(out, content...)
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

// checkNames makes sure that the module cannot pass off its own exports as ours.
func (m *Module) checkNames(names Names) error {
	if names.Fuel == "" || names.Globals == "" || names.Memory == "" || names.Start == "" {
		return errors.New("the names of the exports are not set")
	}
	for _, e := range m.Exports {
		if e.Name == names.Fuel || e.Name == names.Memory || e.Name == names.Start || strings.HasPrefix(e.Name, names.Globals) {
			return fmt.Errorf("the module exports %q, a name that the host reserves: rename it", e.Name)
		}
	}
	return nil
}

// fuelIndex is the index of the fuel global, the last one.
func (m *Module) fuelIndex() uint32 { return uint32(m.importedGlobals + len(m.Globals)) }

// vector appends items to a list as encoded in section id, which may be absent.
func (m *Module) vector(id byte, count int, items []byte) []byte {
	var present []byte
	if s := m.find(id); s != nil {
		r := &reader{data: s.data}
		count += int(r.u32())
		present = s.data[r.pos:]
	}
	out := binary.AppendUvarint(make([]byte, 0, len(present)+len(items)+8), uint64(count))
	return append(append(out, present...), items...)
}

// typeSection appends the types of blocks.
func (m *Module) typeSection(added []Signature) []byte {
	var items []byte
	for _, s := range added {
		items = append(items, 0x60, 0)
		items = binary.AppendUvarint(items, uint64(len(s.Results)))
		for _, t := range s.Results {
			items = append(items, byte(t))
		}
	}
	return m.vector(sectionType, len(added), items)
}

func (m *Module) globalSection() []byte {
	items := append([]byte{byte(I64), 1}, appendConst64(nil, initialFuel)...)
	return m.vector(sectionGlobal, 1, append(items, opEnd))
}

func (m *Module) exportSection(names Names) []byte {
	var items []byte
	count := 0
	add := func(name string, kind Kind, index uint32) {
		items = binary.AppendUvarint(items, uint64(len(name)))
		items = append(append(items, name...), byte(kind))
		items = binary.AppendUvarint(items, uint64(index))
		count++
	}
	add(names.Fuel, KindGlobal, m.fuelIndex())
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
	return m.vector(sectionExport, count, items)
}

func (m *Module) code(w *metering) ([]byte, error) {
	total := 0
	for _, b := range m.bodies {
		total += len(b.data) + 8
	}
	out := binary.AppendUvarint(make([]byte, 0, total+total/8), uint64(len(m.bodies)))
	for i := range m.bodies {
		var err error
		if out, err = w.function(out, i); err != nil {
			return nil, fmt.Errorf("rewriting function %d: %w", m.importedFunctions+i, err)
		}
	}
	return out, nil
}
