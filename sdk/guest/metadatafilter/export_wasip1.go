package metadatafilter

import (
	"github.com/longshore-dev/longshore/sdk/contract"
	"github.com/longshore-dev/longshore/sdk/internal/dispatch"
)

//go:wasmexport metadata_filter
func export() int32 { return dispatch.Run(contract.MetadataFilter.Export()) }
