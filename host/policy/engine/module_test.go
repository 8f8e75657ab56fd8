package engine_test

import (
	"context"
	"fmt"
	goruntime "runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/host/policy/encode"
	"github.com/longshore-dev/longshore/host/policy/engine"
)

// Hundreds of goroutines, good and bad calls mixed: each caller gets its own answer.
func TestManyCallersAtOnce(t *testing.T) {
	m := compile(t, probe(t), engine.Limits{Instances: 8})
	var wait sync.WaitGroup
	var failed atomic.Int64
	for g := range 300 {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for n := range 4 {
				input := fmt.Sprintf("caller %d call %d", g, n)
				if g%30 == 0 && n == 1 {
					_, _, err := m.Call(t.Context(), "probe", []byte("panic "+input))
					assert.ErrorContains(t, err, "panic: "+input)
					failed.Add(1)
					continue
				}
				output, _, err := m.Call(t.Context(), "probe", []byte(input))
				assert.NoError(t, err)
				assert.Equal(t, input, string(output))
			}
		}()
	}
	wait.Wait()
	assert.Equal(t, int64(10), failed.Load())
	assert.LessOrEqual(t, m.Pool().Instances, 8, "the pool is bounded")
	assert.LessOrEqual(t, m.Pool().Idle, m.Pool().Instances)
}

// Closing while calls run: each call has its answer or ErrClosed, and nothing crashes.
func TestCloseUnderLoad(t *testing.T) {
	for range 3 {
		m := compile(t, probe(t), engine.Limits{})
		var wait sync.WaitGroup
		started := make(chan struct{}, 64)
		for g := range 50 {
			wait.Add(1)
			go func() {
				defer wait.Done()
				for n := range 20 {
					output, _, err := m.Call(t.Context(), "probe", fmt.Appendf(nil, "%d/%d", g, n))
					if err != nil {
						assert.ErrorIs(t, err, engine.ErrClosed)
						return
					}
					assert.Equal(t, fmt.Sprintf("%d/%d", g, n), string(output))
					select {
					case started <- struct{}{}:
					default:
					}
				}
			}()
		}
		<-started
		require.NoError(t, m.Close(t.Context()))
		wait.Wait()
	}
}

func TestACallerMayGiveUpWaiting(t *testing.T) {
	m := compile(t, probe(t), engine.Limits{Instances: 1, Fuel: 200_000_000})
	running := make(chan error, 1)
	go func() {
		_, _, err := m.Call(context.Background(), "probe", []byte("spin"))
		running <- err
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.Eventually(t, func() bool {
		_, _, err := m.Call(ctx, "probe", []byte("x"))
		return err != nil
	}, time.Minute, time.Millisecond)
	_, _, err := m.Call(ctx, "probe", []byte("x"))
	if err != nil { // the spinning call may have ended by now
		require.ErrorIs(t, err, engine.Timeout)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, engine.ErrNoInstance)
	}
	require.ErrorIs(t, <-running, engine.Timeout)
}

func TestEngineClose(t *testing.T) {
	e := newEngine(t, engine.Options{})
	m, err := e.Compile(t.Context(), "guest", meter(t, probe(t)), engine.Limits{})
	require.NoError(t, err)
	require.NoError(t, e.Close(t.Context()))
	_, _, err = m.Call(t.Context(), "probe", nil)
	require.ErrorIs(t, err, engine.ErrClosed)
	_, err = e.Compile(t.Context(), "guest", meter(t, probe(t)), engine.Limits{})
	require.ErrorContains(t, err, "the policy engine is closed")
}

// small is a hand-written guest: it answers with its input, byte by byte.
func small() *encode.Module {
	w, none := []byte{encode.I64}, []byte(nil)
	m := &encode.Module{}
	length := m.Import("extism:host/env", "input_length", none, w)
	load := m.Import("extism:host/env", "input_load_u8", w, []byte{encode.I32})
	alloc := m.Import("extism:host/env", "alloc", w, w)
	store := m.Import("extism:host/env", "store_u8", []byte{encode.I64, encode.I32}, none)
	output := m.Import("extism:host/env", "output_set", []byte{encode.I64, encode.I64}, none)
	m.Import("extism:host/env", "free", w, none)
	const n, at, out = 0, 1, 2
	m.Export("echo", encode.Function, m.Func(none, []byte{encode.I32}, []byte{encode.I64, encode.I64, encode.I64},
		encode.Call(length), encode.Set(n),
		encode.Get(n), encode.Call(alloc), encode.Set(out),
		0x03, 0x40,
		encode.Get(at), encode.Get(n), 0x54, 0x04, 0x40,
		encode.Get(out), encode.Get(at), 0x7c, encode.Get(at), encode.Call(load), encode.Call(store),
		encode.Get(at), encode.Const64(1), 0x7c, encode.Set(at),
		0x0c, 1, 0x0b,
		0x0b,
		encode.Get(out), encode.Get(n), encode.Call(output),
		encode.Const32(0),
	))
	return m
}

// answering returns a body that answers with four bytes that the code leaves as i32.
func answering(m *encode.Module, value ...any) uint32 {
	w := []byte{encode.I64}
	alloc := m.Import("extism:host/env", "alloc", w, w)
	store := m.Import("extism:host/env", "store_u64", []byte{encode.I64, encode.I64}, nil)
	output := m.Import("extism:host/env", "output_set", []byte{encode.I64, encode.I64}, nil)
	return m.Func(nil, nil, w,
		encode.Const64(8), encode.Call(alloc), encode.Set(0),
		encode.Get(0), encode.Code(value...), 0xad, encode.Call(store),
		encode.Get(0), encode.Const64(8), encode.Call(output))
}

func TestSmallGuests(t *testing.T) {
	echo := compile(t, small().Bytes(), engine.Limits{})
	for _, input := range []string{"x", "12345678", "a longer one, with a tail"} {
		output, stats, err := echo.Call(t.Context(), "echo", []byte(input))
		require.NoError(t, err)
		assert.Equal(t, input, string(output))
		assert.Equal(t, uint64(0), stats.MemoryBytes)
	}
	_, _, err := echo.Call(t.Context(), "echo", nil)
	require.ErrorIs(t, err, engine.BadOutput)
}

func TestStateIsForgotten(t *testing.T) {
	one := encode.Const32(1)
	tests := map[string]func(m *encode.Module) (value []byte, want byte){
		"a global": func(m *encode.Module) ([]byte, byte) {
			m.Global(encode.I32, true, encode.Const32(5))
			return encode.Code(encode.GlobalGet(0), one, 0x6a, encode.GlobalSet(0), encode.GlobalGet(0)), 6
		},
		"memory": func(m *encode.Module) ([]byte, byte) {
			m.Memory(2, 4)
			m.Data(70_000, "\x07")
			return encode.Code(encode.Const32(70_000), encode.Const32(70_000), 0x28, 2, 0, one, 0x6a, 0x36, 2, 0, encode.Const32(70_000), 0x28, 2, 0), 8
		},
		"memory that is not exported": func(m *encode.Module) ([]byte, byte) {
			m.HiddenMemory(1, 4)
			return encode.Code(encode.Const32(0), encode.Const32(0), 0x28, 2, 0, one, 0x6a, 0x36, 2, 0, encode.Const32(0), 0x28, 2, 0), 1
		},
		"the size of the memory": func(m *encode.Module) ([]byte, byte) {
			m.Memory(1, 4)
			return encode.Code(one, 0x40, 0, 0x1a, 0x3f, 0), 2
		},
		"the size of the memory, grown from nothing": func(m *encode.Module) ([]byte, byte) {
			m.Memory(0, 4)
			return encode.Code(one, 0x40, 0, 0x1a, 0x3f, 0), 1
		},
	}
	for name, make := range tests {
		t.Run(name, func(t *testing.T) {
			m := &encode.Module{}
			value, want := make(m)
			m.Export("f", encode.Function, answering(m, value))
			module := compile(t, m.Bytes(), engine.Limits{Instances: 2})
			for n := range 50 {
				output, _, err := module.Call(t.Context(), "f", nil)
				require.NoError(t, err)
				assert.Equal(t, []byte{want, 0, 0, 0, 0, 0, 0, 0}, output, "call %d", n)
			}
		})
	}
}

// A guest cannot read what an earlier call left in the kernel's memory.
func TestKernelMemoryIsForgotten(t *testing.T) {
	w := []byte{encode.I64}
	m := small()
	alloc := uint32(2)
	m.Export("peek", encode.Function, m.Func(nil, nil, w,
		encode.Const64(64<<10), encode.Call(alloc), encode.Set(0),
		encode.Get(0), encode.Const64(64<<10), encode.Call(4)))
	module := compile(t, m.Bytes(), engine.Limits{Instances: 1})
	for _, size := range []int{100, 60 << 10, 900 << 10} {
		secret := make([]byte, size)
		for i := range secret {
			secret[i] = 's'
		}
		_, _, err := module.Call(t.Context(), "peek", secret)
		require.NoError(t, err)
		output, _, err := module.Call(t.Context(), "peek", []byte("x"))
		require.NoError(t, err)
		assert.NotContains(t, string(output), "s")
	}
}

func TestStartup(t *testing.T) {
	count := encode.Code(encode.GlobalGet(0), encode.Const32(10), 0x6c, encode.GlobalSet(0))
	add := func(n int64) []byte {
		return encode.Code(count, encode.GlobalGet(0), encode.Const32(n), 0x6a, encode.GlobalSet(0))
	}
	tests := map[string]struct {
		exports []string
		start   bool
		want    byte
	}{
		"nothing":                              {nil, false, 0},
		"a start function":                     {nil, true, 1},
		"start function, then _initialize":     {[]string{"_initialize"}, true, 12},
		"_initialize goes before constructors": {[]string{"__wasm_call_ctors", "_initialize"}, false, 3},
		"constructors":                         {[]string{"__wasm_call_ctors"}, false, 2},
		"_start is never run":                  {[]string{"_start"}, false, 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			m := &encode.Module{}
			m.Global(encode.I32, true, encode.Const32(0))
			m.Export("f", encode.Function, answering(m, encode.GlobalGet(0)))
			if tc.start {
				m.Start(m.Func(nil, nil, nil, add(1)))
			}
			for i, e := range tc.exports {
				m.Export(e, encode.Function, m.Func(nil, nil, nil, add(int64(2+i))))
			}
			module := compile(t, m.Bytes(), engine.Limits{})
			for range 3 {
				output, _, err := module.Call(t.Context(), "f", nil)
				require.NoError(t, err)
				assert.Equal(t, tc.want, output[0])
			}
			_, _, err := module.Call(t.Context(), "_start", nil)
			require.ErrorIs(t, err, engine.Guest)
		})
	}
}

func TestCompileRefuses(t *testing.T) {
	with := func(f func(m *encode.Module)) []byte {
		m := &encode.Module{}
		f(m)
		return m.Bytes()
	}
	tests := map[string]struct {
		wasm []byte
		want string
	}{
		"an import of another module": {with(func(m *encode.Module) { m.Import("env", "abort", nil, nil) }), "imports env.abort, which policies are not given"},
		"an import for the network":   {with(func(m *encode.Module) { m.Import("wasi_snapshot_preview1", "sock_open", nil, nil) }), "imports wasi_snapshot_preview1.sock_open"},
		"a host function of its own":  {with(func(m *encode.Module) { m.Import("extism:host/user", "f", nil, nil) }), "policies have no host functions of their own"},
		"the engine's own functions":  {with(func(m *encode.Module) { m.Import("longshore:kernel", "log", nil, nil) }), "imports longshore:kernel.log"},
		"a wrong signature": {with(func(m *encode.Module) {
			m.Import("extism:host/env", "alloc", []byte{encode.I32}, []byte{encode.I32})
		}), "signature mismatch"},
		"an imported memory": {with(func(m *encode.Module) { m.ImportRaw("env", "memory", encode.Memory, []byte{0, 1}) }), "imports a memory"},
		"a wrong type":       {with(func(m *encode.Module) { m.Func(nil, []byte{encode.I32}, nil) }), "not valid; its author must rebuild it"},
		"a start with parameters": {with(func(m *encode.Module) {
			m.Export("_initialize", encode.Function, m.Func([]byte{encode.I32}, nil, nil))
		}), "_initialize takes parameters"},
		"a start that traps": {with(func(m *encode.Module) { m.Start(m.Func(nil, nil, nil, 0x00)) }), "crashed: unreachable"},
		"data outside the memory": {with(func(m *encode.Module) {
			m.Memory(1, 1)
			m.Data(65_530, "too long for it")
		}), "instantiating the module"},
	}
	e := newEngine(t, engine.Options{})
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := e.Compile(t.Context(), "guest", meter(t, tc.wasm), engine.Limits{})
			require.ErrorContains(t, err, tc.want)
			assert.True(t, engine.AtFault(err), "it would be the same again")
			assert.Regexp(t, "author must|author should", err.Error(), "the message names the role that must act")
		})
	}
	t.Run("a module that was not metered", func(t *testing.T) {
		_, err := e.Compile(t.Context(), "guest", small().Bytes(), engine.Limits{})
		require.ErrorIs(t, err, engine.ErrNotMetered)
		_, err = e.Compile(t.Context(), "guest", with(func(m *encode.Module) { m.Memory(1, 1) }), engine.Limits{})
		require.ErrorIs(t, err, engine.ErrNotMetered)
	})
	t.Run("no module", func(t *testing.T) {
		_, err := e.Compile(t.Context(), "guest", []byte("text"), engine.Limits{})
		require.ErrorContains(t, err, "not valid")
	})
}

// What went wrong costs the instance; what was only refused does not, and neither does
// an answer.
func TestInstancesAreDropped(t *testing.T) {
	tests := map[string]struct {
		input string
		want  uint64
	}{
		"an answer":          {"hello", 0},
		"a reported error":   {"fail the cause", 0},
		"a trap":             {"panic x", 1},
		"an exit":            {"exit3", 1},
		"exit 0":             {"exit0", 1},
		"no fuel":            {"spin", 1},
		"memory growth":      {"grow", 1},
		"no memory":          {"hog", 1},
		"an answer too long": {"oversize", 1},
	}
	m := compile(t, probe(t), engine.Limits{Instances: 1})
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			before := m.Pool().Dropped
			_, _, _ = m.Call(t.Context(), "probe", []byte(tc.input))
			// With one instance, this call waits until that of the first is there again.
			_, _, err := m.Call(t.Context(), "probe", []byte("x"))
			require.NoError(t, err)
			assert.Equal(t, tc.want, m.Pool().Dropped-before)
		})
	}
}

// A slow call delays no other call, and Options.Log may call the module: no
// lock is held while a guest runs or is listened to.
func TestNoLockIsHeldDuringCalls(t *testing.T) {
	var m *engine.Module
	var nested atomic.Int64
	e := newEngine(t, engine.Options{Log: func(l engine.Line) {
		if l.Message == "again" {
			output, _, err := m.Call(context.Background(), "probe", []byte("nested"))
			if assert.NoError(t, err) {
				assert.Equal(t, "nested", string(output))
			}
			nested.Add(1)
		}
	}})
	m, err := e.Compile(t.Context(), "guest", meter(t, probe(t)), engine.Limits{Instances: 2, Fuel: 50_000_000})
	require.NoError(t, err)
	_, _, err = m.Call(t.Context(), "probe", []byte("log again"))
	require.NoError(t, err)
	assert.Equal(t, int64(1), nested.Load())
	if goruntime.GOMAXPROCS(0) < 2 {
		t.Skip("one processor, one instance")
	}
	slow := make(chan error, 1)
	go func() {
		_, _, err := m.Call(context.Background(), "probe", []byte("spin"))
		slow <- err
	}()
	answered := 0
	for done := false; !done; {
		select {
		case err := <-slow:
			require.ErrorIs(t, err, engine.Timeout)
			done = true
		default:
			_, _, err := m.Call(t.Context(), "probe", []byte("quick"))
			require.NoError(t, err)
			answered++
		}
	}
	assert.Greater(t, answered, 1)
}
