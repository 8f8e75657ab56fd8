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
// [CompileTo] does. An error that is the module's own doing is made with [Refuse].
type Compiler func(ctx context.Context, wasm []byte, dir string) error

// ErrBudget is in the error of a module that a [Compiler] refuses because compiling it takes
// too much.
var ErrBudget = errors.New("compiling the module takes too much")

// CompileTo compiles a metered module into the compilation cache in a directory, with one
// worker for each processor, and runs nothing of it. A process that compiles for others
// calls it.
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

// invalid is the error for a module that wazero does not compile.
func invalid(err error) error {
	return refusal{fmt.Errorf("the module is not valid; its author must rebuild it: %w", err)}
}

// errNotCompiled is the error of loading a module whose code is not in the cache.
var errNotCompiled = errors.New("the module's compiled code is not in the cache: this is a bug of Longshore")

// neverCompile returns a context with which wazero loads a compiled module and compiles
// none: several workers look whether the context has ended before each function.
func neverCompile(ctx context.Context) (context.Context, int) {
	const several = 2
	ctx, cancel := context.WithCancelCause(ctx)
	cancel(errNotCompiled)
	return ctx, several
}
