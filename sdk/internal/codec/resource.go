package codec

import (
	"github.com/longshore-dev/longshore/sdk/contract"
	"github.com/longshore-dev/longshore/sdk/internal/json"
)

// ResourceMutationFacts reads the facts of ResourceMutation.
func ResourceMutationFacts(s *json.Scanner, f *contract.ResourceMutationFacts) {
	for key, ok := s.FirstKey(); ok; key, ok = s.NextKey() {
		switch string(key) {
		case "object":
			resource(s, &f.Object)
		case "local":
			objectMetadata(s, &f.Local)
		case "virtualNode":
			virtualNode(s, &f.VirtualNode)
		default:
			s.Skip()
		}
	}
}

func resource(s *json.Scanner, r *contract.Resource) {
	for key, ok := s.FirstKey(); ok; key, ok = s.NextKey() {
		switch string(key) {
		case "apiVersion":
			r.APIVersion = s.String()
		case "kind":
			r.Kind = s.String()
		case "metadata":
			metadata(s, &r.Metadata)
		case "type":
			r.Type = s.String()
		case "immutable":
			r.Immutable = s.Bool()
		case "data":
			r.Data = textMap(s)
		case "binaryData":
			r.BinaryData = textMap(s)
		case "spec":
			r.Spec = s.Raw()
		default:
			s.Skip()
		}
	}
}

// skipBytes is about the size of a skip, and rather too much than too little.
func skipBytes(skip *contract.Skip) int {
	if skip == nil {
		return 0
	}
	return len(`,"skip":{"reason":"","message":""}`) + len(skip.Reason) + len(skip.Message)
}

func appendSkip(b []byte, skip *contract.Skip) []byte {
	if skip == nil {
		return b
	}
	b = json.AppendString(append(b, `,"skip":{"reason":`...), skip.Reason)
	b = json.AppendString(append(b, `,"message":`...), skip.Message)
	return append(b, '}')
}
