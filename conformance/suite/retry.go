package suite

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/host/policy/module"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// attempts is how often a call that reached its limit of CPU time is made. A virtual machine
// counts the time that its host gives to others as CPU time of the call. A module that is too
// slow itself reaches the limit each time.
const attempts = 5

// inTime makes a call again that reached its limit of CPU time.
func inTime[T any](call func() (T, error)) (result T, err error) {
	for range attempts {
		if result, err = call(); !errors.Is(err, engine.ErrCallTime) {
			break
		}
	}
	return result, err
}

// timed is a module whose calls are made again when they reached their limit of CPU time.
type timed struct{ *module.Module }

// Call replaces that of the module.
func (m timed) Call(ctx context.Context, export string, request []byte) (output []byte, stats engine.Stats, err error) {
	output, err = inTime(func() ([]byte, error) {
		output, stats, err = m.Module.Call(ctx, export, request)
		return output, err
	})
	return output, stats, err
}

// ValidateSettings replaces that of the module.
func (m timed) ValidateSettings(ctx context.Context, settings json.RawMessage, points ...contract.Point) error {
	_, err := inTime(func() (struct{}, error) {
		return struct{}{}, m.Module.ValidateSettings(ctx, settings, points...)
	})
	return err
}
