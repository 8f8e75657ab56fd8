package resourcesliceadmission

import (
	"github.com/longshore-dev/longshore/sdk/contract"
	"github.com/longshore-dev/longshore/sdk/internal/dispatch"
)

//go:wasmexport resource_slice_admission
func export() int32 { return dispatch.Run(contract.ResourceSliceAdmission.Export()) }
