package suite

import (
	"context"
	"fmt"

	extism "github.com/extism/go-sdk"
)

// Oracle is stock extism/go-sdk. It is slow and has no metering, so only tests and
// conformance runs use it.
type Oracle struct {
	plugin *extism.Plugin
}

// NewOracle loads an unpacked module.
func NewOracle(ctx context.Context, wasm []byte) (*Oracle, error) {
	manifest := extism.Manifest{Wasm: []extism.Wasm{extism.WasmData{Data: wasm}}}
	plugin, err := extism.NewPlugin(ctx, manifest, extism.PluginConfig{EnableWasi: true}, nil)
	if err != nil {
		return nil, fmt.Errorf("loading the module in extism/go-sdk: %w", err)
	}
	return &Oracle{plugin: plugin}, nil
}

// Call implements [Host].
func (o *Oracle) Call(ctx context.Context, export string, input []byte) ([]byte, error) {
	status, output, err := o.plugin.CallWithContext(ctx, export, input)
	if err != nil {
		return nil, fmt.Errorf("extism/go-sdk: %s: %w", export, err)
	}
	if status != 0 {
		return nil, fmt.Errorf("extism/go-sdk: %s returned %d", export, status)
	}
	return output, nil
}

// Close frees the module.
func (o *Oracle) Close(ctx context.Context) error {
	if err := o.plugin.Close(ctx); err != nil {
		return fmt.Errorf("closing the module in extism/go-sdk: %w", err)
	}
	return nil
}
