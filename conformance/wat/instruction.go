package wat

import (
	"encoding/binary"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/longshore-dev/longshore/host/policy/encode"
)

// What follows an opcode.
const (
	immediateNone = iota
	immediateLocal
	immediateGlobal
	immediateFunction
	immediateLabel
	immediateLabels
	immediateMemory // alignment and offset
	immediateZero   // an index that can only be zero
	immediateZeros
	immediateI32
	immediateI64
	immediateF32
	immediateF64
	immediateIndirect
	immediateReference
	immediateSegment // a segment, then a zero
	immediateDrop    // a segment
)

type operation struct {
	code      []byte
	immediate int
	// align is the exponent of the natural alignment of a load or store.
	align byte
}

// row lists instructions with consecutive opcodes.
func row(table map[string]operation, first int, immediate int, names string) {
	for n, name := range strings.Fields(names) {
		o := operation{code: []byte{byte(first + n)}, immediate: immediate}
		if immediate == immediateMemory {
			o.align = alignment(name)
		}
		table[name] = o
	}
}

// alignment is how many bytes a load or store moves, as an exponent.
func alignment(name string) byte {
	bytes := map[string]byte{"8": 0, "16": 1, "32": 2, "64": 3}
	digits := strings.TrimFunc(name[4:], func(r rune) bool { return r < '0' || r > '9' })
	if digits == "" {
		digits = name[1:3]
	}
	return bytes[digits]
}

var operations = func() map[string]operation {
	t := map[string]operation{}
	row(t, 0x00, immediateNone, "unreachable nop")
	row(t, 0x0c, immediateLabel, "br br_if")
	row(t, 0x0e, immediateLabels, "br_table")
	row(t, 0x0f, immediateNone, "return")
	row(t, 0x10, immediateFunction, "call")
	row(t, 0x11, immediateIndirect, "call_indirect")
	row(t, 0x1a, immediateNone, "drop select")
	row(t, 0x20, immediateLocal, "local.get local.set local.tee")
	row(t, 0x23, immediateGlobal, "global.get global.set")
	row(t, 0x25, immediateZero, "table.get table.set")
	row(t, 0x28, immediateMemory, "i32.load i64.load f32.load f64.load i32.load8_s i32.load8_u i32.load16_s i32.load16_u"+
		" i64.load8_s i64.load8_u i64.load16_s i64.load16_u i64.load32_s i64.load32_u"+
		" i32.store i64.store f32.store f64.store i32.store8 i32.store16 i64.store8 i64.store16 i64.store32")
	row(t, 0x3f, immediateZero, "memory.size memory.grow")
	row(t, 0x41, immediateI32, "i32.const")
	row(t, 0x42, immediateI64, "i64.const")
	row(t, 0x43, immediateF32, "f32.const")
	row(t, 0x44, immediateF64, "f64.const")
	integer := func(t string) string {
		return expand(t, "clz ctz popcnt add sub mul div_s div_u rem_s rem_u and or xor shl shr_s shr_u rotl rotr")
	}
	compare := func(t string) string { return expand(t, "eqz eq ne lt_s lt_u gt_s gt_u le_s le_u ge_s ge_u") }
	float := func(t string) string {
		return expand(t, "abs neg ceil floor trunc nearest sqrt add sub mul div min max copysign")
	}
	row(t, 0x45, immediateNone, compare("i32")+compare("i64")+expand("f32", "eq ne lt gt le ge")+expand("f64", "eq ne lt gt le ge")+
		integer("i32")+integer("i64")+float("f32")+float("f64")+
		"i32.wrap_i64 i32.trunc_f32_s i32.trunc_f32_u i32.trunc_f64_s i32.trunc_f64_u i64.extend_i32_s i64.extend_i32_u"+
		" i64.trunc_f32_s i64.trunc_f32_u i64.trunc_f64_s i64.trunc_f64_u f32.convert_i32_s f32.convert_i32_u f32.convert_i64_s"+
		" f32.convert_i64_u f32.demote_f64 f64.convert_i32_s f64.convert_i32_u f64.convert_i64_s f64.convert_i64_u f64.promote_f32"+
		" i32.reinterpret_f32 i64.reinterpret_f64 f32.reinterpret_i32 f64.reinterpret_i64"+
		" i32.extend8_s i32.extend16_s i64.extend8_s i64.extend16_s i64.extend32_s")
	row(t, 0xd0, immediateReference, "ref.null")
	row(t, 0xd1, immediateNone, "ref.is_null")
	row(t, 0xd2, immediateFunction, "ref.func")
	for n, o := range []struct {
		name      string
		immediate int
	}{
		{"i32.trunc_sat_f32_s", immediateNone}, {"i32.trunc_sat_f32_u", immediateNone}, {"i32.trunc_sat_f64_s", immediateNone},
		{"i32.trunc_sat_f64_u", immediateNone}, {"i64.trunc_sat_f32_s", immediateNone}, {"i64.trunc_sat_f32_u", immediateNone},
		{"i64.trunc_sat_f64_s", immediateNone}, {"i64.trunc_sat_f64_u", immediateNone}, {"memory.init", immediateSegment},
		{"data.drop", immediateDrop}, {"memory.copy", immediateZeros}, {"memory.fill", immediateZero}, {"table.init", immediateSegment},
		{"elem.drop", immediateDrop}, {"table.copy", immediateZeros}, {"table.grow", immediateZero}, {"table.size", immediateZero},
		{"table.fill", immediateZero},
	} {
		t[o.name] = operation{code: []byte{0xfc, byte(n)}, immediate: o.immediate}
	}
	return t
}()

func expand(prefix, names string) string {
	var b strings.Builder
	for _, n := range strings.Fields(names) {
		b.WriteString(prefix + "." + n + " ")
	}
	return b.String()
}

// body is a function while its instructions are assembled.
type body struct {
	module *module
	locals map[string]uint32
	// labels are the names of the open blocks, outermost first.
	labels []string
	code   []byte
}

// instructions assembles a sequence.
func (b *body) instructions(nodes []node) error {
	for len(nodes) > 0 {
		n := &nodes[0]
		if n.isList {
			if err := b.folded(n); err != nil {
				return err
			}
			nodes = nodes[1:]
			continue
		}
		used, err := b.plain(nodes)
		if err != nil {
			return err
		}
		nodes = nodes[used:]
	}
	return nil
}

// folded assembles a list: a block, or an instruction behind its operands.
func (b *body) folded(n *node) error {
	switch n.head() {
	case "block":
		return b.block(n, 0x02)
	case "loop":
		return b.block(n, 0x03)
	case "if":
		return b.branch(n)
	case "":
		return n.fail("an instruction is missing")
	}
	// The immediates are what comes before the first operand, but for a type.
	end := 1
	for end < len(n.list) && (!n.list[end].isList || n.list[end].head() == "type") {
		end++
	}
	if err := b.instructions(n.list[end:]); err != nil {
		return err
	}
	used, err := b.plain(n.list[:end])
	if err == nil && used != end {
		return n.fail("%s has too many immediates", n.head())
	}
	return err
}

// open begins a block: its label, its type; it answers with what stands inside.
func (b *body) open(n *node, code byte) ([]node, error) {
	items, label := n.list[1:], ""
	if len(items) > 0 && strings.HasPrefix(items[0].text, "$") && !items[0].isList {
		label, items = items[0].text, items[1:]
	}
	result := byte(0x40)
	if len(items) > 0 && items[0].head() == "result" {
		types, err := valueTypes(items[0].list[1:])
		if err != nil {
			return nil, err
		}
		if len(types) != 1 {
			return nil, n.fail("a block has one result or none")
		}
		result, items = types[0], items[1:]
	}
	if code == 0x04 {
		// The condition stands in front.
		for len(items) > 0 && items[0].head() != "then" {
			if err := b.instructions(items[:1]); err != nil {
				return nil, err
			}
			items = items[1:]
		}
	}
	b.labels = append(b.labels, label)
	b.code = append(b.code, code, result)
	return items, nil
}

func (b *body) close() {
	b.labels = b.labels[:len(b.labels)-1]
	b.code = append(b.code, 0x0b)
}

func (b *body) block(n *node, code byte) error {
	items, err := b.open(n, code)
	if err != nil {
		return err
	}
	if err := b.instructions(items); err != nil {
		return err
	}
	b.close()
	return nil
}

func (b *body) branch(n *node) error {
	arms, err := b.open(n, 0x04)
	if err != nil {
		return err
	}
	if len(arms) == 0 || len(arms) > 2 || len(arms) == 2 && arms[1].head() != "else" {
		return n.fail("an if has a then, and perhaps an else")
	}
	for i := range arms {
		if i == 1 {
			b.code = append(b.code, 0x05)
		}
		if err := b.instructions(arms[i].list[1:]); err != nil {
			return err
		}
	}
	b.close()
	return nil
}

// plain assembles the instruction at the beginning and answers with how many atoms it
// has.
func (b *body) plain(nodes []node) (int, error) {
	o, ok := operations[nodes[0].text]
	if !ok {
		return 0, nodes[0].fail("instruction %q is unknown", nodes[0].text)
	}
	b.code = append(b.code, o.code...)
	used, err := b.immediates(o, nodes)
	if err == nil && used > len(nodes) {
		err = nodes[0].fail("%s lacks an immediate", nodes[0].text)
	}
	return used, err
}

// immediates assembles what follows the opcode of the instruction at the beginning.
func (b *body) immediates(o operation, nodes []node) (int, error) {
	if o.immediate >= immediateLocal && o.immediate <= immediateLabel || o.immediate >= immediateI32 {
		if len(nodes) < 2 {
			return 2, nil
		}
	}
	switch o.immediate {
	case immediateMemory:
		return b.memoryArgument(o, nodes)
	case immediateLabels:
		return b.labelList(nodes)
	case immediateZero:
		b.code = append(b.code, 0)
		return 1, nil
	case immediateZeros:
		b.code = append(b.code, 0, 0)
		return 1, nil
	case immediateNone:
		return 1, nil
	default:
		return 2, b.one(o.immediate, &nodes[1])
	}
}

// one assembles an immediate that is one atom.
func (b *body) one(immediate int, n *node) error {
	var index uint32
	var err error
	switch immediate {
	case immediateI32, immediateI64, immediateF32, immediateF64:
		return b.constant(immediate, n)
	case immediateReference:
		b.code = append(b.code, map[string]byte{"func": 0x70, "extern": 0x6f}[n.text])
		return nil
	case immediateLocal:
		index, err = find(n, b.locals, "local")
	case immediateGlobal:
		index, err = find(n, b.module.globalNames, "global")
	case immediateFunction:
		index, err = find(n, b.module.functionNames, "function")
	case immediateLabel:
		index, err = b.label(n)
	case immediateIndirect:
		if n.head() != "type" || len(n.list) != 2 {
			return n.fail("call_indirect needs a type")
		}
		if index, err = find(&n.list[1], b.module.typeNames, "type"); err == nil {
			b.code = append(binary.AppendUvarint(b.code, uint64(index)), 0)
		}
		return err
	case immediateSegment:
		if index, err = find(n, nil, "segment"); err == nil {
			b.code = append(binary.AppendUvarint(b.code, uint64(index)), 0)
		}
		return err
	case immediateDrop:
		index, err = find(n, nil, "segment")
	}
	b.code = binary.AppendUvarint(b.code, uint64(index))
	return err
}

// constant assembles the immediate of a constant.
func (b *body) constant(immediate int, n *node) error {
	if immediate == immediateI32 || immediate == immediateI64 {
		v, err := number(n, map[int]int{immediateI32: 32, immediateI64: 64}[immediate])
		b.code = append(b.code, encode.Sleb(v)...)
		return err
	}
	v, err := strconv.ParseFloat(n.text, 64)
	if err != nil {
		return n.fail("%q is not a number", n.text)
	}
	if immediate == immediateF32 {
		b.code = binary.LittleEndian.AppendUint32(b.code, math.Float32bits(float32(v)))
	} else {
		b.code = binary.LittleEndian.AppendUint64(b.code, math.Float64bits(v))
	}
	return nil
}

func (b *body) label(n *node) (uint32, error) {
	if !strings.HasPrefix(n.text, "$") {
		return find(n, nil, "label")
	}
	for i := len(b.labels) - 1; i >= 0; i-- {
		if b.labels[i] == n.text {
			return uint32(len(b.labels) - 1 - i), nil
		}
	}
	return 0, n.fail("label %s is unknown", n.text)
}

func (b *body) labelList(nodes []node) (int, error) {
	used := 1
	var labels []byte
	for used < len(nodes) && !nodes[used].isList && operations[nodes[used].text].code == nil {
		l, err := b.label(&nodes[used])
		if err != nil {
			return 0, err
		}
		labels = binary.AppendUvarint(labels, uint64(l))
		used++
	}
	if used == 1 {
		return 2, nil
	}
	b.code = append(binary.AppendUvarint(b.code, uint64(used-2)), labels...)
	return used, nil
}

func (b *body) memoryArgument(o operation, nodes []node) (int, error) {
	used, align, offset := 1, o.align, int64(0)
	for used < len(nodes) {
		text, ok := strings.CutPrefix(nodes[used].text, "offset=")
		if !ok {
			break
		}
		var err error
		if offset, err = number(&node{text: text, line: nodes[used].line}, 32); err != nil {
			return 0, err
		}
		used++
	}
	b.code = binary.AppendUvarint(append(b.code, align), uint64(uint32(offset)))
	return used, nil
}

// Instructions lists the instructions by name, but for those that open blocks.
func Instructions() []string { return slices.Sorted(maps.Keys(operations)) }
