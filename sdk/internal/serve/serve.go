// Package serve is the one way in which all extension points are answered: decode
// the request, ask the policy, encode the answer. What differs between them is the
// type of the facts.
package serve

import (
	"errors"
	"strconv"

	"github.com/longshore-dev/longshore/sdk/contract"
	"github.com/longshore-dev/longshore/sdk/guest"
	"github.com/longshore-dev/longshore/sdk/internal/codec"
	"github.com/longshore-dev/longshore/sdk/internal/dispatch"
	"github.com/longshore-dev/longshore/sdk/internal/json"
	"github.com/longshore-dev/longshore/sdk/internal/room"
)

// supply is how many requests a module is ready for at once.
const supply = 8

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
	questions := room.NewWith(supply, func() *question[F] { return &question[F]{facts: facts, policy: policy} })
	answerAt(point, func() (codec.FactsReader, asked) {
		q := *questions.One()
		return q, q
	})
}

// question is a request on its way to its policy.
type question[F any] struct {
	request guest.Request[F]
	facts   func(*json.Scanner, *F)
	policy  func(*guest.Request[F]) (contract.Response, error)
}

func (q *question[F]) ReadFacts(s *json.Scanner) { q.facts(s, &q.request.Facts) }

func (q *question[F]) ask(e codec.Envelope) (contract.Response, error) {
	q.request.Moment, q.request.Settings = e.Moment, e.Settings
	return q.policy(&q.request)
}

// asked is a question of any point: what does not differ between points is compiled once.
type asked interface {
	ask(codec.Envelope) (contract.Response, error)
}

// answerAt takes questions by both of their sides: in a guest it takes long to find the
// one that belongs to the other.
func answerAt(point contract.Point, next func() (codec.FactsReader, asked)) {
	dispatch.Register(point.Export(), func(input []byte) ([]byte, error) {
		facts, question := next()
		envelope, err := codec.DecodeRequest(input, point, facts)
		if err != nil {
			return nil, err
		}
		response, err := question.ask(envelope)
		if err != nil {
			return nil, err
		}
		if n := len(response.Operations); n > contract.MaxOperations {
			return nil, errors.New("the answer would have " + strconv.Itoa(n) + " operations, more than " + strconv.Itoa(contract.MaxOperations))
		}
		response.Version = envelope.Version
		return codec.AppendResponse(room.Bytes(codec.ResponseBytes(&response)), &response), nil
	})
}
