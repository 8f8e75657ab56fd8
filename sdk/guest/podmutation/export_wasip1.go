package podmutation

import (
	"github.com/longshore-dev/longshore/sdk/contract"
	"github.com/longshore-dev/longshore/sdk/internal/dispatch"
)

//go:wasmexport pod_mutation
func export() int32 { return dispatch.Run(contract.PodMutation.Export()) }
