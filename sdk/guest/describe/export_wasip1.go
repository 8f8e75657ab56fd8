package describe

import (
	"github.com/longshore-dev/longshore/sdk/contract"
	"github.com/longshore-dev/longshore/sdk/internal/dispatch"
)

//go:wasmexport describe
func export() int32 { return dispatch.Run(contract.ExportDescribe) }
