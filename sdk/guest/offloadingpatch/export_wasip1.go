package offloadingpatch

import (
	"github.com/longshore-dev/longshore/sdk/contract"
	"github.com/longshore-dev/longshore/sdk/internal/dispatch"
)

//go:wasmexport offloading_patch
func export() int32 { return dispatch.Run(contract.OffloadingPatch.Export()) }
