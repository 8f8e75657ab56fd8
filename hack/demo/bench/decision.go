package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/longshore-dev/longshore/conformance/wat"
	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/host/policy/fuel"
	"github.com/longshore-dev/longshore/host/policy/view"
)

const (
	decisionGoal = 0.5
	// Goals in microseconds, and of a stop in milliseconds.
	memoHitGoal = 20
	// stopGoal is the time that a call may take.
	stopGoal  = 50
	stopCalls = 20
	// straightLength is how often straight code repeats itself between two loop headers.
	straightLength = 5000
)

// decisions measures what one policy costs on a pod of 7 KB, from the raw bytes of the
// request: asked, and remembered. The baseline decodes the pod natively and compares it
// with what came of it, which is the least that a webhook without policies does.
func (b *bench) decisions(ctx context.Context, h *policyHosts) error {
	facts := admissionFacts()
	raw, err := json.Marshal(sizeablePod())
	if err != nil {
		return fmt.Errorf("encoding the pod: %w", err)
	}
	times := map[string]float64{}
	if times["native"], err = measure(func() error { return nativePatch(raw) }); err != nil {
		return fmt.Errorf("patching a pod natively: %w", err)
	}
	for name, memo := range map[string]int{"asked": -1, "remembered": 0} {
		chains, err := placementChains(h, 1, memo)
		if err != nil {
			return err
		}
		times[name], err = measure(func() error {
			result, err := view.AdmitPod(ctx, chains, view.AdmissionInput{
				Raw: raw, Offloading: &facts.offloading.Spec, Namespace: facts.namespace, RuntimeClassName: "liqo",
			})
			if err == nil && !result.Changed {
				err = errors.New("the answer changed nothing")
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("deciding about a pod: %w", err)
		}
	}
	const note = "the placement policy on the raw JSON of a 7 KB pod, layout, projection and operations included"
	b.record.add(
		compare("policy/pod", microseconds, times["asked"], times["native"], ratioGoal(decisionGoal),
			note+"; baseline: the same pod decoded, changed, encoded and compared by native code"),
		compare("policy/pod-remembered", microseconds, times["remembered"], times["asked"], valueGoal(memoHitGoal), note+", the answer remembered; baseline: not remembered"),
	)
	return nil
}

// nativePatch decodes a pod, changes it and makes a patch of the change.
func nativePatch(raw []byte) error {
	pod := &corev1.Pod{}
	if err := json.Unmarshal(raw, pod); err != nil {
		return fmt.Errorf("decoding the pod: %w", err)
	}
	place(pod)
	encoded, err := json.Marshal(pod)
	if err != nil {
		return fmt.Errorf("encoding the pod: %w", err)
	}
	if response := admission.PatchResponseFromRaw(raw, encoded); len(response.Patches) == 0 {
		return errors.New("nothing was patched")
	}
	return nil
}

// runaways are modules that never end by themselves.
var runaways = map[string]string{
	"loop":      `(func (export "run") (result i32) (loop $more (br $more)) (i32.const 0))`,
	"recursion": `(func $again (export "run") (result i32) (call $again))`,
	// Straight code has the fewest places at which fuel is taken.
	"straight": `(global $n (mut i64) (i64.const 1)) (func (export "run") (result i32) (loop $more ` +
		strings.Repeat(`(global.set $n (i64.mul (global.get $n) (i64.const 3)))`, straightLength) + ` (br $more)) (i32.const 0))`,
}

// stops measures how long a runaway runs until it is stopped.
func (b *bench) stops(ctx context.Context, h *policyHosts) error {
	for _, name := range slices.Sorted(maps.Keys(runaways)) {
		wasm, err := wat.Assemble(runaways[name])
		if err != nil {
			return fmt.Errorf("assembling the runaway %s: %w", name, err)
		}
		compiled, err := h.meter(ctx, name, wasm)
		if err != nil {
			return err
		}
		took := make([]float64, 0, stopCalls)
		for range stopCalls {
			begin := time.Now()
			_, _, err := compiled.Call(ctx, "run", nil)
			if !errors.Is(err, engine.Timeout) && !errors.Is(err, engine.Trap) {
				return errors.Join(fmt.Errorf("the runaway %s ended: %w", name, err), compiled.Close(ctx))
			}
			took = append(took, float64(time.Since(begin))/float64(time.Millisecond))
		}
		if err := compiled.Close(ctx); err != nil {
			return fmt.Errorf("closing the runaway %s: %w", name, err)
		}
		b.record.add(figure("policy/stop-"+name, "ms", median(took), "until it is stopped and its caller has the error").bounded(valueGoal(stopGoal)))
	}
	return nil
}

// meter compiles a module as every module is: with fuel.
func (h *policyHosts) meter(ctx context.Context, name string, wasm []byte) (*engine.Module, error) {
	parsed, err := fuel.Parse(wasm)
	if err != nil {
		return nil, fmt.Errorf("reading module %s: %w", name, err)
	}
	rewritten, err := parsed.Meter(fuel.Names{
		Stack: engine.StackExport, RefuelModule: engine.RefuelModule, Refuel: engine.RefuelFunction,
		Fuel: engine.FuelExport, Globals: engine.GlobalExports, Memory: engine.MemoryExport, Start: engine.StartExport,
	})
	if err != nil {
		return nil, fmt.Errorf("metering module %s: %w", name, err)
	}
	compiled, err := h.engine.Compile(ctx, name, rewritten.Wasm, engine.Limits{})
	if err != nil {
		return nil, fmt.Errorf("compiling module %s: %w", name, err)
	}
	return compiled, nil
}
