package engine

import (
	"context"
	"errors"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
)

// Validate reports whether a module is valid as its author built it. Metering adds items
// to a module, and what was invalid before could name them afterwards, so the module is
// validated before it is metered; the compiler validates only the result.
//
// wazero has no way to validate without compiling. It validates all of a module first,
// though, and only then asks whether its context has ended; so the module is compiled
// under a context that has, which takes some hundredths of a second for a large Go guest.
// A test shows that later versions of wazero still do both in this order.
func Validate(ctx context.Context, wasm []byte) error {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	cancel(errValidated)
	runtime := wazero.NewRuntimeWithConfig(ctx, runtimeConfig())
	defer func() { _ = runtime.Close(ctx) }() // there is nothing in it
	// A context is looked at only by several workers.
	_, err := runtime.CompileModule(experimental.WithCompilationWorkers(ctx, 2), wasm)
	if err == nil || errors.Is(err, errValidated) {
		return nil
	}
	return invalid(err)
}

var errValidated = errors.New("the module was validated and is not compiled")

// runtimeConfig is what modules are validated and compiled with.
func runtimeConfig() wazero.RuntimeConfig {
	return wazero.NewRuntimeConfig().WithCoreFeatures(api.CoreFeaturesV2).WithDebugInfoEnabled(false)
}
