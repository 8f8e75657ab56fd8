package operation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/longshore-dev/longshore/sdk/contract"
)

// DecodeResponse reads a policy's answer strictly: what we do not understand is an error,
// never nothing. The response shares memory with the data. Errors are the policy author's
// to fix.
func DecodeResponse(data []byte) (*contract.Response, error) {
	response := &contract.Response{}
	if p := (parser{text: data}); p.response(response) && p.end() {
		return response, nil
	}
	return decodeResponse(data)
}

// decodeResponse reads what is unusual, which mostly is wrong, and says what is wrong.
func decodeResponse(data []byte) (*contract.Response, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	response := &contract.Response{}
	if err := decoder.Decode(response); err != nil {
		return nil, fmt.Errorf("decoding it: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more than one JSON value")
	}
	return response, nil
}

// once reports whether a member was not seen before; of two with one name encoding/json
// makes one, in its own way.
func once(seen *uint, member uint) bool {
	first := *seen&member == 0
	*seen |= member
	return first
}

func (p *parser) response(r *contract.Response) bool {
	const version, operations, deny, warnings, skip = 1, 2, 4, 8, 16
	seen := uint(0)
	return p.object(func(key []byte) bool {
		switch string(key) {
		case "version":
			return once(&seen, version) && p.textTo(&r.Version)
		case "operations":
			return once(&seen, operations) && p.operations(&r.Operations)
		case "deny":
			r.Deny = &contract.Denial{}
			return once(&seen, deny) && p.denial(&r.Deny.Reason, &r.Deny.Message)
		case "skip":
			r.Skip = &contract.Skip{}
			return once(&seen, skip) && p.denial(&r.Skip.Reason, &r.Skip.Message)
		case "warnings":
			return once(&seen, warnings) && p.texts(&r.Warnings)
		default:
			return false
		}
	})
}

func (p *parser) operations(list *[]contract.Operation) bool {
	*list = make([]contract.Operation, 0, 4)
	return p.array(func() bool {
		*list = append(*list, contract.Operation{})
		return p.operation(&(*list)[len(*list)-1])
	})
}

func (p *parser) operation(o *contract.Operation) bool {
	const op, path, keys, value = 1, 2, 4, 8
	seen := uint(0)
	return p.object(func(key []byte) bool {
		switch string(key) {
		case "op":
			var verb string
			ok := once(&seen, op) && p.textTo(&verb)
			o.Op = contract.Verb(verb)
			return ok
		case "path":
			return once(&seen, path) && p.textTo(&o.Path)
		case "keys":
			return once(&seen, keys) && p.texts(&o.Keys)
		case "value":
			raw, ok := p.raw()
			o.Value = raw
			return once(&seen, value) && ok
		default:
			return false
		}
	})
}

// denial reads the reason and the message of a denial or of a skip.
func (p *parser) denial(why, text *string) bool {
	const reason, message = 1, 2
	seen := uint(0)
	return p.object(func(key []byte) bool {
		switch string(key) {
		case "reason":
			return once(&seen, reason) && p.textTo(why)
		case "message":
			return once(&seen, message) && p.textTo(text)
		default:
			return false
		}
	})
}

func (p *parser) object(read func(key []byte) bool) bool { return p.next() == '{' && p.members(read) }

func (p *parser) array(read func() bool) bool { return p.next() == '[' && p.items(read) }

func (p *parser) texts(list *[]string) bool {
	*list = []string{}
	return p.array(func() bool {
		var text string
		ok := p.textTo(&text)
		*list = append(*list, text)
		return ok
	})
}

func (p *parser) textTo(target *string) bool {
	if p.next() != '"' {
		return false
	}
	var ok bool
	*target, ok = p.string()
	return ok
}
