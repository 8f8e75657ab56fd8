package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/longshore-dev/longshore/host/policy/chain"
)

// Pairs of calls that are measured in turns, and before that not measured.
const (
	turns       = 2000
	turnsQuick  = 200
	turnsBefore = 50
)

// projected measures each built-in policy asked about a pod of 7 KB of which it reads a
// part, beside the least that native code does with that pod: decode it, change it, and
// write the patch operations down, comparing nothing. The calls of both are made in turns.
func (b *bench) projected(ctx context.Context, h *policyHosts, q question) error {
	input, raw, err := sized(q.input)
	if err != nil {
		return fmt.Errorf("putting vector %s on a pod: %w", q.vector, err)
	}
	chains := chain.New(chain.Options{MemoEntries: -1})
	if err := chains.Swap([]chain.Binding{{Name: "bench", Policy: h.module, Point: input.Point}}); err != nil {
		return fmt.Errorf("binding the built-in policies: %w", err)
	}
	pairs := turns
	if b.quick {
		pairs = turnsQuick
	}
	asked, native, err := inTurns(ctx, pairs,
		func() error {
			result, err := chains.Evaluate(ctx, input)
			if err == nil && !result.Changed {
				err = errors.New("the answer changed nothing")
			}
			return err
		},
		func() error { return nativeOperations(raw) })
	if err != nil {
		return fmt.Errorf("asking %s about a pod: %w", q.vector, err)
	}
	b.record.add(compare("policy/"+input.Point.Export()+"/projected", microseconds, asked, native, ratioGoal(decisionGoal),
		"vector "+q.vector+" on a pod of 7 KB, metered, nothing remembered, projection and operations included; p50 of calls in turns with the baseline: "+
			"the same pod decoded and changed by native code and its patch operations written, nothing compared"))
	return nil
}

// inTurns calls one after the other, again and again, and returns the medians in
// microseconds: whatever slows the machine down meets both.
func inTurns(ctx context.Context, pairs int, first, second func() error) (ofFirst, ofSecond float64, err error) {
	took := [2][]float64{}
	for i := range turnsBefore + pairs {
		if ctx.Err() != nil {
			return 0, 0, context.Cause(ctx)
		}
		for j, call := range []func() error{first, second} {
			began := time.Now()
			if err := call(); err != nil {
				return 0, 0, err
			}
			if i >= turnsBefore {
				took[j] = append(took[j], float64(time.Since(began).Nanoseconds())/1000)
			}
		}
	}
	return median(took[0]), median(took[1]), nil
}

// sized asks the question about a pod of 7 KB, which it also returns as the API server
// writes it. What else the vector has, labels and annotations for instance, the pod has too.
func sized(input chain.Input) (chain.Input, []byte, error) {
	object, err := onPod(input.Object)
	if err != nil {
		return input, nil, err
	}
	facts := map[string]any{}
	for name, fact := range input.Facts {
		if local, ok := fact.(map[string]any); ok && name == "local" {
			if fact, err = onPod(local); err != nil {
				return input, nil, err
			}
		}
		facts[name] = fact
	}
	input.Object, input.Facts = object, facts
	raw, err := json.Marshal(object)
	if err != nil {
		return input, nil, fmt.Errorf("encoding the pod: %w", err)
	}
	return input, raw, nil
}

func onPod(extra map[string]any) (map[string]any, error) {
	pod, err := runtime.DefaultUnstructuredConverter.ToUnstructured(sizeablePod())
	if err != nil {
		return nil, fmt.Errorf("converting the pod: %w", err)
	}
	add(pod, extra)
	return pod, nil
}

// add puts into an object what it has not.
func add(object, extra map[string]any) {
	for key, value := range extra {
		have, known := object[key]
		inner, isObject := have.(map[string]any)
		more, areObjects := value.(map[string]any)
		switch {
		case !known:
			object[key] = value
		case isObject && areObjects:
			add(inner, more)
		}
	}
}

// addition is an operation of RFC 6902.
type addition struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// nativeOperations is a native decision at its cheapest: the author writes by hand which
// operations the change amounts to.
func nativeOperations(raw []byte) error {
	pod := &corev1.Pod{}
	if err := json.Unmarshal(raw, pod); err != nil {
		return fmt.Errorf("decoding the pod: %w", err)
	}
	place(pod)
	if _, err := json.Marshal([]addition{
		{"add", "/spec/tolerations", pod.Spec.Tolerations}, {"add", "/spec/affinity", pod.Spec.Affinity},
	}); err != nil {
		return fmt.Errorf("encoding the patch: %w", err)
	}
	return nil
}
