// Package serve is the one way in which all extension points are answered: decode
// the request, ask the policy, encode the answer. What differs between them is the
// type of the facts.
package serve

import (
	"github.com/longshore-dev/longshore/sdk/contract"
	"github.com/longshore-dev/longshore/sdk/guest"
	"github.com/longshore-dev/longshore/sdk/internal/codec"
	"github.com/longshore-dev/longshore/sdk/internal/dispatch"
	"github.com/longshore-dev/longshore/sdk/internal/json"
)

// Point registers the policy that answers a point.
func Point[F any](point contract.Point, facts func(*json.Scanner) F, policy func(*guest.Request[F]) (*guest.Answer, error)) {
	dispatch.Register(point.Export(), func(input []byte) ([]byte, error) {
		var request guest.Request[F]
		envelope, err := codec.DecodeRequest(input, point, func(s *json.Scanner) { request.Facts = facts(s) })
		if err != nil {
			return nil, err
		}
		request.Moment = envelope.Moment
		request.Settings = envelope.Settings
		answer, err := policy(&request)
		if err != nil {
			return nil, err
		}
		response := contract.Response{Version: envelope.Version}
		if answer != nil {
			response.Operations, response.Deny, response.Warnings = answer.Operations, answer.Deny, answer.Warnings
		}
		return codec.AppendResponse(make([]byte, 0, 1024), &response), nil
	})
}

// Operations registers the policy that answers a point at which nothing can be denied.
func Operations[F any](point contract.Point, facts func(*json.Scanner) F, policy func(*guest.Request[F]) ([]contract.Operation, error)) {
	Point(point, facts, func(request *guest.Request[F]) (*guest.Answer, error) {
		operations, err := policy(request)
		return &guest.Answer{Operations: operations}, err
	})
}
