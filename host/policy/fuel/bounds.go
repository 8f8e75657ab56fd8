package fuel

import "fmt"

// Limits of properties that make a compiler slow, for each function and for the module. They
// are several times what compilers for Go, Rust, C and AssemblyScript produce. Their errors
// show the author of a module what to change. The cost of compiling is limited separately, in
// the process that compiles.
const (
	// maxTypeValues bounds the parameters and the results of a type.
	maxTypeValues = 128
	// maxTypesValues bounds the parameters and results of all types.
	maxTypesValues = 50_000
	// maxLocalsInAll bounds the parameters and local variables of all functions. A module declares
	// any number of them in a few bytes, and an engine keeps eight bytes for each. The Go compiler,
	// a module of 47 MiB, has 110,000.
	maxLocalsInAll = 2_000_000
	// maxJoins bounds the branches of a function times its local variables: a compiler merges
	// the values of each variable where branches join.
	maxJoins = 2_000_000
	// maxMoves bounds the values that the branches and calls of a function pass.
	maxMoves = 50_000
	// maxReloads bounds the calls of a function times the mutable globals of the module: a
	// compiler reloads each global after each call.
	maxReloads = 400_000
	// maxDeclared bounds the functions of a module times its types, globals and exports, over which
	// an engine iterates for each function.
	maxDeclared = 50_000_000
)

// CheckBounds returns an error, with the function and the limit, if a module exceeds a limit.
// heaviest describes the function that is closest to a limit, for the message of a compiler
// that runs out of time.
func (m *Module) CheckBounds() (heaviest string, err error) {
	total := 0
	for i, s := range m.signatures {
		n := len(s.Params) + len(s.Results)
		if n > maxTypeValues {
			return "", fmt.Errorf("type %d has %d parameters and results, more than %d: pass them in memory", i, n, maxTypeValues)
		}
		if total += n; total > maxTypesValues {
			return "", fmt.Errorf("the types have more than %d parameters and results: use fewer types", maxTypesValues)
		}
	}
	if declared := len(m.signatures) + m.importedGlobals + len(m.Globals) + len(m.Exports); declared*len(m.bodies) > maxDeclared {
		return "", fmt.Errorf("%d functions times %d types, globals and exports is more than %d: use fewer of them", len(m.bodies), declared, maxDeclared)
	}
	globals := 1 // The fuel.
	for _, g := range m.Globals {
		globals += int(one(g.Mutable))
	}
	c := counter{module: m, globals: globals}
	most, locals := -1.0, 0
	for i := range m.bodies {
		if err := c.function(i); err != nil {
			return "", fmt.Errorf("function %d %w: split it up", m.importedFunctions+i, err)
		}
		if locals += c.locals; locals > maxLocalsInAll {
			return "", fmt.Errorf("the functions have more than %d local variables: use fewer of them", maxLocalsInAll)
		}
		if share := c.share(i); share > most {
			most = share
			heaviest = fmt.Sprintf("function %d with %d bytes, %d branches and %d local variables", m.importedFunctions+i, len(m.bodies[i].data), c.branches, c.locals)
		}
	}
	return heaviest, nil
}

// share is the current function's largest fraction of a limit.
func (c *counter) share(index int) float64 {
	return max(
		float64(c.branches*c.locals)/maxJoins, float64(c.moves)/maxMoves, float64(c.calls*c.globals)/maxReloads,
		float64(len(c.module.bodies[index].data))/maxBodyBytes, float64(c.branches)/maxBranches)
}

// counter counts the properties of a function.
type counter struct {
	module *Module
	// globals are the mutable ones.
	globals int

	locals, branches, calls, moves int
	// arities are the numbers of values that branches to the open blocks pass.
	arities []int
	labels  []uint32
}

// function returns an error for a function that exceeds a limit.
func (c *counter) function(index int) error {
	b := c.module.bodies[index]
	signature := c.module.signatures[c.module.functions[c.module.importedFunctions+index]]
	s := c.module.space
	r := &reader{data: b.data, base: b.base, space: &s}
	locals := uint64(len(signature.Params))
	for range r.count(2, maxLocals) {
		locals += uint64(r.u32())
		r.valueType()
	}
	s.locals = uint32(min(locals, maxLocals))
	c.locals, c.branches, c.calls, c.moves = int(s.locals), 0, 0, 0
	c.arities = append(c.arities[:0], len(signature.Results))
	for len(c.arities) > 0 && r.err == nil && r.rest() > 0 {
		start := r.pos
		i := r.next(c.labels)
		c.labels = i.labels
		if r.err == nil {
			c.count(&i, b.data[start+1:r.pos])
		}
	}
	switch {
	case r.err != nil:
		return nil // rewriting reports a more precise error
	case c.branches*c.locals > maxJoins:
		return fmt.Errorf("has %d branches and %d local variables, more than %d when multiplied", c.branches, c.locals, maxJoins)
	case c.moves > maxMoves:
		return fmt.Errorf("passes %d values to blocks and calls, more than %d", c.moves, maxMoves)
	case c.calls*c.globals > maxReloads:
		return fmt.Errorf("has %d calls in a module with %d mutable globals, more than %d when multiplied", c.calls, c.globals, maxReloads)
	default:
		return nil
	}
}

// count adds an instruction; rest are the bytes after the opcode.
func (c *counter) count(i *instruction, rest []byte) {
	switch i.op {
	case opBlock, opLoop, opIf:
		c.branches++
		values := c.values((&reader{data: rest}).s64(blockTypeBytes))
		c.moves += values
		c.arities = append(c.arities, values)
	case opEnd:
		c.arities = c.arities[:len(c.arities)-1]
	case opBr, opBrIf, opBrTable:
		c.branches += len(i.labels)
		for _, label := range i.labels {
			if int(label) < len(c.arities) {
				c.moves += c.arities[len(c.arities)-1-int(label)]
			}
		}
	case opReturn:
		c.branches++
		c.moves += c.arities[0]
	case opCall:
		c.calls++
		c.moves += c.values(int64(c.module.functions[i.index]))
	case opCallIndirect:
		c.calls++
		c.moves += c.values(int64((&reader{data: rest}).u32()))
	}
}

// blockTypeBytes is the most bytes that the type of a block takes.
const blockTypeBytes = 5

// values returns the number of parameters and results of a type. A negative type is that of a
// block with at most one result.
func (c *counter) values(index int64) int {
	if index < 0 {
		return 1
	}
	s := &c.module.signatures[index]
	return len(s.Params) + len(s.Results)
}
