// Package codec decodes requests and encodes responses without reflection. Tests compare it
// with encoding/json.
//
// Fields that the contract's types lack are skipped, because the reads of a manifest may grant a
// subtree with more fields than the types have.
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

// DecodeRequest decodes a request; the reader decodes its facts. It returns an error for a
// version that this SDK does not support, and for the request of another point.
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
