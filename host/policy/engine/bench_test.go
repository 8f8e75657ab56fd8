package engine_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/host/policy/encode"
	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/host/policy/fuel"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// noop is a guest that does as little as an answer takes.
func noop() []byte {
	m := &encode.Module{}
	m.Export("f", encode.Function, answering(m, encode.Const32(1)))
	return m.Bytes()
}

// exposed is the module without charges: what metering is compared with.
func exposed(tb testing.TB, wasm []byte) []byte {
	tb.Helper()
	m, err := fuel.Parse(wasm)
	require.NoError(tb, err)
	rewritten, err := m.Expose(names)
	require.NoError(tb, err)
	return rewritten.Wasm
}

// latency measures calls one by one, and waits in between until the instance is ready
// again: what a caller sees who does not call without pause. It reports the median.
func latency(b *testing.B, m *engine.Module, export string, input []byte) {
	b.Helper()
	var times []time.Duration
	for b.Loop() {
		began := time.Now()
		_, _, err := m.Call(b.Context(), export, input)
		times = append(times, time.Since(began))
		if err != nil {
			b.Fatal(err)
		}
		for m.Pool().Idle == 0 {
			time.Sleep(5 * time.Microsecond)
		}
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Nanoseconds()), "p50-ns")
}

// throughput calls without pause: what a call costs with its reset.
func throughput(b *testing.B, m *engine.Module, export string, input []byte) {
	b.Helper()
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := m.Call(b.Context(), export, input); err != nil {
			b.Fatal(err)
		}
	}
}

func bare(tb testing.TB, wasm []byte) *engine.Module {
	tb.Helper()
	m, err := newEngine(tb, engine.Options{}).Compile(tb.Context(), "guest", wasm, engine.Limits{})
	require.NoError(tb, err)
	return m
}

func BenchmarkNoop(b *testing.B) {
	b.Run("longshore", func(b *testing.B) { throughput(b, compile(b, noop(), engine.Limits{}), "f", nil) })
	b.Run("extism", func(b *testing.B) {
		p := oracle(b, noop())
		b.ReportAllocs()
		for b.Loop() {
			if _, _, err := p.Call("f", nil); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// vector returns the question of a golden case.
func vector(b *testing.B, name string) (export string, input []byte) {
	b.Helper()
	data, err := os.ReadFile(filepath.FromSlash("../../../conformance/vectors/" + name + ".json"))
	require.NoError(b, err)
	var v struct{ Request json.RawMessage }
	require.NoError(b, json.Unmarshal(data, &v))
	var request contract.Request
	require.NoError(b, json.Unmarshal(v.Request, &request))
	input, err = json.Marshal(request)
	require.NoError(b, err)
	return request.Point.Export(), input
}

// BenchmarkBuiltin asks the built-in policies one question per point.
func BenchmarkBuiltin(b *testing.B) {
	wasm := builtin(b)
	metered, unmetered := compile(b, wasm, engine.Limits{}), bare(b, exposed(b, wasm))
	extism := oracle(b, wasm)
	for _, name := range []string{"podmutation/remote-product", "offloadingpatch/affinity-both", "antiaffinitypreset/hard", "metadatafilter/labels"} {
		export, input := vector(b, name)
		for _, m := range []*engine.Module{metered, unmetered} {
			require.NoError(b, m.Warm(b.Context(), engine.Sample{Export: export, Input: input}))
		}
		b.Run(name+"/metered", func(b *testing.B) { latency(b, metered, export, input) })
		b.Run(name+"/unmetered", func(b *testing.B) { latency(b, unmetered, export, input) })
		b.Run(name+"/throughput", func(b *testing.B) { throughput(b, metered, export, input) })
		b.Run(name+"/extism", func(b *testing.B) {
			for b.Loop() {
				if _, _, err := extism.Call(export, input); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkMetering interleaves metered and unmetered calls, so that both see the same
// machine, and reports the ratio of their medians.
func BenchmarkMetering(b *testing.B) {
	wasm := builtin(b)
	modules := []*engine.Module{compile(b, wasm, engine.Limits{}), bare(b, exposed(b, wasm))}
	for _, name := range []string{"podmutation/remote-product", "offloadingpatch/affinity-both", "antiaffinitypreset/hard", "metadatafilter/labels"} {
		export, input := vector(b, name)
		b.Run(name, func(b *testing.B) {
			for _, m := range modules {
				require.NoError(b, m.Warm(b.Context(), engine.Sample{Export: export, Input: input}))
			}
			var times [2][]time.Duration
			for b.Loop() {
				for n, m := range modules {
					began := time.Now()
					_, _, err := m.Call(b.Context(), export, input)
					times[n] = append(times[n], time.Since(began))
					require.NoError(b, err)
					for m.Pool().Idle == 0 {
						time.Sleep(5 * time.Microsecond)
					}
				}
			}
			slices.Sort(times[0])
			slices.Sort(times[1])
			median := func(n int) float64 { return float64(times[n][len(times[n])/2].Nanoseconds()) }
			b.ReportMetric(median(0), "metered-ns")
			b.ReportMetric(median(0)/median(1), "ratio")
			b.ReportMetric(float64(times[0][0])/float64(times[1][0]), "ratio-of-best")
		})
	}
}

// BenchmarkRunaway shows how long endless code takes until its fuel is used up.
func BenchmarkRunaway(b *testing.B) {
	m := &encode.Module{}
	m.Export("loop", encode.Function, m.Func(nil, nil, nil, 0x03, 0x40, 0x0c, 0, 0x0b))
	m.Export("recursion", encode.Function, m.Func(nil, nil, nil, encode.Call(1)))
	m.Export("straight", encode.Function, m.Func(nil, nil, nil, 0x03, 0x40, slices.Repeat(encode.Code(encode.Const64(3), encode.GlobalGet(0), 0x7e, encode.GlobalSet(0)), 5000), 0x0c, 0, 0x0b))
	m.Global(encode.I64, true, encode.Const64(1))
	m.Memory(100, 100)
	m.Export("fill", encode.Function, m.Func(nil, nil, nil, 0x03, 0x40, encode.Const32(0), encode.Const32(7), encode.Const32(6<<20), 0xfc, 11, 0, 0x0c, 0, 0x0b))
	guest := compile(b, m.Bytes(), engine.Limits{})
	goGuest := compile(b, probe(b), engine.Limits{})
	for _, export := range []string{"loop", "recursion", "straight", "fill"} {
		b.Run(export, func(b *testing.B) {
			for b.Loop() {
				_, _, err := guest.Call(b.Context(), export, nil)
				require.Error(b, err)
			}
		})
	}
	for _, input := range []string{"spin", "recurse", "hog"} {
		b.Run("go/"+input, func(b *testing.B) {
			for b.Loop() {
				_, _, err := goGuest.Call(b.Context(), "probe", []byte(input))
				require.Error(b, err)
			}
		})
	}
}

// BenchmarkLoad compiles the built-in module with a warm cache on disk.
func BenchmarkLoad(b *testing.B) {
	wasm := meter(b, builtin(b))
	for _, mode := range []string{"warm", "cold"} {
		b.Run(mode, func(b *testing.B) {
			dir := b.TempDir()
			load := func() {
				e, err := engine.New(b.Context(), engine.Options{CacheDir: dir})
				require.NoError(b, err)
				_, err = e.Compile(b.Context(), "builtin", wasm, engine.Limits{})
				require.NoError(b, err)
				require.NoError(b, e.Close(b.Context()))
			}
			load()
			for b.Loop() {
				if mode == "cold" {
					dir = b.TempDir()
				}
				load()
			}
		})
	}
}
