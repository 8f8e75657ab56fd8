package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	builtinpolicies "github.com/longshore-dev/longshore/builtin-policies"
	"github.com/longshore-dev/longshore/builtin-policies/defaults"
	"github.com/longshore-dev/longshore/builtin-policies/native"
	"github.com/longshore-dev/longshore/conformance/suite"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/host/policy/module"
	"github.com/longshore-dev/longshore/host/policy/policytest"
)

const (
	policyBenchTime      = "500ms"
	policyQuickBenchTime = "100ms"
	microseconds         = "us/call"
	singleCalls          = 500
	singleGap            = 500 * time.Microsecond
	noopExport           = "noop"
	// The goals of a call that does nothing, and of a load with a warm cache in milliseconds.
	noopGoal      = 1
	noopRatioGoal = 1.0 / 30
	loadGoal      = 150
)

// noopModule is the least that is an answer: eight bytes, whatever they are.
//
//	(module
//	  (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
//	  (import "extism:host/env" "output_set" (func $output_set (param i64 i64)))
//	  (func (export "noop") (result i32)
//	    (call $output_set (call $alloc (i64.const 8)) (i64.const 8)) (i32.const 0)))
var noopModule = slices.Concat(
	[]byte{0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00},
	[]byte{0x01, 0x0f, 0x03, 0x60, 0x00, 0x01, 0x7f, 0x60, 0x01, 0x7e, 0x01, 0x7e, 0x60, 0x02, 0x7e, 0x7e, 0x00}, // types
	[]byte{0x02, 0x36, 0x02, 0xf}, []byte("extism:host/env"), []byte("\x05alloc\x00\x01"),
	[]byte{0xf}, []byte("extism:host/env"), []byte("\x0aoutput_set\x00\x02"),
	[]byte{0x03, 0x02, 0x01, 0x00},                      // one function
	[]byte{0x07, 0x8, 0x01}, []byte("\x04noop\x00\x02"), // exported
	[]byte{0x0a, 0x0e, 0x01, 0x0c, 0x00, 0x42, 0x08, 0x10, 0x00, 0x42, 0x08, 0x10, 0x01, 0x41, 0x00, 0x0b}, // its body
)

// policies measures calls of policies, before any cluster runs beside them.
func (b *bench) policies(ctx context.Context) (err error) {
	if !b.needs("policy/") {
		return nil
	}
	duration := policyBenchTime
	if b.quick {
		duration = policyQuickBenchTime
	}
	// testing.Benchmark takes its settings from flags only.
	testing.Init()
	if err := flag.CommandLine.Set("test.benchtime", duration); err != nil {
		return fmt.Errorf("setting the benchmarks' time: %w", err)
	}
	cache, err := os.MkdirTemp("", "longshore-bench-cache-")
	if err != nil {
		return fmt.Errorf("making a folder for compiled policies: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(cache)) }()
	if err := b.loading(ctx, cache); err != nil {
		return err
	}
	hosts, err := newPolicyHosts(ctx, cache)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, hosts.close(ctx)) }()
	questions, err := questions()
	if err != nil {
		return err
	}
	for i := range b.runs {
		b.logf("policy %d: calls", i+1)
		if err := b.noop(ctx, hosts); err != nil {
			return err
		}
		for _, q := range questions {
			if err := errors.Join(b.ask(ctx, hosts, q), b.projected(ctx, hosts, q)); err != nil {
				return err
			}
		}
		for _, measure := range []func(context.Context, *policyHosts) error{b.admissions, b.decisions, b.stops} {
			if err := measure(ctx, hosts); err != nil {
				return err
			}
		}
	}
	return nil
}

// loading measures how long the built-in module takes to load, first without and then
// with its compiled form in the cache.
func (b *bench) loading(ctx context.Context, cache string) error {
	packed, err := builtinpolicies.Module()
	if err != nil {
		return fmt.Errorf("reading the built-in policies: %w", err)
	}
	for _, name := range []string{"policy/load-cold", "policy/load-cached"} {
		e, err := engine.New(ctx, engine.Options{CacheDir: cache})
		if err != nil {
			return fmt.Errorf("starting the engine: %w", err)
		}
		begin := time.Now()
		m, err := module.Load(ctx, e, packed, module.Options{Name: defaults.Name})
		if err != nil {
			return errors.Join(err, e.Close(ctx))
		}
		took := time.Since(begin)
		if err := errors.Join(m.Close(ctx), e.Close(ctx)); err != nil {
			return fmt.Errorf("closing the built-in policies: %w", err)
		}
		bound := goal{}
		if name == "policy/load-cached" {
			bound = valueGoal(loadGoal)
		}
		b.record.add(figure(name, "ms", float64(took)/float64(time.Millisecond), "the built-in module, from its compressed bytes to ready").bounded(bound))
	}
	return nil
}

// policyHosts hold the same module three ways.
type policyHosts struct {
	engine *engine.Engine
	noop   *engine.Module
	module *module.Module
	oracle *suite.Oracle
	// noopOracle is the no-op module in stock extism/go-sdk.
	noopOracle *suite.Oracle
	native     *policytest.Policy
}

func newPolicyHosts(ctx context.Context, cache string) (*policyHosts, error) {
	h := &policyHosts{native: policytest.Native(defaults.Name, defaults.Manifest(), native.Functions())}
	packed, err := builtinpolicies.Module()
	if err != nil {
		return nil, fmt.Errorf("reading the built-in policies: %w", err)
	}
	wasm, err := module.Unpack(packed)
	if err != nil {
		return nil, fmt.Errorf("unpacking the built-in policies: %w", err)
	}
	if h.engine, err = engine.New(ctx, engine.Options{CacheDir: cache}); err != nil {
		return nil, fmt.Errorf("starting the engine: %w", err)
	}
	if h.module, err = module.Load(ctx, h.engine, packed, module.Options{Name: defaults.Name}); err != nil {
		return nil, errors.Join(err, h.engine.Close(ctx))
	}
	if h.noop, err = h.meter(ctx, noopExport, noopModule); err == nil {
		h.oracle, err = suite.NewOracle(ctx, wasm)
	}
	if err == nil {
		h.noopOracle, err = suite.NewOracle(ctx, noopModule)
	}
	if err != nil {
		return nil, errors.Join(err, h.close(ctx))
	}
	return h, nil
}

func (h *policyHosts) close(ctx context.Context) error {
	var errs []error
	if h.oracle != nil {
		errs = append(errs, h.oracle.Close(ctx))
	}
	if h.noopOracle != nil {
		errs = append(errs, h.noopOracle.Close(ctx))
	}
	if h.noop != nil {
		errs = append(errs, h.noop.Close(ctx))
	}
	return errors.Join(append(errs, h.module.Close(ctx), h.engine.Close(ctx))...)
}

// oraclePolicy lets a chain ask stock extism/go-sdk. It is for one goroutine.
type oraclePolicy struct {
	*module.Module
	oracle *suite.Oracle
}

// Call implements chain.Policy.
func (p *oraclePolicy) Call(ctx context.Context, export string, input []byte) ([]byte, engine.Stats, error) {
	output, err := p.oracle.Call(ctx, export, input)
	return output, engine.Stats{}, err
}

// single is the median of calls that come one at a time, as those of pods do: whatever a
// host does after a call is done when the next one comes.
func single(ctx context.Context, call func() error) (float64, error) {
	took := make([]float64, 0, singleCalls)
	for range singleCalls {
		// Not a timer: waking up would cost more than the call.
		for ready := time.Now().Add(singleGap); time.Now().Before(ready); {
			runtime.Gosched()
		}
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		begin := time.Now()
		if err := call(); err != nil {
			return 0, err
		}
		took = append(took, float64(time.Since(begin).Nanoseconds())/1000)
	}
	return median(took), nil
}

func (b *bench) noop(ctx context.Context, h *policyHosts) error {
	ours, err := measure(func() error {
		_, _, err := h.noop.Call(ctx, noopExport, nil)
		return err
	})
	if err != nil {
		return fmt.Errorf("calling the no-op module: %w", err)
	}
	stock, err := measure(func() error {
		_, err := h.noopOracle.Call(ctx, noopExport, nil)
		return err
	})
	if err != nil {
		return fmt.Errorf("calling the no-op module in extism/go-sdk: %w", err)
	}
	const note = "a call that does nothing; baseline: stock extism/go-sdk"
	b.record.add(
		compare("policy/noop", microseconds, ours, stock, valueGoal(noopGoal), note),
		compare("policy/noop-beside-extism", microseconds, ours, stock, ratioGoal(noopRatioGoal), note),
	)
	return nil
}

// ask measures one question through the chain: nothing remembered, by all three, and
// then remembered.
func (b *bench) ask(ctx context.Context, h *policyHosts, q question) error {
	const forgetful, remembering = -1, 0
	times, alone := map[string]float64{}, map[string]float64{}
	for _, way := range []struct {
		name   string
		policy chain.Policy
		memo   int
	}{
		{"wasm", h.module, forgetful},
		{"extism", &oraclePolicy{h.module, h.oracle}, forgetful},
		{"native", h.native, forgetful},
		{"remembered", h.module, remembering},
	} {
		chains := chain.New(chain.Options{MemoEntries: way.memo})
		if err := chains.Swap([]chain.Binding{{Name: "bench", Policy: way.policy, Point: q.input.Point}}); err != nil {
			return fmt.Errorf("binding the built-in policies: %w", err)
		}
		call := func() error {
			result, err := chains.Evaluate(ctx, q.input)
			if err == nil && !result.Changed {
				err = errors.New("the answer changed nothing")
			}
			return err
		}
		var err error
		if times[way.name], err = measure(call); err == nil {
			alone[way.name], err = single(ctx, call)
		}
		if err != nil {
			return fmt.Errorf("asking %s, %s: %w", q.vector, way.name, err)
		}
	}
	name := "policy/" + q.input.Point.Export()
	note := "vector " + q.vector + " through the chain, projection and operations included"
	b.record.add(
		compare(name, microseconds, times["wasm"], times["extism"], goal{}, note+"; baseline: stock extism/go-sdk in the same chain"),
		compare(name+"-alone", microseconds, alone["wasm"], alone["extism"], goal{}, note+", half a millisecond between calls; baseline: stock extism/go-sdk in the same chain"),
		compare(name+"-alone-beside-native", microseconds, alone["wasm"], alone["native"], goal{}, note+", half a millisecond between calls; baseline: the native Go function in the same chain"),
		compare(name+"-beside-native", microseconds, times["wasm"], times["native"], goal{}, note+"; baseline: the native Go function in the same chain"),
		compare(name+"-remembered", microseconds, times["remembered"], times["wasm"], goal{}, note+", the answer remembered; baseline: not remembered"),
	)
	return nil
}
