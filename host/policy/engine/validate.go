package engine

import (
	"context"
	"errors"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
)

// Validate returns an error for a module that is not valid as its author built it. It must
// be called before metering: an index that is invalid before could name an item that
// metering adds. The bytes must have been parsed and must have no custom sections: wazero
// allocates what the counts in a module ask for.
//
// wazero cannot validate without compiling, but it validates the whole module before it
// checks its context. So the module is compiled with a canceled context, which takes some
// hundredths of a second for a large Go guest. A test holds wazero to this order.
func Validate(ctx context.Context, wasm []byte) error {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	cancel(errValidated)
	runtime := wazero.NewRuntimeWithConfig(ctx, runtimeConfig())
	defer func() { _ = runtime.Close(ctx) }() // it is empty
	// Only several workers check the context.
	_, err := runtime.CompileModule(experimental.WithCompilationWorkers(ctx, 2), wasm)
	if err == nil || errors.Is(err, errValidated) {
		return nil
	}
	return invalid(err)
}

var errValidated = errors.New("the module was validated and is not compiled")

// runtimeConfig is the configuration for validating and compiling.
func runtimeConfig() wazero.RuntimeConfig {
	return wazero.NewRuntimeConfig().WithCoreFeatures(api.CoreFeaturesV2).WithDebugInfoEnabled(false)
}
