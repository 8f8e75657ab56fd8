package antiaffinitypreset

import (
	"github.com/longshore-dev/longshore/sdk/contract"
	"github.com/longshore-dev/longshore/sdk/internal/dispatch"
)

//go:wasmexport anti_affinity_preset
func export() int32 { return dispatch.Run(contract.AntiAffinityPreset.Export()) }
