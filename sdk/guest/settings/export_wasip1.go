package settings

import (
	"github.com/longshore-dev/longshore/sdk/contract"
	"github.com/longshore-dev/longshore/sdk/internal/dispatch"
)

//go:wasmexport validate_settings
func export() int32 { return dispatch.Run(contract.ExportValidateSettings) }
