package operation

import (
	"fmt"

	"github.com/longshore-dev/longshore/host/kit/jsonvalue"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// CheckSettings returns an error for settings that are too long or nested too deep. Call it
// before decoding them.
func CheckSettings(settings []byte) error {
	if len(settings) > contract.MaxSettingsBytes {
		return fmt.Errorf("settings have %d bytes, more than %d; the operator must shorten them", len(settings), contract.MaxSettingsBytes)
	}
	if depth := jsonvalue.Depth(settings); depth > contract.MaxValueDepth {
		return fmt.Errorf("settings are nested %d deep, more than %d; the operator must flatten them", depth, contract.MaxValueDepth)
	}
	return nil
}
