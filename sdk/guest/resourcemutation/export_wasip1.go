package resourcemutation

import (
	"github.com/longshore-dev/longshore/sdk/contract"
	"github.com/longshore-dev/longshore/sdk/internal/dispatch"
)

//go:wasmexport resource_mutation
func export() int32 { return dispatch.Run(contract.ResourceMutation.Export()) }
