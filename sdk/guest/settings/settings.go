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
// settings. It should name the problem and the field.
//
//	settings.Handle(func(s guest.Settings) error {
//		var registry string
//		if err := strictjson.Decode(s, strictjson.String("registry", &registry)); err != nil {
//			return err
//		}
//		if registry == "" {
//			return errors.New("spec.settings.registry is required")
//		}
//		return nil
//	})
func Handle(check func(guest.Settings) error) {
	HandlePoints(func(_ []contract.Point, s guest.Settings) error { return check(s) })
}

// HandlePoints is [Handle] for a module whose extension points have settings of their
// own: the check gets the points at which the binding uses them; none means all that
// the module answers.
func HandlePoints(check func([]contract.Point, guest.Settings) error) {
	dispatch.Register(contract.ExportValidateSettings, func(input []byte) ([]byte, error) {
		request, err := codec.DecodeSettingsRequest(input)
		if err != nil {
			return nil, err
		}
		response := contract.SettingsResponse{Version: request.Version, Valid: true}
		if err := check(request.Points, guest.Settings(request.Settings)); err != nil {
			response.Valid, response.Message = false, err.Error()
		}
		return codec.AppendSettingsResponse(nil, &response), nil
	})
}
