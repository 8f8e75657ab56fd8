package main

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/longshore-dev/longshore/sdk/contract"
	"github.com/longshore-dev/longshore/sdk/guest"
	"github.com/longshore-dev/longshore/sdk/guest/metadatafilter"
	"github.com/longshore-dev/longshore/sdk/guest/strictjson"
)

const (
	// maxKeys bounds the keys of one remove operation.
	maxKeys = 1024
	// reservedPrefix marks labels with which Longshore finds its objects. No policy can remove
	// them.
	reservedPrefix = "offloading.liqo.io/"
)

// config is the form of spec.settings.
type config struct {
	// Rules all apply; an object may match several.
	Rules []rule
}

// rule removes entries of objects of some kinds.
type rule struct {
	// Kinds of objects: Pod, ConfigMap, Secret, Service …; none means all.
	Kinds []string
	// Labels and Annotations are patterns of keys, in which * stands for any characters.
	Labels, Annotations []string
}

func readConfig(s guest.Settings) (config, error) {
	var c config
	err := strictjson.Decode(s, strictjson.List("rules", &c.Rules, func(r *rule) []strictjson.Field {
		return []strictjson.Field{
			strictjson.Strings("kinds", &r.Kinds), strictjson.Strings("labels", &r.Labels), strictjson.Strings("annotations", &r.Annotations),
		}
	}))
	return c, err
}

// manifest reads keys only when there are settings: without them the policy does nothing, and
// its answers are all equal.
func manifest() contract.Manifest {
	remove := []contract.Verb{contract.VerbRemove}
	return contract.Manifest{
		Name:    "metadata-scrub",
		Version: "1.0.0",
		Points: []contract.PointManifest{{
			Point:         contract.MetadataFilter,
			Reads:         []string{},
			SettingsReads: []string{"/object/kind", "/object/metadata/labels", "/object/metadata/annotations"},
			Writes: []contract.WriteRule{
				{Path: "/metadata/labels", Verbs: remove},
				{Path: "/metadata/annotations", Verbs: remove},
			},
		}},
	}
}

// checkSettings refuses rules that could not do what their author meant.
func checkSettings(s guest.Settings) error {
	c, err := readConfig(s)
	if err != nil {
		return err
	}
	for i, r := range c.Rules {
		place := "spec.settings.rules[" + strconv.Itoa(i) + "]"
		if len(r.Labels)+len(r.Annotations) == 0 {
			return errors.New(place + " has neither labels nor annotations: it would do nothing")
		}
		for _, pattern := range slices.Concat(r.Labels, r.Annotations) {
			if pattern == "" || strings.ContainsAny(pattern, " ,") {
				return errors.New(place + " has the pattern " + strconv.Quote(pattern) + ": want a key such as example.com/team, or a pattern such as *password*")
			}
		}
	}
	return nil
}

// scrub answers the point.
func scrub(r *metadatafilter.EntriesRequest) ([]contract.Operation, error) {
	c, err := readConfig(r.Settings)
	if err != nil {
		return nil, err
	}
	var labels, annotations []string
	for _, one := range c.Rules {
		if len(one.Kinds) == 0 || slices.Contains(one.Kinds, r.Facts.Object.Kind) {
			labels, annotations = append(labels, one.Labels...), append(annotations, one.Annotations...)
		}
	}
	metadata := &r.Facts.Object.Metadata
	return append(removals("/metadata/labels", metadata.Labels, labels), removals("/metadata/annotations", metadata.Annotations, annotations)...), nil
}

// removals removes the entries whose keys match a pattern.
func removals(path string, entries contract.Entries, patterns []string) []contract.Operation {
	if len(patterns) == 0 {
		return nil
	}
	var keys []string
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Key, reservedPrefix) && slices.ContainsFunc(patterns, func(p string) bool { return matches(p, entry.Key) }) {
			keys = append(keys, entry.Key)
		}
	}
	var operations []contract.Operation
	for chunk := range slices.Chunk(keys, maxKeys) {
		operations = append(operations, contract.Remove(path, chunk...))
	}
	return operations
}

// matches reports whether a pattern matches all of a text. Each part between two stars is
// searched from the left, which finds a match if there is one.
func matches(pattern, text string) bool {
	first, rest, hasStar := strings.Cut(pattern, "*")
	if !hasStar {
		return pattern == text
	}
	text, ok := strings.CutPrefix(text, first)
	if !ok {
		return false
	}
	parts := strings.Split(rest, "*")
	last := len(parts) - 1
	for _, part := range parts[:last] {
		_, after, found := strings.Cut(text, part)
		if !found {
			return false
		}
		text = after
	}
	return strings.HasSuffix(text, parts[last])
}
