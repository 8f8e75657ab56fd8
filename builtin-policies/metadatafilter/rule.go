package metadatafilter

import (
	"slices"
	"strings"

	"github.com/longshore-dev/longshore/sdk/guest/strictjson"
)

// Rule of the settings. Exactly one of Drop, Keep and Rename must be set.
//
// Keys are named by patterns of three forms: a key ("example.com/team"); a domain with
// its slash, for all keys of the domain ("example.com/"); and a glob, in which "*"
// stands for any run of characters, slashes included, and "?" for one ("*-checksum").
// Keys that are reflection's own are never touched. The rules are applied in order
// to the local object, never to what they made of it before.
//
//	settings:
//	  rules:
//	    - name: build details
//	      in: [annotations]
//	      drop: ["ci.example.com/", "*-checksum"]
//	    - name: only public labels of Services
//	      kinds: [Service]
//	      in: [labels]
//	      keep: [app, "app.kubernetes.io/"]
//	    - name: our team is a tenant over there
//	      rename: {"example.com/team": "provider.example/tenant"}
type Rule struct {
	// Name for messages; optional.
	Name string
	// Kinds of objects that the rule is for, by kind ("ConfigMap") or by API version and
	// kind ("v1/ConfigMap", "apps/v1/*"), globs allowed; none means all.
	Kinds []string
	// In is the list of maps: labels, annotations; empty means both.
	In []string
	// Drop lists patterns of keys that are not reflected.
	Drop []string
	// Keep lists patterns of keys that are reflected; all others are not.
	Keep []string
	// Rename holds keys and their new keys, or a domain with its slash to another one. A key
	// whose new name the object already has is dropped: what is there stays.
	Rename []strictjson.Pair

	keeps bool
}

// The places of [Rule.In].
const (
	inLabels      = "labels"
	inAnnotations = "annotations"
)

// matching returns the rules for a kind of object and a place.
func matching(rules []Rule, kind, in string) []*Rule {
	var found []*Rule
	for i := range rules {
		if rules[i].concerns(kind, in) {
			found = append(found, &rules[i])
		}
	}
	return found
}

// concerns takes a kind as "v1/ConfigMap".
func (r *Rule) concerns(kind, in string) bool {
	if len(r.In) > 0 && !slices.Contains(r.In, in) {
		return false
	}
	return len(r.Kinds) == 0 || slices.ContainsFunc(r.Kinds, func(pattern string) bool {
		if !strings.Contains(pattern, "/") {
			return glob(pattern, kind[strings.LastIndexByte(kind, '/')+1:])
		}
		return glob(pattern, kind)
	})
}

// apply changes the entries in place.
func (r *Rule) apply(all entries) {
	if r.Rename != nil {
		for i := range all {
			if e := &all[i]; !e.gone && !Reserved(e.key) {
				e.next = r.target(e.key)
			}
		}
		all.move()
		return
	}
	patterns := r.Drop
	if r.keeps {
		patterns = r.Keep
	}
	for i := range all {
		e := &all[i]
		if !e.gone && !Reserved(e.key) {
			e.gone = coveredBy(patterns, e.key) != r.keeps
		}
	}
}

// target returns the new name of a key, empty for none: that of the key itself before
// that of its domain.
func (r *Rule) target(key string) string {
	slash := strings.IndexByte(key, '/') + 1
	to := ""
	for i := range r.Rename {
		switch from := r.Rename[i].Key; {
		case from == key:
			to = r.Rename[i].Value
		case to == "" && slash > 0 && from == key[:slash]:
			to = r.Rename[i].Value + key[slash:]
			continue
		default:
			continue
		}
		break
	}
	if Reserved(to) {
		return ""
	}
	return to
}

// coveredBy reports whether one of the patterns names a key.
func coveredBy(patterns []string, key string) bool {
	for _, pattern := range patterns {
		if covers(pattern, key) {
			return true
		}
	}
	return false
}

// covers reports whether a pattern names a key.
func covers(pattern, key string) bool {
	if strings.HasSuffix(pattern, "/") {
		return strings.HasPrefix(key, pattern)
	}
	return glob(pattern, key)
}

// glob matches in one pass: after a failure it goes back to the last star only, which
// takes one more character, so no pattern makes it slow.
func glob(pattern, text string) bool {
	p, star, mark := 0, -1, 0
	for t := 0; t < len(text); {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, t
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == text[t]):
			p++
			t++
		case star >= 0:
			mark++
			p, t = star+1, mark
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}
