package view

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/operation"
)

// MaxDecisionsBytes bounds the decisions annotation.
const MaxDecisionsBytes = 4 << 10

// Part is what of an object an entry tells about.
type Part string

const (
	// PartSpec are decisions about the spec, which were taken when the object was created
	// and hold for as long as it lives (T8).
	PartSpec Part = "spec"
	// PartMetadata are the decisions about labels and annotations that are in force; they
	// were taken after the object was created.
	PartMetadata Part = "metadata"
)

// Entry is a decision as the annotation policy.longshore.dev/decisions tells it.
type Entry struct {
	// Part is empty while the same decisions made spec and metadata, which is the rule.
	Part Part `json:"part,omitempty"`
	// Point at which the policy was asked.
	Point string `json:"point"`
	// Policy is the name of the OffloadingPolicy.
	Policy string `json:"policy"`
	// Module that answered, and the first digits of its digest. A later version that
	// decides the same is not written down: it changed nothing.
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
// digest, changed which paths, and no values. Within the limit in bytes, at most
// [MaxDecisionsBytes], every policy is named before any has all its operations listed;
// what is left out is counted, as "… and 12 more" at the end of a list, and as Omitted
// when there are too many policies even to name. No decisions are "", and so are those
// for which the limit leaves no room at all.
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

// encode writes entries; their fields always marshal.
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
	// omissionBytes is room for the brackets, and for the entry that says how many were
	// omitted.
	omissionBytes = 64
	// leastBytes is below what an annotation would say nothing.
	leastBytes = 256
)

// shorten leaves out what is too much for the limit in bytes: each entry gets an equal
// share of the room that those before it have left. What it returns it leaves alone when
// given again.
func shorten(entries []Entry, limit int) []Entry {
	limit = min(limit, MaxDecisionsBytes)
	if limit < leastBytes {
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
		bare.Operations, bare.Kept = counted(bare.Operations, 0), counted(bare.Kept, 0)
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
		fit(&kept[i], &entries[i], before+share)
		room -= len(encode(kept[i:i+1])) - before
	}
	if omitted > 0 {
		kept = append(kept, Entry{Part: entries[0].Part, Omitted: omitted})
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

// counted returns the first items of a list, and how many there are beside; the last item
// may be such a count itself.
func counted(list []string, n int) []string {
	if n >= len(list) {
		return list
	}
	left := len(list) - n
	if beside := uncounted(list[len(list)-1]); beside > 0 {
		left += beside - 1
	}
	return append(slices.Clip(list[:n]), more(left))
}

const moreFormat = "… and %d more"

func more(n int) string { return fmt.Sprintf(moreFormat, n) }

// uncounted reads what [more] wrote; 0 for anything else.
func uncounted(item string) int {
	var n int
	if _, err := fmt.Sscanf(item, moreFormat, &n); err != nil || n < 1 {
		return 0
	}
	return n
}

// DecodeDecisions reads what [EncodeDecisions] wrote.
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

// maxEffectKeys is how many keys of one effect are listed.
const maxEffectKeys = 32

// EffectText writes an effect, which has no values, as "verb path" or "verb path[key key]".
func EffectText(effect *operation.Effect) string {
	text := string(effect.Verb) + " " + effect.Path
	if len(effect.Keys) > 0 {
		text += "[" + strings.Join(counted(effect.Keys, maxEffectKeys), " ") + "]"
	}
	return chain.PlainText(text)
}
