package shadowpodadmission

import (
	"github.com/longshore-dev/longshore/sdk/contract"
	"github.com/longshore-dev/longshore/sdk/internal/dispatch"
)

//go:wasmexport shadow_pod_admission
func export() int32 { return dispatch.Run(contract.ShadowPodAdmission.Export()) }
