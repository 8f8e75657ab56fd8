// Package serve is the one way in which all extension points are answered: decode
// the request, ask the policy, encode the answer. What differs between them is the
// type of the facts.
package serve

import (
	"errors"
	"strconv"

	"github.com/longshore-dev/longshore/sdk/contract"
	"github.com/longshore-dev/longshore/sdk/guest"
	"github.com/longshore-dev/longshore/sdk/internal/arena"
	"github.com/longshore-dev/longshore/sdk/internal/codec"
	"github.com/longshore-dev/longshore/sdk/internal/dispatch"
	"github.com/longshore-dev/longshore/sdk/internal/json"
)

// requests is how many requests of a point are allocated at once.
const requests = 8

// Point registers the policy that answers a point. A nil answer changes nothing.
func Point[F any](point contract.Point, facts func(*json.Scanner, *F), policy func(*guest.Request[F]) (*guest.Answer, error)) {
	register(point, facts, func(request *guest.Request[F]) (contract.Response, error) {
		answer, err := policy(request)
		if answer == nil {
			return contract.Response{}, err
		}
		return contract.Response{Operations: answer.Operations, Deny: answer.Deny, Warnings: answer.Warnings}, err
	})
}

// Operations registers the policy that answers a point at which nothing can be denied.
func Operations[F any](point contract.Point, facts func(*json.Scanner, *F), policy func(*guest.Request[F]) ([]contract.Operation, error)) {
	register(point, facts, func(request *guest.Request[F]) (contract.Response, error) {
		operations, err := policy(request)
		return contract.Response{Operations: operations}, err
	})
}

func register[F any](point contract.Point, facts func(*json.Scanner, *F), policy func(*guest.Request[F]) (contract.Response, error)) {
	calls := arena.NewWith(requests, func() *call[F] { return &call[F]{facts: facts, policy: policy} })
	handle(point, func() (codec.FactsReader, responder) {
		c := *calls.One()
		return c, c
	})
}

// call is a request and the policy that it is for.
type call[F any] struct {
	request guest.Request[F]
	facts   func(*json.Scanner, *F)
	policy  func(*guest.Request[F]) (contract.Response, error)
}

func (c *call[F]) ReadFacts(s *json.Scanner) { c.facts(s, &c.request.Facts) }

func (c *call[F]) respond(e codec.Envelope) (contract.Response, error) {
	c.request.Moment, c.request.Settings = e.Moment, e.Settings
	return c.policy(&c.request)
}

// responder is a call of any point, so that the code of handle is compiled once.
type responder interface {
	respond(codec.Envelope) (contract.Response, error)
}

// handle registers the export of a point. next returns a call as both of its interfaces: a type
// assertion from one to the other is slow in a guest.
func handle(point contract.Point, next func() (codec.FactsReader, responder)) {
	dispatch.Register(point.Export(), func(input []byte) ([]byte, error) {
		facts, current := next()
		envelope, err := codec.DecodeRequest(input, point, facts)
		if err != nil {
			return nil, err
		}
		response, err := current.respond(envelope)
		if err != nil {
			return nil, err
		}
		if n := len(response.Operations); n > contract.MaxOperations {
			return nil, errors.New("the response would have " + strconv.Itoa(n) + " operations, more than " + strconv.Itoa(contract.MaxOperations))
		}
		response.Version = envelope.Version
		return codec.AppendResponse(arena.Bytes(codec.ResponseBytes(&response)), &response), nil
	})
}
