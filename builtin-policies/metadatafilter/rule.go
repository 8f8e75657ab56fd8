package metadatafilter

import (
	"slices"
	"strings"
)

// Rule of the settings. Exactly one of Drop, Keep and Rename says what it does.
//
// Keys are named by patterns of three forms: a key ("example.com/team"); a domain with
// its slash, for all keys of the domain ("example.com/"); and a glob, in which "*"
// stands for any run of characters, slashes included, and "?" for one ("*-checksum").
// Keys that are reflection's own are never touched (T40).
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
	// In says where: labels, annotations; none means both.
	In []string
	// Drop lists patterns of keys that are not reflected.
	Drop []string
	// Keep lists patterns of keys that are reflected; all others are not.
	Keep []string
	// Rename maps keys to new keys, or a domain with its slash to another one. A key
	// whose new name the object already has is dropped: what is there stays.
	Rename map[string]string

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

// apply changes the map in place.
func (r *Rule) apply(keys map[string]string) {
	if r.Rename != nil {
		r.rename(keys)
		return
	}
	patterns := r.Drop
	if r.keeps {
		patterns = r.Keep
	}
	for key := range keys {
		if !Reserved(key) && slices.ContainsFunc(patterns, func(p string) bool { return covers(p, key) }) != r.keeps {
			delete(keys, key)
		}
	}
}

// rename moves the keys in order, so that the outcome is the same every time.
func (r *Rule) rename(keys map[string]string) {
	var moved []string
	for key := range keys {
		if _, ok := r.target(key); ok {
			moved = append(moved, key)
		}
	}
	slices.Sort(moved)
	for _, key := range moved {
		to, _ := r.target(key)
		value := keys[key]
		delete(keys, key)
		if _, there := keys[to]; !there {
			keys[to] = value
		}
	}
}

// target returns the new name of a key: that of the key itself before that of its domain.
func (r *Rule) target(key string) (string, bool) {
	if Reserved(key) {
		return "", false
	}
	to, ok := r.Rename[key]
	if slash := strings.IndexByte(key, '/'); !ok && slash >= 0 {
		if domain, moves := r.Rename[key[:slash+1]]; moves {
			to, ok = domain+key[slash+1:], true
		}
	}
	if !ok || Reserved(to) {
		return "", false
	}
	return to, true
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
