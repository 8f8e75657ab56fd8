package view

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/document"
	"github.com/longshore-dev/longshore/sdk/contract"
)

const (
	// maxAnnotationsBytes bounds all annotations of an object, keys included
	// (TotalAnnotationSizeLimitB of apimachinery).
	maxAnnotationsBytes = 256 << 10
	// reservedBytes of them are left for annotations that are added later: by sealing the
	// ShadowPod and by controllers of the provider.
	reservedBytes = 2 << 10
)

// DecisionsRoom returns the size limit, in bytes, of the decisions annotation of an object
// with these annotations: [MaxDecisionsBytes], or less if the annotations fill the object.
func DecisionsRoom(annotations map[string]string) int {
	room := maxAnnotationsBytes - reservedBytes - len(policyv1alpha1.DecisionsAnnotation)
	for key, value := range annotations {
		if key != policyv1alpha1.DecisionsAnnotation {
			room -= len(key) + len(value)
		}
	}
	return max(0, min(room, MaxDecisionsBytes))
}

// DecisionsRoom is the function [DecisionsRoom] for the admitted pod.
func (r *AdmissionResult) DecisionsRoom() (int, error) {
	metadata, err := document.Member(r.after, fieldMetadata)
	if err != nil {
		return 0, err
	}
	// Annotations that policies did not change are rarely long enough to matter.
	if raw, ok := metadata[fieldAnnotations].(json.RawMessage); ok && len(raw) < maxAnnotationsBytes/2 {
		return MaxDecisionsBytes, nil
	}
	annotations, err := stringMap(metadata, fieldAnnotations)
	return DecisionsRoom(annotations), err
}

// EncodeOffload encodes the decisions about a new ShadowPod like [EncodeDecisions]. If the
// list exceeds the limit, the parts for spec and metadata are shortened separately, so that
// [EncodeMetadata] can compare the latter.
func EncodeOffload(decisions []chain.Decision, limit int) string {
	entries := entriesOf(decisions)
	if text := encode(entries); len(text) <= min(limit, MaxDecisionsBytes) {
		return text
	}
	return encode(shortenParts(specEntries(entries), metadataEntries(entries), limit))
}

// EncodeMetadata encodes new decisions about labels and annotations of a ShadowPod. have is
// its annotation; the part about the spec is kept, because the spec does not change. It
// returns have if the same policies, in any version, make the same changes to labels and
// annotations as have records.
func EncodeMetadata(have string, decisions []chain.Decision, limit int) string {
	entries, err := DecodeDecisions(have)
	if err != nil {
		entries = nil // overwritten in the provider: the part about the spec is lost
	}
	metadata := metadataEntries(entriesOf(decisions))
	limit = min(limit, MaxDecisionsBytes)
	shortened := metadata
	if hasParts(entries) {
		shortened = shorten(metadata, limit/2)
	}
	if err == nil && len(have) <= limit && recordSameChanges(metadataEntries(entries), shortened) {
		return have
	}
	return encode(shortenParts(specEntries(entries), metadata, limit))
}

// encodeFilter encodes the decisions of the metadata filter about a reflected object, "" if
// no policy changed anything. It returns have, the annotation of the remote object, if that
// records the same changes.
func encodeFilter(have string, decisions []chain.Decision, limit int) string {
	entries := shorten(withChanges(entriesOf(decisions)), limit)
	remote, err := DecodeDecisions(have)
	if filter := filterEntries(remote); err == nil && len(have) <= limit && len(entries) > 0 && recordSameChanges(filter, entries) {
		if len(filter) < len(remote) {
			return encode(filter) // encodeResource adds the others
		}
		return have
	}
	return encode(entries)
}

// encodeResource appends the decisions of the ResourceMutation policies to those of the
// metadata filter. It returns have, the annotation of the remote object, if that records the
// same changes.
func encodeResource(have, filterDecisions string, decisions []chain.Decision, limit int) string {
	entries, err := DecodeDecisions(filterDecisions)
	if err != nil {
		entries = nil // not written by encodeFilter
	}
	entries = shorten(append(entries, withChanges(entriesOf(decisions))...), limit)
	if remote, err := DecodeDecisions(have); err == nil && len(have) <= limit && len(entries) > 0 && recordSameChanges(remote, entries) {
		return have
	}
	return encode(entries)
}

// withDecisions returns a copy of the annotations with the decisions annotation set, or
// removed if the text is empty.
func withDecisions(annotations map[string]string, text string) map[string]string {
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

// shortenParts shortens each part to half of the limit, so that one does not depend on the
// other.
func shortenParts(spec, metadata []Entry, limit int) []Entry {
	half := min(limit, MaxDecisionsBytes) / 2
	return slices.Concat(shorten(spec, half), shorten(metadata, half))
}

// hasParts reports whether the entries for spec and metadata are separate.
func hasParts(entries []Entry) bool {
	return slices.ContainsFunc(entries, func(e Entry) bool { return e.Part != "" })
}

// specEntries returns the entries about the spec: all policies but those of the metadata
// filter, without changes to the metadata.
func specEntries(entries []Entry) []Entry {
	var spec []Entry
	for _, e := range entries {
		if e.Part == PartMetadata || e.Part == "" && e.Point == string(contract.MetadataFilter) {
			continue
		}
		if e.Part == "" {
			e.Operations = slices.DeleteFunc(slices.Clone(e.Operations), changesMetadata)
			e.Part, e.Kept = PartSpec, nil // reserved keys are labels and annotations
		}
		spec = append(spec, e)
	}
	return spec
}

// metadataEntries returns the entries about labels and annotations.
func metadataEntries(entries []Entry) []Entry {
	var metadata []Entry
	for _, e := range entries {
		switch e.Part {
		case PartSpec:
			continue
		case "":
			e.Operations = slices.DeleteFunc(slices.Clone(e.Operations), func(op string) bool { return !changesMetadata(op) })
			if e.Omitted > 0 || e.Point != string(contract.MetadataFilter) && !e.hasChanges() {
				continue
			}
			e.Part = PartMetadata
		case PartMetadata:
		}
		metadata = append(metadata, e)
	}
	return metadata
}

// filterEntries returns the entries of the metadata filter.
func filterEntries(entries []Entry) []Entry {
	return slices.DeleteFunc(slices.Clone(entries), func(e Entry) bool { return e.Point == string(contract.ResourceMutation) })
}

// changesMetadata reports whether an operation, in the form of [EffectText], changes labels
// or annotations.
func changesMetadata(operation string) bool {
	_, path, _ := strings.Cut(operation, " ")
	return strings.HasPrefix(path, "/"+fieldMetadata)
}

// hasChanges reports whether an entry records more than that a policy was called.
func (e *Entry) hasChanges() bool {
	return len(e.Operations)+len(e.Kept)+e.Omitted > 0 || e.Ignored
}

func withChanges(entries []Entry) []Entry {
	return slices.DeleteFunc(slices.Clone(entries), func(e Entry) bool { return !e.hasChanges() })
}

// recordSameChanges compares entries without the versions of policies.
func recordSameChanges(a, b []Entry) bool {
	return slices.EqualFunc(withChanges(a), withChanges(b), func(x, y Entry) bool {
		return x.Part == y.Part && x.Point == y.Point && x.Policy == y.Policy && x.Ignored == y.Ignored && x.Omitted == y.Omitted &&
			slices.Equal(x.Operations, y.Operations) && slices.Equal(x.Kept, y.Kept)
	})
}
