package codec

import (
	"errors"

	"github.com/longshore-dev/longshore/sdk/contract"
	"github.com/longshore-dev/longshore/sdk/internal/json"
)

// appendList appends a list, items written by the given function.
func appendList[T any](b []byte, items []T, item func([]byte, T) []byte) []byte {
	b = append(b, '[')
	for i, it := range items {
		if i > 0 {
			b = append(b, ',')
		}
		b = item(b, it)
	}
	return append(b, ']')
}

// ResponseBytes estimates the size of a response; the estimate is rarely too small.
func ResponseBytes(r *contract.Response) int {
	const around = 64
	n := around
	for i := range r.Operations {
		o := &r.Operations[i]
		n += around + len(o.Path) + len(o.Value)
		for _, key := range o.Keys {
			n += len(key) + len(`"",`)
		}
	}
	if r.Deny != nil {
		n += around + len(r.Deny.Reason) + len(r.Deny.Message)
	}
	n += skipBytes(r.Skip)
	for _, warning := range r.Warnings {
		n += len(warning) + len(`"",`)
	}
	return n
}

// AppendResponse appends a response.
func AppendResponse(b []byte, r *contract.Response) []byte {
	b = json.AppendString(append(b, `{"version":`...), r.Version)
	if len(r.Operations) > 0 {
		b = append(b, `,"operations":[`...)
		for i := range r.Operations {
			if i > 0 {
				b = append(b, ',')
			}
			b = r.Operations[i].AppendJSON(b)
		}
		b = append(b, ']')
	}
	if r.Deny != nil {
		b = json.AppendString(append(b, `,"deny":{"reason":`...), r.Deny.Reason)
		b = json.AppendString(append(b, `,"message":`...), r.Deny.Message)
		b = append(b, '}')
	}
	b = appendSkip(b, r.Skip)
	if len(r.Warnings) > 0 {
		b = json.AppendStrings(append(b, `,"warnings":`...), r.Warnings)
	}
	return append(b, '}')
}

// AppendManifest appends a manifest.
func AppendManifest(b []byte, m *contract.Manifest) []byte {
	b = append(b, '{')
	b = json.AppendString(json.AppendMember(b, "name"), m.Name)
	b = json.AppendString(json.AppendMember(b, "version"), m.Version)
	b = json.AppendStrings(json.AppendMember(b, "contracts"), m.Contracts)
	b = appendList(json.AppendMember(b, "points"), m.Points, appendPoint)
	return append(b, '}')
}

func appendPoint(b []byte, p contract.PointManifest) []byte {
	b = append(b, '{')
	b = json.AppendString(json.AppendMember(b, "point"), string(p.Point))
	if len(p.Moments) > 0 {
		b = appendList(json.AppendMember(b, "moments"), p.Moments, appendText[contract.Moment])
	}
	b = json.AppendStrings(json.AppendMember(b, "reads"), p.Reads)
	if len(p.SettingsReads) > 0 {
		b = json.AppendStrings(json.AppendMember(b, "settingsReads"), p.SettingsReads)
	}
	if len(p.Writes) > 0 {
		b = appendList(json.AppendMember(b, "writes"), p.Writes, appendRule)
	}
	return append(b, '}')
}

func appendText[T ~string](b []byte, text T) []byte { return json.AppendString(b, string(text)) }

func appendRule(b []byte, r contract.WriteRule) []byte {
	b = append(b, '{')
	b = json.AppendString(json.AppendMember(b, "path"), r.Path)
	b = appendList(json.AppendMember(b, "verbs"), r.Verbs, appendText[contract.Verb])
	if len(r.Keys) > 0 {
		b = json.AppendStrings(json.AppendMember(b, "keys"), r.Keys)
	}
	return append(b, '}')
}

// DecodeSettingsRequest reads the input of validate_settings.
func DecodeSettingsRequest(data []byte) (contract.SettingsRequest, error) {
	var r contract.SettingsRequest
	s := json.NewScanner(data)
	for key, ok := s.FirstKey(); ok; key, ok = s.NextKey() {
		switch string(key) {
		case "version":
			r.Version = s.String()
		case "points":
			for _, point := range texts(s) {
				r.Points = append(r.Points, contract.Point(point))
			}
		case "settings":
			r.Settings = s.Raw()
		default:
			s.Skip()
		}
	}
	if err := s.End(); err != nil {
		return contract.SettingsRequest{}, errors.New("reading the request: " + err.Error())
	}
	return r, nil
}

// AppendSettingsResponse appends the output of validate_settings.
func AppendSettingsResponse(b []byte, r *contract.SettingsResponse) []byte {
	b = append(b, '{')
	b = json.AppendString(json.AppendMember(b, "version"), r.Version)
	b = json.AppendBool(json.AppendMember(b, "valid"), r.Valid)
	b = json.AppendStringMember(b, "message", r.Message)
	return append(b, '}')
}
