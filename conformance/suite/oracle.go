package suite

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	extism "github.com/extism/go-sdk"
	"github.com/tetratelabs/wazero"
)

// Oracle is stock extism/go-sdk. It is slow and has no metering, so only tests and
// conformance runs use it. Its clock and its random numbers are real. Its instance keeps its memory from call to call until a call fails.
type Oracle struct {
	compiled *extism.CompiledPlugin
	plugin   *extism.Plugin
}

// NewOracle loads an unpacked module.
func NewOracle(ctx context.Context, wasm []byte) (*Oracle, error) {
	manifest := extism.Manifest{Wasm: []extism.Wasm{extism.WasmData{Data: wasm}}}
	compiled, err := extism.NewCompiledPlugin(ctx, manifest, extism.PluginConfig{EnableWasi: true}, nil)
	if err != nil {
		return nil, fmt.Errorf("loading the module in extism/go-sdk: %w", err)
	}
	o := &Oracle{compiled: compiled}
	if err := o.renew(ctx); err != nil {
		return nil, errors.Join(err, compiled.Close(ctx))
	}
	return o, nil
}

// renew replaces the instance.
func (o *Oracle) renew(ctx context.Context) error {
	if err := o.drop(ctx); err != nil {
		return err
	}
	plugin, err := o.compiled.Instance(ctx, extism.PluginInstanceConfig{
		ModuleConfig: wazero.NewModuleConfig().WithSysWalltime().WithSysNanotime().WithRandSource(rand.Reader),
	})
	if err != nil {
		return fmt.Errorf("starting the module in extism/go-sdk: %w", err)
	}
	o.plugin = plugin
	return nil
}

func (o *Oracle) drop(ctx context.Context) error {
	if o.plugin == nil {
		return nil
	}
	plugin := o.plugin
	o.plugin = nil
	if err := plugin.Close(ctx); err != nil {
		return fmt.Errorf("closing the module in extism/go-sdk: %w", err)
	}
	return nil
}

// Call implements [Host].
func (o *Oracle) Call(ctx context.Context, export string, input []byte) ([]byte, error) {
	if o.plugin == nil {
		if err := o.renew(ctx); err != nil {
			return nil, err
		}
	}
	status, output, err := o.plugin.CallWithContext(ctx, export, input)
	if err == nil && status != 0 {
		err = fmt.Errorf("returned %d", status)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("extism/go-sdk: %s: %w", export, err), o.drop(ctx))
	}
	return output, nil
}

// Close frees the module.
func (o *Oracle) Close(ctx context.Context) error {
	if err := errors.Join(o.drop(ctx), o.compiled.Close(ctx)); err != nil {
		return fmt.Errorf("closing the module in extism/go-sdk: %w", err)
	}
	return nil
}
