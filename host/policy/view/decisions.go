package view

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/operation"
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
	// Operations that changed the object, as "verb path" or "verb path[key key]". The last
	// one may be "… and 12 more".
	Operations []string `json:"ops,omitempty"`
	// Kept are reserved keys that the policy tried to change.
	Kept []string `json:"kept,omitempty"`
	// Ignored tells that the policy failed and its failure policy is Ignore.
	Ignored bool `json:"ignored,omitempty"`
	// FellBack tells that the policy failed and its previous version decided, which Digest
	// is that of (failure policy LastGood).
	FellBack bool `json:"fellBack,omitempty"`
	// Omitted is the number of further decisions, in the last entry of a list that was
	// too long; that entry has no policy.
	Omitted int `json:"omitted,omitempty"`
}

// EncodeDecisions encodes decisions for the annotation: which policy, by name and
// digest, changed which paths, and no values. Within [MaxDecisionsBytes] every policy is
// named before any has all its operations listed; what is left out is counted, as "… and
// 12 more" at the end of a list, and as Omitted when there are too many policies even to
// name. No decisions are "".
func EncodeDecisions(decisions []chain.Decision) string {
	if len(decisions) == 0 {
		return ""
	}
	entries := make([]Entry, len(decisions))
	for i := range decisions {
		entries[i] = entry(&decisions[i])
	}
	if text := encode(entries); len(text) <= MaxDecisionsBytes {
		return text
	}
	return encode(shorten(entries))
}

// encode writes entries; their fields always marshal.
func encode(entries []Entry) string {
	data, err := json.Marshal(entries)
	if err != nil {
		return ""
	}
	return string(data)
}

// shorten leaves out what is too much: each entry gets an equal share of the room that
// those before it have left.
func shorten(entries []Entry) []Entry {
	// Room for the brackets, and for the entry that says how many were omitted.
	room := MaxDecisionsBytes - 64
	kept := make([]Entry, 0, len(entries))
	for i := range entries {
		bare := entries[i]
		bare.Operations, bare.Kept = counted(bare.Operations, 0), counted(bare.Kept, 0)
		size := len(encode([]Entry{bare}))
		if size > room {
			return append(kept, Entry{Omitted: len(entries) - i})
		}
		room -= size
		kept = append(kept, bare)
	}
	for i := range kept {
		share := room / (len(kept) - i)
		before := len(encode(kept[i : i+1]))
		fit(&kept[i], &entries[i], before+share)
		room -= len(encode(kept[i:i+1])) - before
	}
	return kept
}

// fit lists as many operations and kept keys of the whole entry as its size allows.
func fit(short, whole *Entry, size int) {
	for _, list := range []struct{ short, whole *[]string }{{&short.Operations, &whole.Operations}, {&short.Kept, &whole.Kept}} {
		for n := len(*list.whole); n >= 0; n-- {
			*list.short = counted(*list.whole, n)
			if len(encode([]Entry{*short})) <= size {
				break
			}
		}
	}
}

// counted returns the first items of a list, and how many there are beside.
func counted(list []string, n int) []string {
	if n >= len(list) {
		return list
	}
	return append(slices.Clip(list[:n]), more(len(list)-n))
}

func more(n int) string { return "… and " + strconv.Itoa(n) + " more" }

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
		Kept: decision.Kept, Ignored: decision.Ignored != "", FellBack: decision.FellBack != "",
	}
	for i := range decision.Effects {
		e.Operations = append(e.Operations, EffectText(&decision.Effects[i]))
	}
	return e
}

// maxEffectKeys is how many keys of one effect are listed.
const maxEffectKeys = 32

// EffectText writes an effect, which has no values, as "verb path" or "verb path[key key]".
func EffectText(effect *operation.Effect) string {
	text := string(effect.Verb) + " " + effect.Path
	if len(effect.Keys) == 0 {
		return text
	}
	return text + "[" + strings.Join(counted(effect.Keys, maxEffectKeys), " ") + "]"
}
