// The race detector needs more memory than the child may have.
//go:build !race

package compiler_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	builtinpolicies "github.com/longshore-dev/longshore/builtin-policies"
	"github.com/longshore-dev/longshore/host/policy/compiler"
	. "github.com/longshore-dev/longshore/host/policy/encode"
	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/host/policy/module"
)

// crashArgument makes it one whose compiler crashes.
const crashArgument = "crash"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == crashArgument {
		panic("BUG: the compiler did not expect this")
	}
	if len(os.Args) > 1 && os.Args[1] == compiler.Argument {
		os.Exit(compiler.Child(context.Background(), os.Args[2:], os.Stdin, os.Stderr))
	}
	os.Exit(m.Run())
}

// children compiles in children of the test binary, and keeps what they use.
type children struct {
	compiler.Process

	used []compiler.Usage
}

func newChildren(tb testing.TB) *children {
	tb.Helper()
	path, err := os.Executable()
	require.NoError(tb, err)
	c := &children{Process: compiler.Process{Path: path, Args: []string{compiler.Argument}}}
	c.Observe = func(u compiler.Usage) { c.used = append(c.used, u) }
	return c
}

// metered returns a module as a component hands it to the compiler, or why it does not, after it
// has asserted what that costs the component itself.
func metered(tb testing.TB, wasm []byte) ([]byte, error) {
	tb.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := cpuTime(tb)
	ready, err := module.Meter(tb.Context(), wasm)
	assert.Less(tb, cpuTime(tb)-began, 5*time.Second, "what a component does itself is quick")
	runtime.ReadMemStats(&after)
	used := after.TotalAlloc - before.TotalAlloc
	tb.Logf("the component allocated %d KiB for a module of %d KiB", used>>10, len(wasm)>>10)
	assert.Less(tb, used, uint64(componentBytes+componentFactor*len(wasm)), "what a component does itself needs little memory")
	return ready, err
}

// cpuTime is the CPU time of this process.
func cpuTime(tb testing.TB) time.Duration {
	tb.Helper()
	var used syscall.Rusage
	require.NoError(tb, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

const (
	// componentBytes is the memory that a component may allocate for a module before a child
	// compiles it, and componentFactor what it may allocate beside that for each byte of it.
	componentBytes  = 64 << 20
	componentFactor = 32
)

const (
	// slack is by how much a child may exceed a limit until the kernel has seen it.
	slack = 500 * time.Millisecond
	// program is the memory that a process has which compiles nothing.
	program = 64 << 20
)

// withinBudget asserts that a child has used no more than it may.
func withinBudget(t *testing.T, c *children, size int) {
	t.Helper()
	budget := compiler.BudgetOf(size)
	for _, used := range c.used {
		assert.LessOrEqual(t, used.CPU, budget.CPU+slack)
		assert.LessOrEqual(t, used.MemoryBytes, budget.MemoryBytes+program)
	}
}

// compileHostile compiles a module that may be hostile: it is refused, or it compiles within
// its budget.
func compileHostile(t *testing.T, wasm []byte) (refused error) {
	t.Helper()
	ready, err := metered(t, wasm)
	if err != nil {
		return err
	}
	c := newChildren(t)
	err = c.Compile(t.Context(), ready, t.TempDir())
	withinBudget(t, c, len(ready))
	if err != nil {
		assert.True(t, engine.AtFault(err), "%v", err)
		assert.ErrorIs(t, err, engine.ErrBudget)
	}
	return err
}

// Each shape is nearly as large as the bounds allow. Some compile, the others are ended at
// the limit; the number of those that compile shows that the limits are not all there is.
func TestLongHostileShapesStayWithinTheBudget(t *testing.T) {
	all := shapes()
	compiled := 0
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) {
			s := all[name]
			wasm := s.build(s.n, s.m)
			ready, err := metered(t, wasm)
			require.NoError(t, err, "the shape is inside the bounds and reaches the compiler")
			require.NotEmpty(t, ready)
			if err := compileHostile(t, wasm); err == nil {
				compiled++
			} else {
				t.Log(err)
			}
		})
	}
	assert.Greater(t, compiled, len(all)/2)
}

// A count in a module costs nothing until the bytes that it counts are there: a component reads
// these modules itself, and no limit of a child holds for it.
func TestCountsCostAComponentNothing(t *testing.T) {
	for name, tc := range map[string]struct {
		wasm []byte
		// want is the reason for the refusal; empty for a module that is accepted.
		want string
	}{
		"local variables":                         {localsBomb(5_000, 40_000), "the functions have more than 2000000 local variables"},
		"as many local variables as there may be": {localsBomb(50, 40_000), ""},
		"calls with many results":                 {manyResults(256<<10-8, 128), "the blocks and calls of a function pass more than 50000 values"},
		"blocks with many results":                {manyBlocks(9_990, 1000), "the blocks and calls of a function pass more than 50000 values"},
		"branches with many results":              {manyBranches(9_990, 1000), ""},
		"functions, globals and exports":          {manyDeclared(60_000, 9_999), ""},
		"names of functions":                      {withNames(1, Uleb(20_000_000)), ""},
		"names of functions with local variables": {withNames(2, Uleb(20_000_000)), ""},
		"names of local variables":                {withNames(2, Code(Uleb(1), Uleb(0), Uleb(20_000_000))), ""},
		"the length of a module's name":           {withNames(0, Uleb(400_000_000)), ""},
		"a section of names that ends nowhere":    {append(oneFunction(0, I64), custom("name", Code(1, 0))...), ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := metered(t, tc.wasm)
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.want)
		})
	}
}

// localsBomb is a module of n functions with m local variables each, and 7 bytes for each function.
func localsBomb(n, m int) []byte {
	w := &Module{}
	for range n {
		w.RawFunc(nil, nil, body(m, I64))
	}
	return w.Bytes()
}

// manyResults is a module with a function of n bytes, of calls with m results each.
func manyResults(n, m int) []byte {
	w := &Module{}
	callee := w.RawFunc(nil, values(m, I64), Code(0, 0, end))
	w.RawFunc(nil, nil, Code(0, repeat(n/2-2, Call(callee)), 0, end))
	return w.Bytes()
}

// manyBlocks is a module with a function of n blocks with m results each.
func manyBlocks(n, m int) []byte {
	w := &Module{}
	w.RawFunc(nil, values(m, I64), Code(0, 0, end))
	w.RawFunc(nil, nil, Code(0, repeat(n, block, 0, 0, end), 0, end))
	return w.Bytes()
}

// manyBranches is a module with a table of n branches with m values each.
func manyBranches(n, m int) []byte {
	w := &Module{}
	w.RawFunc(nil, values(m, I64), Code(0, 0, brTable, Uleb(uint64(n)), repeat(n+1, 0), end))
	return w.Bytes()
}

// manyDeclared is a module of n functions with m globals and m exports.
func manyDeclared(n, m int) []byte {
	w := &Module{}
	for i := range m {
		w.Global(I64, true, Const64(0))
		w.Export(fmt.Sprint(i), Function, 0)
	}
	for range n {
		w.RawFunc(nil, nil, Code(0, end))
	}
	return w.Bytes()
}

// withNames is a valid module with a subsection of the custom section "name", whose content ends
// after a count.
func withNames(subsection byte, count []byte) []byte {
	return append(oneFunction(0, I64), custom("name", Code(subsection, Sized(count)))...)
}

// custom is a custom section.
func custom(name string, content []byte) []byte {
	return Code(0, Sized(Code(Sized([]byte(name)), content)))
}

// The kernel ends what takes too long, and the component lives on.
func TestACompileBombIsRefused(t *testing.T) {
	for name, tc := range map[string]struct{ shape, want string }{
		// Which limit such a module meets first depends on how fast the machine is.
		"time or memory": {
			"loops in loops that change many locals", `compiling the module takes too much (CPU time, more than 4s|memory, more than 256 MiB); ` +
				`its author must split up its largest functions`,
		},
		"memory": {
			"a table of branches into a loop with many locals", `compiling the module takes too much memory, more than 256 MiB; ` +
				`its author must split up its largest functions`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := shapes()[tc.shape]
			c := newChildren(t)
			_, err := load(t, s.build(s.n, s.m), engine.Options{Compiler: c.Compile})
			require.Error(t, err)
			assert.Regexp(t, tc.want, err.Error())
			assert.True(t, module.AtFault(err), "it would be the same again")
			assert.Len(t, c.used, 1)
		})
	}
}

func load(t *testing.T, raw []byte, options engine.Options) (*module.Module, error) {
	t.Helper()
	e, err := engine.New(t.Context(), options)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, e.Close(context.WithoutCancel(t.Context()))) })
	return module.Load(t.Context(), e, raw, module.Options{Name: "mine"})
}

// A large Go guest leaves a part of its budget for slower machines.
func TestLongARealModuleLeavesAPartOfItsBudget(t *testing.T) {
	raw, err := builtinpolicies.Module()
	require.NoError(t, err)
	wasm, err := module.Unpack(raw)
	require.NoError(t, err)
	ready, err := metered(t, wasm)
	require.NoError(t, err)
	c := newChildren(t)
	require.NoError(t, c.Compile(t.Context(), ready, t.TempDir()))
	withinBudget(t, c, len(ready))
	budget := compiler.BudgetOf(len(ready))
	assert.Less(t, c.used[0].CPU, budget.CPU*3/4)
	assert.Less(t, c.used[0].MemoryBytes, budget.MemoryBytes/2)
}

// What was compiled in a child is loaded, and not compiled again.
func TestARealModuleIsCompiledOnce(t *testing.T) {
	raw, err := builtinpolicies.Module()
	require.NoError(t, err)
	for name, dir := range map[string]string{"with a cache": t.TempDir(), "without a cache": ""} {
		t.Run(name, func(t *testing.T) {
			c := newChildren(t)
			for range 2 {
				m, err := load(t, raw, engine.Options{Compiler: c.Compile, CacheDir: dir})
				require.NoError(t, err)
				assert.Equal(t, "longshore-defaults", m.Name())
			}
			if dir == "" {
				assert.Len(t, c.used, 2)
			} else {
				assert.Len(t, c.used, 1, "the second engine finds it on disk")
			}
		})
	}
}

// A compiler that leaves nothing behind, or the code of another module, does not make the
// component compile.
func TestAComponentNeverCompiles(t *testing.T) {
	raw, err := builtinpolicies.Module()
	require.NoError(t, err)
	other, err := metered(t, oneFunction(0, I64))
	require.NoError(t, err)
	for name, compile := range map[string]engine.Compiler{
		"nothing":      func(context.Context, []byte, string) error { return nil },
		"another code": func(ctx context.Context, _ []byte, dir string) error { return engine.CompileTo(ctx, dir, other) },
	} {
		for kind, dir := range map[string]string{"with a cache": t.TempDir(), "without a cache": ""} {
			t.Run(name+" "+kind, func(t *testing.T) {
				_, err := load(t, raw, engine.Options{Compiler: compile, CacheDir: dir})
				require.ErrorIs(t, err, engine.ErrNotCompiled)
				assert.False(t, module.AtFault(err))
			})
		}
	}
}

func TestWhatIsNotTheModulesFault(t *testing.T) {
	ready, err := metered(t, oneFunction(0, I64))
	require.NoError(t, err)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, tc := range map[string]struct {
		ctx  context.Context
		do   func(*children)
		want string
	}{
		"a program that does not exist": {t.Context(), func(c *children) { c.Path = "/nothing" }, "starting a child process to compile in"},
		"a child of another kind":       {t.Context(), func(c *children) { c.Args = []string{"-test.badflag"} }, "compiling in a child process: exit status"},
		"a child with an argument more": {t.Context(), func(c *children) { c.Args = append(c.Args, "ten") }, "a child that compiles has 4 arguments, not 3"},
		"a caller that has gone":        {ended, func(*children) {}, "context canceled"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newChildren(t)
			tc.do(c)
			err := c.Compile(tc.ctx, ready, t.TempDir())
			require.ErrorContains(t, err, tc.want)
			assert.False(t, engine.AtFault(err))
		})
	}
}

func TestAnInvalidModuleIsRefusedInTheChild(t *testing.T) {
	err := newChildren(t).Compile(t.Context(), oneFunction(0, I64, drop), t.TempDir())
	require.ErrorContains(t, err, "the module is not valid; its author must rebuild it")
	assert.True(t, engine.AtFault(err))
}

// A crash of the compiler ends the child, and not the component.
func TestACompilerThatCrashesOnAModuleRefusesIt(t *testing.T) {
	c := newChildren(t)
	c.Args = []string{crashArgument}
	ready, err := metered(t, oneFunction(0, I64))
	require.NoError(t, err)
	err = c.Compile(t.Context(), ready, t.TempDir())
	require.ErrorContains(t, err, "the compiler crashed on the module (panic: BUG: the compiler did not expect this)")
	assert.True(t, engine.AtFault(err))
}

func TestBudgetOf(t *testing.T) {
	for size, want := range map[int]time.Duration{0: 4, 2 << 20: 4, 2<<20 + 1: 6, 3 << 20: 6, 8 << 20: 16} {
		assert.Equal(t, want*time.Second, compiler.BudgetOf(size).CPU, "%d bytes", size)
		assert.Equal(t, int64(256<<20), compiler.BudgetOf(size).MemoryBytes)
	}
}

// No module that a component would run costs more than its budget to compile, whatever its
// shape and size are.
func FuzzCompilingStaysWithinTheBudget(f *testing.F) {
	all := shapes()
	names := slices.Sorted(maps.Keys(all))
	for i := range names {
		f.Add(uint8(i), uint16(100), uint16(20), []byte(nil))
	}
	f.Add(uint8(0), uint16(0), uint16(0), oneFunction(1, I64, truth(0), drop))
	f.Fuzz(func(t *testing.T, shape uint8, n, m uint16, wasm []byte) {
		if len(wasm) == 0 {
			s := all[names[int(shape)%len(names)]]
			wasm = s.build(int(n)%(2*s.n)+1, int(m)%(2*s.m)+1)
		}
		if refused := compileHostile(t, wasm); refused != nil {
			t.Log(fmt.Errorf("refused: %w", refused))
		}
	})
}
