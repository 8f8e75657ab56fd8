package view

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/longshore-dev/longshore/host/policy/chain"
)

// MaxDecisionsBytes bounds the decisions annotation.
const MaxDecisionsBytes = 4 << 10

// Entry is a decision as the annotation policy.longshore.dev/decisions tells it.
type Entry struct {
	// Point at which the policy was asked.
	Point string `json:"point"`
	// Policy is the name of the OffloadingPolicy.
	Policy string `json:"policy"`
	// Module that answered, and the first digits of its digest.
	Module string `json:"module,omitempty"`
	Digest string `json:"digest,omitempty"`
	// Operations that changed the object, as "verb path" or "verb path[key key]".
	Operations []string `json:"ops,omitempty"`
	// Kept are reserved keys that the policy tried to change.
	Kept []string `json:"kept,omitempty"`
	// Ignored tells that the policy failed and its failure policy is Ignore.
	Ignored bool `json:"ignored,omitempty"`
	// Omitted is the number of further decisions, in the last entry of a list that was
	// too long.
	Omitted int `json:"omitted,omitempty"`
}

// EncodeDecisions encodes decisions for the annotation: which policy, by name and
// digest, changed which paths, and no values. What exceeds [MaxDecisionsBytes] is
// left out, and its number said. No decisions are "".
func EncodeDecisions(decisions []chain.Decision) string {
	if len(decisions) == 0 {
		return ""
	}
	// room for the entry that says how many were omitted
	const reserve = 64
	var out strings.Builder
	out.WriteByte('[')
	for i := range decisions {
		// The fields of an entry always marshal.
		data, err := json.Marshal(entry(&decisions[i]))
		if err != nil || out.Len()+len(data) > MaxDecisionsBytes-reserve {
			data = fmt.Appendf(nil, `{"point":"","policy":"","omitted":%d}`, len(decisions)-i)
			decisions = decisions[:i]
		}
		if out.Len() > 1 {
			out.WriteByte(',')
		}
		out.Write(data)
		if i >= len(decisions) {
			break
		}
	}
	out.WriteByte(']')
	return out.String()
}

// DecodeDecisions reads what [EncodeDecisions] wrote.
func DecodeDecisions(text string) ([]Entry, error) {
	if text == "" {
		return nil, nil
	}
	var entries []Entry
	if err := json.Unmarshal([]byte(text), &entries); err != nil {
		return nil, fmt.Errorf("decoding decisions: %w", err)
	}
	return entries, nil
}

func entry(decision *chain.Decision) Entry {
	e := Entry{
		Point: string(decision.Point), Policy: decision.Binding,
		Module: decision.Module, Digest: chain.ShortDigest(decision.Digest),
		Kept: decision.Kept, Ignored: decision.Ignored != "",
	}
	for _, effect := range decision.Effects {
		text := string(effect.Verb) + " " + effect.Path
		if len(effect.Keys) > 0 {
			text += "[" + strings.Join(effect.Keys, " ") + "]"
		}
		e.Operations = append(e.Operations, text)
	}
	return e
}
