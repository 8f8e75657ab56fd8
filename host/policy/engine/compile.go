package engine

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental"
)

// Compiler compiles a metered module into the compilation cache in a directory, as
// [CompileTo] does. Errors that the module causes are marked with [Refuse].
type Compiler func(ctx context.Context, wasm []byte, dir string) error

// ErrBudget is in the error of a module that exceeds a [Compiler]'s limits.
var ErrBudget = errors.New("compiling the module takes too much")

// CompileTo compiles a metered module into the compilation cache in a directory, with one
// worker for each processor. It runs no code of the module.
func CompileTo(ctx context.Context, dir string, wasm []byte) error {
	files, err := wazero.NewCompilationCacheWithDir(dir)
	if err != nil {
		return fmt.Errorf("opening the directory of compiled modules: %w", err)
	}
	runtime := wazero.NewRuntimeWithConfig(ctx, runtimeConfig().WithCompilationCache(files))
	_, err = runtime.CompileModule(experimental.WithCompilationWorkers(ctx, goruntime.GOMAXPROCS(0)), wasm)
	if err != nil {
		err = invalid(err)
	}
	return errors.Join(err, runtime.Close(ctx), files.Close(ctx))
}

// invalid returns the error for a module that wazero does not compile.
func invalid(err error) error {
	return refusal{fmt.Errorf("the module is not valid; its author must rebuild it: %w", err)}
}

// ErrNotCompiled is in the error of a module whose code a [Compiler] did not put into the cache.
var ErrNotCompiled = errors.New("the module's compiled code is not in the cache: this is a bug of Longshore")

// withoutCompiling returns a context and a number of workers with which wazero loads compiled
// modules only: with several workers, it compiles no function after the context has ended.
func withoutCompiling(ctx context.Context) (context.Context, int) {
	const several = 2
	ctx, cancel := context.WithCancelCause(ctx)
	cancel(ErrNotCompiled)
	return ctx, several
}
