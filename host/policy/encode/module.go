package encode

// Module is a module being written. Functions, globals and the like are numbered in
// the order of the calls that add them, imports first.
type Module struct {
	sections          sections
	importedFunctions uint32
}

// Import adds an imported function and returns its index.
func (m *Module) Import(module, name string, params, results []byte) uint32 {
	m.ImportRaw(module, name, Function, Uleb(uint64(m.sections.signature(params, results))))
	m.importedFunctions++
	return m.importedFunctions - 1
}

// ImportRaw adds an import of any kind with its encoded type.
func (m *Module) ImportRaw(module, name string, kind byte, what []byte) {
	m.sections.Imports = append(m.sections.Imports, Code(Sized([]byte(module)), Sized([]byte(name)), kind, what))
}

// Func adds a function and returns its index. locals are the types of its variables
// beside the parameters. The final end is added.
func (m *Module) Func(params, results, locals []byte, body ...any) uint32 {
	m.sections.Functions = append(m.sections.Functions, Uleb(uint64(m.sections.signature(params, results))))
	var groups [][]byte
	for _, t := range locals {
		groups = append(groups, []byte{1, t})
	}
	m.sections.Codes = append(m.sections.Codes, Sized(Code(List(groups), Code(body...), 0x0b)))
	return m.importedFunctions + uint32(len(m.sections.Functions)) - 1
}

// RawFunc adds a function whose body, local declarations included, is given as it is.
func (m *Module) RawFunc(params, results, body []byte) uint32 {
	m.sections.Functions = append(m.sections.Functions, Uleb(uint64(m.sections.signature(params, results))))
	m.sections.Codes = append(m.sections.Codes, Sized(body))
	return m.importedFunctions + uint32(len(m.sections.Functions)) - 1
}

// Export exports something under a name.
func (m *Module) Export(name string, kind byte, index uint32) {
	m.sections.Exports = append(m.sections.Exports, Code(Sized([]byte(name)), kind, Uleb(uint64(index))))
}

// Memory adds a memory; no maximum when it is negative. It is exported as "memory".
func (m *Module) Memory(minimum, maximum int64) {
	m.sections.Memories = append(m.sections.Memories, limits(minimum, maximum))
	m.Export("memory", Memory, 0)
}

// HiddenMemory adds a memory that is not exported.
func (m *Module) HiddenMemory(minimum, maximum int64) {
	m.sections.Memories = append(m.sections.Memories, limits(minimum, maximum))
}

func limits(minimum, maximum int64) []byte {
	if maximum < 0 {
		return Code(0, Uleb(uint64(minimum)))
	}
	return Code(1, Uleb(uint64(minimum)), Uleb(uint64(maximum)))
}

// Table adds a table of functions.
func (m *Module) Table(minimum, maximum int64) {
	m.sections.Tables = append(m.sections.Tables, Code(FuncRef, limits(minimum, maximum)))
}

// Global adds a global with its initializer, without the final end, and returns its
// index among the module's own.
func (m *Module) Global(t byte, mutable bool, initial ...any) uint32 {
	flag := 0
	if mutable {
		flag = 1
	}
	m.sections.Globals = append(m.sections.Globals, Code(t, flag, Code(initial...), 0x0b))
	return uint32(len(m.sections.Globals) - 1)
}

// Start sets the start function.
func (m *Module) Start(function uint32) { m.sections.Start = Uleb(uint64(function)) }

// Element adds an element segment as it is encoded.
func (m *Module) Element(segment ...any) {
	m.sections.Elements = append(m.sections.Elements, Code(segment...))
}

// Data adds an active data segment.
func (m *Module) Data(offset int64, data string) {
	m.sections.Data = append(m.sections.Data, Code(0, Const32(offset), 0x0b, Sized([]byte(data))))
}

// PassiveData adds a passive data segment.
func (m *Module) PassiveData(data string) {
	m.sections.Data = append(m.sections.Data, Code(1, Sized([]byte(data))))
	m.sections.HasDataCount = true
}

// Bytes returns the module.
func (m *Module) Bytes() []byte { return m.sections.bytes() }
