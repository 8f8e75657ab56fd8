package suite

import (
	"context"
	"errors"
	"fmt"

	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/host/policy/module"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// Longshore is our host: the module is checked, metered and sandboxed as in a cluster.
type Longshore struct {
	engine *engine.Engine
	module timed
}

// NewLongshore loads a module, compressed or not. Of the options it needs CacheDir, which may be
// empty, Compiler and BuiltIn.
func NewLongshore(ctx context.Context, raw []byte, options Options) (*Longshore, error) {
	limits := engine.Limits{}
	if options.BuiltIn {
		limits = engine.BuiltIn()
	}
	e, err := engine.New(ctx, engine.Options{CacheDir: options.CacheDir, Compiler: options.Compiler})
	if err != nil {
		return nil, fmt.Errorf("starting the engine: %w", err)
	}
	m, err := inTime(func() (*module.Module, error) {
		return module.Load(ctx, e, raw, module.Options{Name: "conformance", Limits: limits})
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("loading the module: %w", err), e.Close(ctx))
	}
	return &Longshore{engine: e, module: timed{m}}, nil
}

// Manifest returns what the module declares.
func (l *Longshore) Manifest() *contract.Manifest { return l.module.Manifest() }

// Digest returns the digest of the unpacked module, "sha256:…".
func (l *Longshore) Digest() string { return l.module.Digest() }

// Call implements [Host].
func (l *Longshore) Call(ctx context.Context, export string, input []byte) ([]byte, error) {
	output, _, err := l.module.Call(ctx, export, input)
	if err != nil {
		return nil, fmt.Errorf("longshore: %w", err)
	}
	return output, nil
}

// Close frees the module and its engine.
func (l *Longshore) Close(ctx context.Context) error {
	if err := errors.Join(l.module.Close(ctx), l.engine.Close(ctx)); err != nil {
		return fmt.Errorf("closing the module: %w", err)
	}
	return nil
}
