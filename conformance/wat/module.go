package wat

import (
	"fmt"
	"slices"
	"strings"

	"github.com/longshore-dev/longshore/host/policy/encode"
)

// module is a module while it is assembled.
type module struct {
	sections                              encode.Sections
	typeNames, functionNames, globalNames map[string]uint32
	functionCount, globalCount            uint32
	// bodies are assembled when every name is known.
	bodies []pending
}

// pending is a function whose instructions are still text.
type pending struct {
	instructions []node
	locals       map[string]uint32
	declarations []byte
}

// Assemble returns the binary form of a module. The text is a sequence of module
// fields, or one list "(module …)" of them.
func Assemble(text string) ([]byte, error) {
	nodes, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("assembling: %w", err)
	}
	if len(nodes) == 1 && nodes[0].head() == "module" {
		nodes = nodes[0].list[1:]
	}
	m := &module{typeNames: map[string]uint32{}, functionNames: map[string]uint32{}, globalNames: map[string]uint32{}}
	// Imports are numbered first, wherever they stand; then all names are known.
	for _, pass := range []func(*node) error{m.importsAndTypes, m.declare} {
		for i := range nodes {
			if err := pass(&nodes[i]); err != nil {
				return nil, fmt.Errorf("assembling: %w", err)
			}
		}
	}
	for i := range nodes {
		if err := m.refer(&nodes[i]); err != nil {
			return nil, fmt.Errorf("assembling: %w", err)
		}
	}
	if err := m.finish(); err != nil {
		return nil, fmt.Errorf("assembling: %w", err)
	}
	return m.sections.Bytes(), nil
}

// importsAndTypes is the first pass.
func (m *module) importsAndTypes(n *node) error {
	switch n.head() {
	case "type":
		if len(n.list) != 3 || n.list[2].head() != "func" {
			return n.fail("a type is (type $name (func …))")
		}
		params, results, _, _, err := signature(n.list[2].list[1:])
		if err != nil {
			return err
		}
		m.typeNames[n.list[1].text] = m.sections.Signature(params, results)
	case "import":
		if len(n.list) != 4 || n.list[3].head() != "func" {
			return n.fail(`an import is (import "module" "name" (func …))`)
		}
		name, rest := named(n.list[3].list[1:])
		params, results, _, _, err := signature(rest)
		if err != nil {
			return err
		}
		m.sections.Imports = append(m.sections.Imports, encode.Code(text(n.list[1].text), text(n.list[2].text), []byte{0}, encode.Uleb(uint64(m.sections.Signature(params, results)))))
		if name != "" {
			m.functionNames[name] = m.functionCount
		}
		m.functionCount++
	case "":
		return n.fail("a field of a module is missing")
	}
	return nil
}

// declare is the second pass: everything that has an index and is the module's own.
func (m *module) declare(n *node) error {
	switch n.head() {
	case "func":
		return m.function(n)
	case "memory":
		return m.memory(n)
	case "table":
		limits, err := limits(n.list[1:])
		m.sections.Tables = append(m.sections.Tables, encode.Code([]byte{0x70}, limits))
		return err
	case "global":
		return m.global(n)
	case "type", "import", "export", "start", "elem", "data":
		return nil
	default:
		return n.fail("field %q is unknown", n.head())
	}
}

// refer is the third pass: what refers to names.
func (m *module) refer(n *node) error {
	switch n.head() {
	case "export":
		if len(n.list) != 3 || len(n.list[2].list) != 2 {
			return n.fail(`an export is (export "name" (func $name))`)
		}
		kinds := []string{"func", "table", "memory", "global"}
		kind := slices.Index(kinds, n.list[2].head())
		if kind < 0 {
			return n.fail("nothing of kind %q can be exported", n.list[2].head())
		}
		names := []map[string]uint32{m.functionNames, nil, nil, m.globalNames}[kind]
		index, err := find(&n.list[2].list[1], names, "export")
		m.export(n.list[1].text, byte(kind), index)
		return err
	case "start":
		if len(n.list) != 2 {
			return n.fail("a start is (start $name)")
		}
		index, err := find(&n.list[1], m.functionNames, "function")
		m.sections.Start = encode.Uleb(uint64(index))
		return err
	case "elem":
		return m.element(n)
	case "data":
		return m.segment(n)
	}
	return nil
}

func (m *module) function(n *node) error {
	name, rest := named(n.list[1:])
	if name != "" {
		m.functionNames[name] = m.functionCount
	}
	rest, err := m.inlineExports(rest, 0, m.functionCount)
	if err != nil {
		return err
	}
	params, results, locals, rest, err := signature(rest)
	if err != nil {
		return err
	}
	p := pending{locals: locals}
	count := uint32(0)
	for len(rest) > 0 && rest[0].head() == "local" {
		name, types := named(rest[0].list[1:])
		encoded, err := valueTypes(types)
		if err != nil {
			return err
		}
		if name != "" {
			locals[name] = uint32(len(params)) + count
		}
		for _, t := range encoded {
			p.declarations = append(p.declarations, 1, t)
			count++
		}
		rest = rest[1:]
	}
	p.declarations = append(encode.Uleb(uint64(count)), p.declarations...)
	p.instructions = rest
	m.sections.Functions = append(m.sections.Functions, encode.Uleb(uint64(m.sections.Signature(params, results))))
	m.bodies = append(m.bodies, p)
	m.functionCount++
	return nil
}

// inlineExports takes exports off the front.
func (m *module) inlineExports(nodes []node, kind byte, index uint32) ([]node, error) {
	for len(nodes) > 0 && nodes[0].head() == "export" {
		if len(nodes[0].list) != 2 {
			return nil, nodes[0].fail(`an export is (export "name")`)
		}
		m.export(nodes[0].list[1].text, kind, index)
		nodes = nodes[1:]
	}
	return nodes, nil
}

func (m *module) memory(n *node) error {
	rest, err := m.inlineExports(n.list[1:], 2, 0)
	if err != nil {
		return err
	}
	limits, err := limits(rest)
	m.sections.Memories = append(m.sections.Memories, limits)
	return err
}

func (m *module) global(n *node) error {
	name, rest := named(n.list[1:])
	if len(rest) != 2 {
		return n.fail("a global is (global $name (mut i32) (i32.const 0))")
	}
	mutable, kind := byte(0), rest[:1]
	if rest[0].head() == "mut" {
		mutable, kind = 1, rest[0].list[1:]
	}
	types, err := valueTypes(kind)
	if err != nil {
		return err
	}
	initial, err := m.constant(&rest[1])
	m.sections.Globals = append(m.sections.Globals, encode.Code(types, []byte{mutable}, initial))
	if name != "" {
		m.globalNames[name] = m.globalCount
	}
	m.globalCount++
	return err
}

// constant assembles an initializer.
func (m *module) constant(n *node) ([]byte, error) {
	b := &body{module: m}
	err := b.folded(n)
	return append(b.code, 0x0b), err
}

func (m *module) element(n *node) error {
	if len(n.list) < 2 {
		return n.fail("an element segment is (elem (i32.const 0) $f …)")
	}
	offset, err := m.constant(&n.list[1])
	if err != nil {
		return err
	}
	var items [][]byte
	for i := range n.list[2:] {
		index, err := find(&n.list[2+i], m.functionNames, "function")
		if err != nil {
			return err
		}
		items = append(items, encode.Uleb(uint64(index)))
	}
	m.sections.Elements = append(m.sections.Elements, encode.Code([]byte{0}, offset, encode.List(items)))
	return nil
}

// segment assembles a data segment: active with an offset, passive without.
func (m *module) segment(n *node) error {
	_, rest := named(n.list[1:])
	head := []byte{1}
	if len(rest) > 0 && rest[0].isList {
		offset, err := m.constant(&rest[0])
		if err != nil {
			return err
		}
		head, rest = encode.Code([]byte{0}, offset), rest[1:]
	} else {
		m.sections.HasDataCount = true
	}
	var content string
	for i := range rest {
		if !rest[i].quoted {
			return rest[i].fail("data must be strings")
		}
		content += rest[i].text
	}
	m.sections.Data = append(m.sections.Data, encode.Code(head, text(content)))
	return nil
}

func (m *module) finish() error {
	for _, p := range m.bodies {
		b := &body{module: m, locals: p.locals}
		if err := b.instructions(p.instructions); err != nil {
			return err
		}
		m.sections.Codes = append(m.sections.Codes, encode.Sized(encode.Code(p.declarations, b.code, []byte{0x0b})))
	}
	return nil
}

func (m *module) export(name string, kind byte, index uint32) {
	m.sections.Exports = append(m.sections.Exports, encode.Code(text(name), kind, encode.Uleb(uint64(index))))
}

// signature adds a type unless it is there, and answers with its index.
// named takes a name off the front.
func named(nodes []node) (string, []node) {
	if len(nodes) > 0 && strings.HasPrefix(nodes[0].text, "$") && !nodes[0].isList {
		return nodes[0].text, nodes[1:]
	}
	return "", nodes
}

// signature reads parameters and results, and answers with the rest.
func signature(nodes []node) (params, results []byte, names map[string]uint32, rest []node, err error) {
	names = map[string]uint32{}
	for len(nodes) > 0 {
		head := nodes[0].head()
		if head != "param" && head != "result" {
			break
		}
		name, types := named(nodes[0].list[1:])
		encoded, err := valueTypes(types)
		if err != nil {
			return nil, nil, nil, nil, err
		}
		if head == "param" {
			if name != "" {
				names[name] = uint32(len(params))
			}
			params = append(params, encoded...)
		} else {
			results = append(results, encoded...)
		}
		nodes = nodes[1:]
	}
	return params, results, names, nodes, nil
}

func valueTypes(nodes []node) ([]byte, error) {
	known := map[string]byte{"i32": 0x7f, "i64": 0x7e, "f32": 0x7d, "f64": 0x7c, "funcref": 0x70, "externref": 0x6f}
	var types []byte
	for i := range nodes {
		t, ok := known[nodes[i].text]
		if !ok {
			return nil, nodes[i].fail("type %q is unknown", nodes[i].text)
		}
		types = append(types, t)
	}
	return types, nil
}

// limits reads a minimum and perhaps a maximum.
func limits(nodes []node) ([]byte, error) {
	var sizes []byte
	count := byte(0)
	for i := range nodes {
		if nodes[i].text == "funcref" {
			break
		}
		v, err := number(&nodes[i], 32)
		if err != nil {
			return nil, err
		}
		sizes = append(sizes, encode.Uleb(uint64(uint32(v)))...)
		count++
	}
	if count == 0 {
		sizes, count = []byte{0}, 1
	}
	return append([]byte{count - 1}, sizes...), nil
}

// find resolves a name, or reads an index.
func find(n *node, names map[string]uint32, what string) (uint32, error) {
	if !strings.HasPrefix(n.text, "$") {
		v, err := number(n, 32)
		return uint32(v), err
	}
	index, ok := names[n.text]
	if !ok {
		return 0, n.fail("%s %s is unknown", what, n.text)
	}
	return index, nil
}

func text(s string) []byte { return encode.Sized([]byte(s)) }
