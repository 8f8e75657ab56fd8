// Package codec reads facts and writes answers without reflection: the part of the
// contract that a guest needs at every call. encoding/json is its oracle in tests.
//
// Fields that the contract's types lack are passed over, since reads may grant a
// subtree that holds more than the types show.
package codec

import (
	"errors"
	"strconv"

	"github.com/longshore-dev/longshore/sdk/contract"
	"github.com/longshore-dev/longshore/sdk/internal/json"
)

// Envelope is a request without its facts.
type Envelope struct {
	Version  string
	Point    contract.Point
	Moment   contract.Moment
	Settings []byte
}

// FactsReader reads the facts of a request: one value.
type FactsReader interface{ ReadFacts(s *json.Scanner) }

// DecodeRequest reads a request and leaves its facts to the reader. It refuses a version
// that this SDK does not speak, and a question that another point was meant to answer.
func DecodeRequest(data []byte, point contract.Point, facts FactsReader) (Envelope, error) {
	var e Envelope
	hasFacts := false
	s := *scanners.One()
	s.Reset(data)
	for key, ok := s.FirstKey(); ok; key, ok = s.NextKey() {
		switch string(key) {
		case "version":
			e.Version = s.String()
		case "point":
			e.Point = contract.Point(s.String())
		case "moment":
			e.Moment = contract.Moment(s.String())
		case "settings":
			e.Settings = s.Raw()
		case "facts":
			hasFacts = true
			facts.ReadFacts(s)
		default:
			s.Skip()
		}
	}
	if err := s.End(); err != nil {
		return Envelope{}, errors.New("reading the request: " + err.Error())
	}
	return e, e.check(point, hasFacts)
}

func (e *Envelope) check(point contract.Point, hasFacts bool) error {
	if e.Version != contract.Version {
		if _, ok := contract.Negotiate([]string{e.Version}, contract.Versions()); !ok {
			return errors.New("this module does not speak the contract version " + strconv.Quote(e.Version) + " of the request")
		}
	}
	if e.Point != point {
		return errors.New("asked for point " + strconv.Quote(string(e.Point)) + ", but this export answers " + string(point))
	}
	if !hasFacts {
		return errors.New("the request has no facts")
	}
	return nil
}
