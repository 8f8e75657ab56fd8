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

// DecodeRequest reads a request and leaves its facts to the given function, which
// must consume one value. It refuses a version that this SDK does not speak, and a
// question that another point was meant to answer.
func DecodeRequest(data []byte, point contract.Point, facts func(*json.Scanner)) (Envelope, error) {
	var e Envelope
	hasFacts := false
	s := json.NewScanner(data)
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
			facts(s)
		default:
			s.Skip()
		}
	}
	if err := s.End(); err != nil {
		return Envelope{}, errors.New("reading the request: " + err.Error())
	}
	if _, ok := contract.Negotiate([]string{e.Version}, contract.Versions()); !ok {
		return Envelope{}, errors.New("this module does not speak the contract version " + strconv.Quote(e.Version) + " of the request")
	}
	if e.Point != point {
		return Envelope{}, errors.New("asked for point " + strconv.Quote(string(e.Point)) + ", but this export answers " + string(point))
	}
	if !hasFacts {
		return Envelope{}, errors.New("the request has no facts")
	}
	return e, nil
}

// list reads a list, or nil for null.
func list[T any](s *json.Scanner, item func(*json.Scanner) T) []T {
	if s.Null() {
		return nil
	}
	// Most lists of a pod are short: one allocation does.
	items := make([]T, 0, 4)
	for ok := s.FirstItem(); ok; ok = s.NextItem() {
		items = append(items, item(s))
	}
	return items
}

func stringItem(s *json.Scanner) string { return s.String() }

// stringMap reads a map of strings, or nil for null.
func stringMap(s *json.Scanner) map[string]string {
	if s.Null() {
		return nil
	}
	m := map[string]string{}
	for key, ok := s.FirstKey(); ok; key, ok = s.NextKey() {
		m[json.Text(key)] = s.String()
	}
	return m
}

// optional reads a value, or nil for null.
func optional[T any](s *json.Scanner, read func(*json.Scanner) T) *T {
	if s.Null() {
		return nil
	}
	v := read(s)
	return &v
}
