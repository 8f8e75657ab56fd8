package view

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/kit/plaintext"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/operation"
)

// MaxDecisionsBytes bounds the decisions annotation.
const MaxDecisionsBytes = 4 << 10

// Part is the part of an object that an entry describes.
type Part string

const (
	// PartSpec is the spec. Its decisions are made once, when the object is created.
	PartSpec Part = "spec"
	// PartMetadata are labels and annotations whose decisions were made after the object was
	// created.
	PartMetadata Part = "metadata"
)

// Entry is a decision in the annotation policy.longshore.dev/decisions.
type Entry struct {
	// Part is empty if the entry describes the whole object.
	Part Part `json:"part,omitempty"`
	// Point at which the policy was called.
	Point string `json:"point"`
	// Policy is the name of the OffloadingPolicy.
	Policy string `json:"policy"`
	// Module that was called, and the first digits of its digest. They stay those of the
	// first version if a later version makes the same changes.
	Module string `json:"module,omitempty"`
	Digest string `json:"digest,omitempty"`
	// Operations that changed the object, as "verb path" or "verb path[key key]". The last
	// one may be "… and 12 more".
	Operations []string `json:"ops,omitempty"`
	// Kept are reserved keys that the policy tried to change.
	Kept []string `json:"kept,omitempty"`
	// Ignored reports that the policy failed and its failure policy is Ignore.
	Ignored bool `json:"ignored,omitempty"`
	// FellBack reports that the policy failed and its previous version, with Digest, was
	// called (failure policy LastGood).
	FellBack bool `json:"fellBack,omitempty"`
	// Omitted is the number of further decisions, in the last entry of a list that is too
	// long; that entry has no policy.
	Omitted int `json:"omitted,omitempty"`
}

// EncodeDecisions encodes decisions for the annotation: which policy, by name and digest,
// changed which paths, without values. The limit is in bytes, at most [MaxDecisionsBytes].
// If it is exceeded, every policy is named before operations are listed; omitted operations
// are counted ("… and 12 more"), and omitted policies in Omitted. The result is "" without
// decisions, and if the limit is too small for any.
func EncodeDecisions(decisions []chain.Decision, limit int) string {
	return encode(shorten(entriesOf(decisions), limit))
}

func entriesOf(decisions []chain.Decision) []Entry {
	entries := make([]Entry, len(decisions))
	for i := range decisions {
		entries[i] = entry(&decisions[i])
	}
	return entries
}

// encode encodes entries. Their fields always marshal.
func encode(entries []Entry) string {
	if len(entries) == 0 {
		return ""
	}
	data, err := json.Marshal(entries)
	if err != nil {
		return ""
	}
	return string(data)
}

const (
	// omissionBytes is room for the brackets and for an entry with Omitted.
	omissionBytes = 64
	// minBytes is the smallest useful annotation.
	minBytes = 256
)

// shorten shortens entries to a limit in bytes. Each entry gets an equal share of the room
// that the previous ones left. Shortening twice gives the same result.
func shorten(entries []Entry, limit int) []Entry {
	limit = min(limit, MaxDecisionsBytes)
	if limit < minBytes {
		return nil
	}
	if len(encode(entries)) <= limit {
		return entries
	}
	room := limit - omissionBytes
	kept := make([]Entry, 0, len(entries))
	omitted := 0
	for i := range entries {
		bare := entries[i]
		bare.Operations, bare.Kept = firstItems(bare.Operations, 0), firstItems(bare.Kept, 0)
		size := len(encode([]Entry{bare}))
		if bare.Omitted > 0 || size > room {
			for _, left := range entries[i:] {
				omitted += max(left.Omitted, 1)
			}
			break
		}
		room -= size
		kept = append(kept, bare)
	}
	for i := range kept {
		share := room / (len(kept) - i)
		before := len(encode(kept[i : i+1]))
		fillEntry(&kept[i], &entries[i], before+share)
		room -= len(encode(kept[i:i+1])) - before
	}
	if omitted > 0 {
		kept = append(kept, Entry{Part: entries[0].Part, Omitted: omitted})
	}
	return kept
}

// fillEntry lists as many operations and kept keys of the whole entry as the size allows.
func fillEntry(short, whole *Entry, size int) {
	for _, list := range []struct{ short, whole *[]string }{{&short.Operations, &whole.Operations}, {&short.Kept, &whole.Kept}} {
		for n := len(*list.whole); n >= 0; n-- {
			*list.short = firstItems(*list.whole, n)
			if len(encode([]Entry{*short})) <= size {
				break
			}
		}
	}
}

// firstItems returns the first n items of a list and a count of the others. The last item of
// the list may be such a count.
func firstItems(list []string, n int) []string {
	if n >= len(list) {
		return list
	}
	others := len(list) - n
	if counted := parseMore(list[len(list)-1]); counted > 0 {
		others += counted - 1
	}
	return append(slices.Clip(list[:n]), fmt.Sprintf(moreFormat, others))
}

const moreFormat = "… and %d more"

// parseMore parses moreFormat. It returns 0 for any other text.
func parseMore(item string) int {
	var n int
	if _, err := fmt.Sscanf(item, moreFormat, &n); err != nil || n < 1 {
		return 0
	}
	return n
}

// DecodeDecisions is the inverse of [EncodeDecisions].
func DecodeDecisions(text string) ([]Entry, error) {
	if text == "" {
		return nil, nil
	}
	var entries []Entry
	if err := json.Unmarshal([]byte(text), &entries); err != nil {
		return nil, fmt.Errorf("decoding the annotation %s: %w", policyv1alpha1.DecisionsAnnotation, err)
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

// maxEffectKeys bounds the listed keys of one effect.
const maxEffectKeys = 32

// EffectText formats an effect as "verb path" or "verb path[key key]".
func EffectText(effect *operation.Effect) string {
	text := string(effect.Verb) + " " + effect.Path
	if len(effect.Keys) > 0 {
		text += "[" + strings.Join(firstItems(effect.Keys, maxEffectKeys), " ") + "]"
	}
	return plaintext.Line(text)
}
