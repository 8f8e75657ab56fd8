package view

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/sdk/contract"
)

const (
	// maxAnnotationsBytes is what Kubernetes lets all annotations of an object hold, keys
	// included (apimachinery, api/validation, TotalAnnotationSizeLimitB).
	maxAnnotationsBytes = 256 << 10
	// spareBytes of them are left to those who annotate after us: the seal of a ShadowPod,
	// the provider's own controllers.
	spareBytes = 2 << 10
)

// DecisionsRoom returns how many bytes the decisions annotation may have on an object that
// has these annotations beside: [MaxDecisionsBytes], unless they fill the object.
func DecisionsRoom(annotations map[string]string) int {
	room := maxAnnotationsBytes - spareBytes - len(policyv1alpha1.DecisionsAnnotation)
	for key, value := range annotations {
		if key != policyv1alpha1.DecisionsAnnotation {
			room -= len(key) + len(value)
		}
	}
	return max(0, min(room, MaxDecisionsBytes))
}

// DecisionsRoom is the function of that name for the admitted pod.
func (r *AdmissionResult) DecisionsRoom() (int, error) {
	metadata, err := member(r.after, fieldMetadata)
	if err != nil {
		return 0, err
	}
	// As the API server sent it, annotations are mostly far too short to matter.
	if raw, ok := metadata[fieldAnnotations].(json.RawMessage); ok && len(raw) < maxAnnotationsBytes/2 {
		return MaxDecisionsBytes, nil
	}
	annotations, err := stringMap(metadata, fieldAnnotations)
	return DecisionsRoom(annotations), err
}

// EncodeOffload encodes the decisions about a new ShadowPod. It is [EncodeDecisions], but
// for a list that is too long for the limit: of that spec and metadata are shortened
// apart, so that [EncodeMetadata] can tell later whether the metadata's have changed.
func EncodeOffload(decisions []chain.Decision, limit int) string {
	entries := entriesOf(decisions)
	if len(encode(entries)) <= min(limit, MaxDecisionsBytes) {
		return encode(entries)
	}
	return encode(join(ofSpec(entries), ofMetadata(entries), limit))
}

// EncodeMetadata encodes the decisions about a ShadowPod whose labels and annotations were
// decided anew. have is its annotation: what that tells of the spec stays, since the spec
// does. It returns have when the same policies do the same to labels and annotations as
// those that have tells of, be it by another version.
func EncodeMetadata(have string, decisions []chain.Decision, limit int) string {
	entries, err := DecodeDecisions(have)
	if err != nil {
		entries = nil // somebody in the provider wrote it: nothing is known of the spec
	}
	now := ofMetadata(entriesOf(decisions))
	limit = min(limit, MaxDecisionsBytes)
	compared := now
	if apart(entries) {
		compared = shorten(now, limit/2)
	}
	if err == nil && len(have) <= limit && alike(ofMetadata(entries), compared) {
		return have
	}
	return encode(join(ofSpec(entries), now, limit))
}

// encodeFilter encodes the decisions about labels and annotations of an object that is
// reflected; none when no policy had a part in them. It returns have, the annotation of
// the remote object, when that tells the same.
func encodeFilter(have string, decisions []chain.Decision, limit int) string {
	entries := slices.DeleteFunc(entriesOf(decisions), func(e Entry) bool { return !e.telling() })
	entries = shorten(entries, limit)
	had, err := DecodeDecisions(have)
	if filtered := ofFilter(had); err == nil && len(have) <= limit && len(entries) > 0 && alike(filtered, entries) {
		if len(filtered) < len(had) {
			return encode(filtered) // the others are told of when they have been asked
		}
		return have
	}
	return encode(entries)
}

// annotated returns the annotations with that of the decisions, or without when the text
// is empty. The argument is not altered.
func annotated(annotations map[string]string, text string) map[string]string {
	if _, has := annotations[policyv1alpha1.DecisionsAnnotation]; !has && text == "" {
		return annotations
	}
	next := make(map[string]string, len(annotations)+1)
	maps.Copy(next, annotations)
	delete(next, policyv1alpha1.DecisionsAnnotation)
	if text != "" {
		next[policyv1alpha1.DecisionsAnnotation] = text
	}
	return next
}

// join shortens the two parts apart: what one of them says does not depend on the other.
func join(spec, metadata []Entry, limit int) []Entry {
	half := min(limit, MaxDecisionsBytes) / 2
	return slices.Concat(shorten(spec, half), shorten(metadata, half))
}

// apart reports whether spec and metadata are told of apart.
func apart(entries []Entry) bool {
	return slices.ContainsFunc(entries, func(e Entry) bool { return e.Part != "" })
}

// ofSpec returns what the entries tell of the spec: all of a policy that was asked about
// it but what it did to the metadata.
func ofSpec(entries []Entry) []Entry {
	var spec []Entry
	for _, e := range entries {
		if e.Part == PartMetadata || e.Part == "" && e.Point == string(contract.MetadataFilter) {
			continue
		}
		if e.Part == "" {
			e.Operations = slices.DeleteFunc(slices.Clone(e.Operations), concernsMetadata)
			e.Part, e.Kept = PartSpec, nil // reserved keys are labels and annotations
		}
		spec = append(spec, e)
	}
	return spec
}

// ofMetadata returns what the entries tell of labels and annotations.
func ofMetadata(entries []Entry) []Entry {
	var metadata []Entry
	for _, e := range entries {
		switch e.Part {
		case PartSpec:
			continue
		case "":
			e.Operations = slices.DeleteFunc(slices.Clone(e.Operations), func(op string) bool { return !concernsMetadata(op) })
			if e.Omitted > 0 || e.Point != string(contract.MetadataFilter) && !e.telling() {
				continue
			}
			e.Part = PartMetadata
		case PartMetadata:
		}
		metadata = append(metadata, e)
	}
	return metadata
}

// concernsMetadata reports whether an operation, as [EffectText] writes it, is one on
// labels or annotations.
func concernsMetadata(operation string) bool {
	_, path, _ := strings.Cut(operation, " ")
	return strings.HasPrefix(path, "/"+fieldMetadata)
}

// telling reports whether an entry says more than that a policy was asked.
func (e *Entry) telling() bool {
	return len(e.Operations)+len(e.Kept)+e.Omitted > 0 || e.Ignored
}

// alike reports whether both tell the same, whatever version of the policies did it.
func alike(a, b []Entry) bool {
	telling := func(entries []Entry) []Entry {
		var out []Entry
		for _, e := range entries {
			if e.telling() {
				out = append(out, e)
			}
		}
		return out
	}
	return slices.EqualFunc(telling(a), telling(b), func(x, y Entry) bool {
		return x.Part == y.Part && x.Point == y.Point && x.Policy == y.Policy && x.Ignored == y.Ignored && x.Omitted == y.Omitted &&
			slices.Equal(x.Operations, y.Operations) && slices.Equal(x.Kept, y.Kept)
	})
}
