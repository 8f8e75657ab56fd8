// Package settings lets a module refuse bad settings before they are used:
// importing it adds the optional wasm export validate_settings, [Handle] registers
// the check.
package settings

import (
	"github.com/longshore-dev/longshore/sdk/contract"
	"github.com/longshore-dev/longshore/sdk/guest"
	"github.com/longshore-dev/longshore/sdk/internal/codec"
	"github.com/longshore-dev/longshore/sdk/internal/dispatch"
)

// Handle registers the check that the host runs when a binding's settings change.
// Call it in an init function, once. An error is shown to the operator who wrote the
// settings: it should say what is wrong and where.
//
//	settings.Handle(func(s guest.Settings) error {
//		var v struct{ Registry string `json:"registry"` }
//		if err := anyjson.Settings(s, &v); err != nil {
//			return err
//		}
//		if v.Registry == "" {
//			return errors.New("spec.settings.registry is required")
//		}
//		return nil
//	})
func Handle(check func(guest.Settings) error) {
	dispatch.Register(contract.ExportValidateSettings, func(input []byte) ([]byte, error) {
		request, err := codec.DecodeSettingsRequest(input)
		if err != nil {
			return nil, err
		}
		response := contract.SettingsResponse{Version: request.Version, Valid: true}
		if err := check(guest.Settings(request.Settings)); err != nil {
			response.Valid, response.Message = false, err.Error()
		}
		return codec.AppendSettingsResponse(nil, &response), nil
	})
}
