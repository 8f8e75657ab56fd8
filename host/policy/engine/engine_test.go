package engine_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/host/policy/fuel"
	"github.com/longshore-dev/longshore/host/policy/fuel/wasmtest"
	"github.com/longshore-dev/longshore/sdk/contract"
)

var names = fuel.Names{Fuel: engine.FuelExport, Stack: engine.StackExport, RefuelModule: engine.RefuelModule, Refuel: engine.RefuelFunction, Globals: engine.GlobalExports, Memory: engine.MemoryExport, Start: engine.StartExport}

func meter(tb testing.TB, wasm []byte) []byte {
	tb.Helper()
	m, err := fuel.Parse(wasm)
	require.NoError(tb, err)
	rewritten, err := m.Meter(names)
	require.NoError(tb, err)
	return rewritten.Wasm
}

// newEngine shares a cache of compiled modules with the other tests, unless the options
// say otherwise.
func newEngine(tb testing.TB, options engine.Options) *engine.Engine {
	tb.Helper()
	if options.CacheDir == "" {
		options.CacheDir = sharedCache
	}
	e, err := engine.New(tb.Context(), options)
	require.NoError(tb, err)
	tb.Cleanup(func() { assert.NoError(tb, e.Close(context.Background())) })
	return e
}

var sharedCache string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		if sharedCache, err = os.MkdirTemp("", "engine-test-"); err != nil {
			panic(err)
		}
		defer os.RemoveAll(sharedCache)
		return m.Run()
	}())
}

// compile meters and compiles a module that must be accepted. Calls end for their fuel and not for
// their time, which is longer on a busy machine, unless the limits bound it.
func compile(tb testing.TB, wasm []byte, limits engine.Limits) *engine.Module {
	tb.Helper()
	limits.Time = cmp.Or(limits.Time, time.Minute)
	m, err := newEngine(tb, engine.Options{}).Compile(tb.Context(), "guest", meter(tb, wasm), limits)
	require.NoError(tb, err)
	return m
}

func probe(tb testing.TB) []byte { return wasmtest.BuildGo(tb, "testdata/probe") }

func TestAnswers(t *testing.T) {
	m := compile(t, probe(t), engine.Limits{})
	tests := map[string]struct{ input, want string }{
		"an echo":                                   {"hello, world", "hello, world"},
		"a long echo, not a multiple of eight":      {strings.Repeat("0123456789", 1001) + "x", strings.Repeat("0123456789", 1001) + "x"},
		"goroutines work":                           {"goroutines", "10"},
		"a sleep returns at once, in virtual time":  {"sleep", "10s"},
		"variables live as long as the call":        {"variables", "before=0 then=value config=0"},
		"length knows blocks from other addresses":  {"lengths", "5 0 0 0 0 0 0"},
		"what is written to stderr does not matter": {"stderr text", "written"},
		"a flood of stderr does not matter":         {"flood", "written"},
		"log lines do not matter":                   {"loglots", "logged"},
		"memory may grow below the limit":           {"grow", "grown"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			for range 3 {
				output, stats, err := m.Call(t.Context(), "probe", []byte(tc.input))
				require.NoError(t, err)
				assert.Equal(t, tc.want, string(output))
				assert.Positive(t, stats.Ticks)
				assert.Positive(t, stats.MemoryBytes)
			}
		})
	}
}

func TestFailures(t *testing.T) {
	m := compile(t, probe(t), engine.Limits{})
	tests := map[string]struct {
		input string
		class engine.Class
		want  []string
	}{
		"an endless loop":              {"spin", engine.Timeout, []string{"fuel of 2000000 ticks", "endless loop or recursion"}},
		"endless recursion":            {"recurse", engine.Timeout, []string{"fuel of 2000000 ticks", "endless loop or recursion"}},
		"memory without end":           {"hog", engine.Memory, []string{"more than its 32 MiB of memory", "out of memory"}},
		"a panic":                      {"panic the reason", engine.Trap, []string{"the module crashed: unreachable; its author must correct it; it wrote: panic: the reason"}},
		"a nil pointer":                {"nil", engine.Trap, []string{"invalid memory address or nil pointer dereference"}},
		"a deadlock":                   {"deadlock", engine.Trap, []string{"all goroutines are asleep - deadlock!"}},
		"exit 0 in spite of an output": {"exit0", engine.BadOutput, []string{"exited with status 0 instead of returning"}},
		"exit 3":                       {"exit3", engine.Trap, []string{"exited with status 3"}},
		"no output":                    {"silent", engine.BadOutput, []string{"without an answer"}},
		"a status without a message":   {"return5", engine.Guest, []string{"returned 5 without an error message"}},
		"an error":                     {"fail the cause", engine.Guest, []string{"the module reported: the cause"}},
		"an error with status 0":       {"failzero the cause", engine.Guest, []string{"the module reported: the cause"}},
		"an empty error with status 1": {"fail ", engine.Guest, []string{"returned 1 without an error message"}},
		"an answer past the cap":       {"oversize", engine.BadOutput, []string{"307200 bytes, more than 262144"}},
		"an answer from nowhere":       {"range", engine.BadOutput, []string{"outside the memory that the module was given"}},
		"an answer at the end of the address space": {"rangewrap", engine.BadOutput, []string{"outside the memory"}},
		"an answer below the input":                 {"rangelow", engine.BadOutput, []string{"outside the memory"}},
		"a store outside":                           {"store", engine.Trap, []string{"outside the blocks that alloc gave it"}},
		"a load outside":                            {"load", engine.Trap, []string{"outside the blocks that alloc gave it"}},
		"too much of the kernel's memory":           {"exhaust", engine.Memory, []string{"allocated more than", "input, answer and messages"}},
		"an HTTP request":                           {"http", engine.Denied, []string{"calls http_request", "policies have no network"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			output, _, err := m.Call(t.Context(), "probe", []byte(tc.input))
			require.ErrorIs(t, err, tc.class)
			assert.Empty(t, output)
			var callErr *engine.CallError
			require.ErrorAs(t, err, &callErr)
			assert.Equal(t, "guest", callErr.Module)
			assert.Equal(t, "probe", callErr.Point)
			for _, want := range append(tc.want, "probe: ") {
				assert.ErrorContains(t, err, want)
			}
			assert.NotContains(t, err.Error(), "\n", "an error is one sentence")
			// The next call is served by an instance that knows nothing of this one.
			output, _, err = m.Call(t.Context(), "probe", []byte("still alive"))
			require.NoError(t, err)
			assert.Equal(t, "still alive", string(output))
		})
	}
}

// The operator can raise a limit of the policy, but not the host's bound.
func TestAMessageNamesALimitThatCanBeRaised(t *testing.T) {
	for name, tc := range map[string]struct {
		limits  engine.Limits
		input   string
		class   engine.Class
		message bool
	}{
		"fuel at the bound":          {input: "spin", class: engine.Timeout},
		"fuel below the bound":       {limits: engine.Limits{Fuel: contract.MaxFuel / 2}, input: "spin", class: engine.Timeout, message: true},
		"memory at the bound":        {input: "hog", class: engine.Memory},
		"memory below the bound":     {limits: engine.Limits{MemoryBytes: contract.MaxMemoryBytes / 2}, input: "hog", class: engine.Memory, message: true},
		"time has no limit to raise": {limits: engine.Limits{Fuel: 1 << 50, Time: time.Millisecond}, input: "spin", class: engine.Timeout},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := compile(t, probe(t), tc.limits).Call(t.Context(), "probe", []byte(tc.input))
			require.ErrorIs(t, err, tc.class)
			assert.Equal(t, tc.message, strings.Contains(err.Error(), "the operator may raise the limit"), err)
		})
	}
}

func TestWrongCalls(t *testing.T) {
	m := compile(t, probe(t), engine.Limits{RequestBytes: 1000})
	_, _, err := m.Call(t.Context(), "missing", nil)
	require.ErrorIs(t, err, engine.Guest)
	require.ErrorContains(t, err, "no export of this name")
	_, _, err = m.Call(t.Context(), "memory", nil)
	require.ErrorIs(t, err, engine.Guest)
	_, _, err = m.Call(t.Context(), engine.StartExport, nil)
	require.ErrorIs(t, err, engine.Guest)
	_, _, err = m.Call(t.Context(), "probe", make([]byte, 1001))
	require.ErrorIs(t, err, engine.Memory)
	require.ErrorIs(t, err, engine.ErrRequestTooLarge)
	require.NoError(t, m.Close(t.Context()))
	require.NoError(t, m.Close(t.Context()), "closing twice is harmless")
	_, _, err = m.Call(t.Context(), "probe", []byte("x"))
	require.ErrorIs(t, err, engine.ErrClosed)
}

// Calls that follow each other without pause take the instance before it was set back
// behind their backs, and set it back themselves.
func TestCallsWithoutPauseArePure(t *testing.T) {
	m := compile(t, probe(t), engine.Limits{Instances: 1})
	for range 500 {
		output, _, err := m.Call(t.Context(), "probe", []byte("world"))
		require.NoError(t, err)
		require.Contains(t, string(output), "calls=1 ")
	}
	_, _, err := m.Call(t.Context(), "probe", []byte("grow"))
	require.NoError(t, err)
	output, _, err := m.Call(t.Context(), "probe", []byte("world"))
	require.NoError(t, err)
	require.Contains(t, string(output), "calls=1 ", "an instance that grew is replaced")
	require.Equal(t, uint64(1), m.Pool().Dropped)
}

// A module may be called before it is warmed up; what that call used is of the old state
// and serves no further calls.
func TestWarmUpBesideACall(t *testing.T) {
	for range 20 {
		m := compile(t, probe(t), engine.Limits{Instances: 2})
		_, _, err := m.Call(t.Context(), "probe", []byte("world"))
		require.NoError(t, err)
		require.NoError(t, m.Warm(t.Context(), engine.Sample{Export: "probe", Input: []byte("world")}))
		answers := make(chan string, 8)
		for range cap(answers) {
			go func() {
				output, _, err := m.Call(t.Context(), "probe", []byte("world"))
				assert.NoError(t, err)
				answers <- string(output)
			}()
		}
		want := <-answers
		require.NotContains(t, want, "calls=1 ")
		for range cap(answers) - 1 {
			require.Equal(t, want, <-answers)
		}
	}
}

// The same request gives the same bytes and costs the same fuel, on whatever instance
// and after whatever calls.
func TestPurity(t *testing.T) {
	wasm := probe(t)
	var want string
	var ticks uint64
	for range 2 { // two engines
		m := compile(t, wasm, engine.Limits{})
		for _, before := range []string{"", "grow", "world", "log x", "panic x", "variables", "spin", "sleep", "stderr x"} {
			if before != "" {
				m.Call(t.Context(), "probe", []byte(before))
			}
			output, stats, err := m.Call(t.Context(), "probe", []byte("world"))
			require.NoError(t, err)
			if want == "" {
				want, ticks = string(output), stats.Ticks
				assert.Contains(t, want, "calls=1 ")
				assert.Contains(t, want, "now=1577836800000000000")
				assert.Contains(t, want, `args=["policy"] env=0 file=true`)
			}
			assert.Equal(t, want, string(output), "after %q", before)
			assert.Equal(t, ticks, stats.Ticks, "after %q", before)
		}
	}
}

func TestWarmUp(t *testing.T) {
	m := compile(t, probe(t), engine.Limits{})
	require.NoError(t, m.Warm(t.Context(), engine.Sample{Export: "probe", Input: []byte("fail on purpose")},
		engine.Sample{Export: "probe", Input: []byte("world")}, engine.Sample{Export: "missing"}))
	output, _, err := m.Call(t.Context(), "probe", []byte("world"))
	require.NoError(t, err)
	assert.NotContains(t, string(output), "calls=1 ", "calls begin where the samples ended")
	for range 4 {
		again, _, err := m.Call(t.Context(), "probe", []byte("world"))
		require.NoError(t, err)
		assert.Equal(t, string(output), string(again))
	}
	require.ErrorIs(t, m.Warm(t.Context(), engine.Sample{Export: "probe", Input: []byte("panic x")}), engine.Trap)
	after, _, err := m.Call(t.Context(), "probe", []byte("world"))
	require.NoError(t, err)
	assert.Equal(t, string(output), string(after), "a module that fails at a sample stays as it was")
}

func TestLogLines(t *testing.T) {
	var lines []engine.Line
	e := newEngine(t, engine.Options{Log: func(l engine.Line) { lines = append(lines, l) }})
	m, err := e.Compile(t.Context(), "guest", meter(t, probe(t)), engine.Limits{})
	require.NoError(t, err)
	call := func(input string) engine.Stats {
		lines = nil
		_, stats, _ := m.Call(t.Context(), "probe", []byte(input))
		return stats
	}
	call("log first\x1b[31m\xff")
	assert.Equal(t, []engine.Line{
		{Module: "guest", Point: "probe", Level: engine.LevelInfo, Message: "first [31m\uFFFD"},
		{Module: "guest", Point: "probe", Level: engine.LevelWarn, Message: "second"},
	}, lines)
	stats := call("loglots")
	assert.Len(t, lines, 32)
	assert.Equal(t, 100, stats.LogLines)
	assert.Len(t, lines[0].Message, 1024)
	call("stderr hello")
	assert.Equal(t, []engine.Line{{Module: "guest", Point: "probe", Level: engine.LevelDebug, Message: "hello\n"}}, lines)
	call("flood")
	require.Len(t, lines, 1)
	assert.Len(t, lines[0].Message, 4<<10)
}

func TestLimits(t *testing.T) {
	wasm := probe(t)
	t.Run("less fuel", func(t *testing.T) {
		m := compile(t, wasm, engine.Limits{Fuel: 1000})
		_, stats, err := m.Call(t.Context(), "probe", []byte("spin"))
		require.ErrorIs(t, err, engine.Timeout)
		assert.Equal(t, uint64(1000), stats.Ticks)
	})
	t.Run("less memory", func(t *testing.T) {
		m := compile(t, wasm, engine.Limits{MemoryBytes: 6 << 20})
		_, _, err := m.Call(t.Context(), "probe", []byte("hog"))
		require.ErrorIs(t, err, engine.Memory)
		require.ErrorContains(t, err, "6 MiB")
	})
	t.Run("too little memory to start", func(t *testing.T) {
		_, err := newEngine(t, engine.Options{}).Compile(t.Context(), "guest", meter(t, wasm), engine.Limits{MemoryBytes: 1 << 20})
		require.ErrorContains(t, err, "begins with 2 MiB, more than its limit of 1 MiB")
	})
	t.Run("too little fuel to start", func(t *testing.T) {
		_, err := newEngine(t, engine.Options{}).Compile(t.Context(), "guest", meter(t, wasm), engine.Limits{StartFuel: 100})
		require.ErrorIs(t, err, engine.Timeout)
		require.ErrorContains(t, err, "_initialize")
	})
	t.Run("a smaller answer", func(t *testing.T) {
		m := compile(t, wasm, engine.Limits{ResponseBytes: 4})
		_, _, err := m.Call(t.Context(), "probe", []byte("12345"))
		require.ErrorIs(t, err, engine.BadOutput)
		_, _, err = m.Call(t.Context(), "probe", []byte("1234"))
		require.NoError(t, err)
	})
}

func TestErrorsAreErrors(t *testing.T) {
	err := error(&engine.CallError{Module: "m", Point: "p", Class: engine.Denied, Err: context.Canceled})
	assert.ErrorIs(t, err, engine.Denied)
	assert.ErrorIs(t, err, context.Canceled)
	assert.NotErrorIs(t, err, engine.Timeout)
	assert.Equal(t, "p: context canceled", err.Error())
	assert.False(t, engine.AtFault(err), "the caller has gone")
	assert.False(t, engine.AtFault(&engine.CallError{Class: engine.Timeout, Err: engine.ErrNoInstance}))
	assert.False(t, engine.AtFault(fmt.Errorf("reserving memory: %w", syscall.ENOMEM)))
	assert.True(t, engine.AtFault(fmt.Errorf("asking: %w", &engine.CallError{Class: engine.Trap, Err: errors.New("the module crashed")})))
	assert.NotErrorIs(t, errors.New("x"), engine.Denied)
}
