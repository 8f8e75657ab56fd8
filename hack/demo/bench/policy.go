package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	builtinpolicies "github.com/longshore-dev/longshore/builtin-policies"
	"github.com/longshore-dev/longshore/builtin-policies/defaults"
	"github.com/longshore-dev/longshore/builtin-policies/native"
	"github.com/longshore-dev/longshore/conformance/suite"
	"github.com/longshore-dev/longshore/conformance/vectors"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/host/policy/module"
	"github.com/longshore-dev/longshore/host/policy/policytest"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// Calls that are measured without pause, and before that not measured.
const calls, quickCalls, callsBefore = 5000, 500, 200

// questionVectors are the golden vectors whose questions are asked, one for each core point.
var questionVectors = []string{"podmutation/remote-selector", "offloadingpatch/affinity-both", "antiaffinitypreset/propagate", "metadatafilter/default-list"}

// policies measures calls of the built-in policies through the chain with nothing remembered, beside stock
// extism/go-sdk and the native functions in the same chain, before any cluster runs beside them.
func (b *bench) policies(ctx context.Context) (err error) {
	packed, err := builtinpolicies.Module()
	if err != nil {
		return fmt.Errorf("reading the built-in policies: %w", err)
	}
	wasm, err := module.Unpack(packed)
	if err != nil {
		return fmt.Errorf("unpacking the built-in policies: %w", err)
	}
	e, err := engine.New(ctx, engine.Options{CacheDir: b.dir})
	if err != nil {
		return fmt.Errorf("starting the engine: %w", err)
	}
	defer func() { err = errors.Join(err, e.Close(ctx)) }()
	ours, err := module.Load(ctx, e, packed, module.Options{Name: defaults.Name})
	if err != nil {
		return fmt.Errorf("loading the built-in policies: %w", err)
	}
	defer func() { err = errors.Join(err, ours.Close(ctx)) }()
	oracle, err := suite.NewOracle(ctx, wasm)
	if err != nil {
		return fmt.Errorf("loading the built-in policies with extism/go-sdk: %w", err)
	}
	defer func() { err = errors.Join(err, oracle.Close(ctx)) }()
	ways := []chain.Policy{ours, &oraclePolicy{ours, oracle}, nativePolicy()}
	for i := range b.runs {
		b.logf("policy %d: calls", i+1)
		for _, vector := range questionVectors {
			if err := b.ask(ctx, ways, vector); err != nil {
				return err
			}
		}
	}
	return nil
}

// nativePolicy are the built-in policies as Go functions.
func nativePolicy() chain.Policy {
	return policytest.Native(defaults.Name, defaults.Manifest(), native.Functions())
}

// ask measures one question to a module in our host, the same in stock extism/go-sdk, and the native function.
func (b *bench) ask(ctx context.Context, ways []chain.Policy, vector string) error {
	input, err := questionOf(vector)
	if err != nil {
		return err
	}
	took := make([]float64, len(ways))
	for i, policy := range ways {
		chains := chain.New(chain.Options{MemoEntries: -1})
		if err := chains.Swap([]chain.Binding{{Name: "bench", Policy: policy, Point: input.Point}}); err != nil {
			return fmt.Errorf("binding the built-in policies: %w", err)
		}
		took[i], err = p50(ctx, b.size(calls, quickCalls), func() error {
			result, err := chains.Evaluate(ctx, input)
			if err == nil && !result.Changed {
				err = errors.New("the answer changed nothing")
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("asking %s: %w", vector, err)
		}
	}
	const unit = "us/call"
	name, note := "policy/"+input.Point.Export(), "vector "+vector+" through the chain, projection and operations included; baseline: "
	b.record.add(
		compare(name, unit, took[0], took[1], goal{}, note+"stock extism/go-sdk in the same chain"),
		compare(name+"-beside-native", unit, took[0], took[2], goal{}, note+"the native Go function in the same chain"),
	)
	return nil
}

// p50 calls without pause and returns the median in microseconds.
func p50(ctx context.Context, calls int, call func() error) (float64, error) {
	var took []float64
	for i := range callsBefore + calls {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		began := time.Now()
		if err := call(); err != nil {
			return 0, err
		}
		if i >= callsBefore {
			took = append(took, float64(time.Since(began).Nanoseconds())/1000)
		}
	}
	return median(took), nil
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

// questionOf asks what the vector asks: what the request holds beside the object are facts.
func questionOf(name string) (chain.Input, error) {
	all, err := vectors.All()
	if err != nil {
		return chain.Input{}, fmt.Errorf("reading the vectors: %w", err)
	}
	at := slices.IndexFunc(all, func(v vectors.Vector) bool { return v.Name == name })
	if at < 0 {
		return chain.Input{}, fmt.Errorf("there is no vector %q", name)
	}
	var request contract.Request
	var facts, object map[string]any
	if err := json.Unmarshal(all[at].Request, &request); err != nil {
		return chain.Input{}, fmt.Errorf("reading vector %q: %w", name, err)
	}
	if err := errors.Join(json.Unmarshal(request.Facts, &facts), json.Unmarshal(all[at].Object, &object)); err != nil {
		return chain.Input{}, fmt.Errorf("reading vector %q: %w", name, err)
	}
	// The request holds what the policy reads of the object; the chain is given all of it.
	delete(facts, "object")
	return chain.Input{Point: request.Point, Moment: request.Moment, Object: object, Facts: facts}, nil
}
