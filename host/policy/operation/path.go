// Package operation is the algebra of policy answers: it parses the paths that
// operations and manifests name, checks operations against what a policy declared
// to write, and applies the five verbs of the contract to a JSON object.
//
// The package is pure and depends neither on Kubernetes nor on modules. It never alters a
// given document: it copies the path to each change and shares the rest. It does not decide
// which policy may do what; host/policy/chain does.
package operation

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Bounds of a path. No field of a Kubernetes object is deeper.
const (
	// MaxPathBytes bounds the length of a path, in bytes.
	MaxPathBytes = 1024
	// MaxPathSteps bounds the steps of a path, selectors included.
	MaxPathSteps = 32
)

// StepKind is what a [Step] does.
type StepKind uint8

// The kinds of steps.
const (
	// StepKey descends into the member Key of an object.
	StepKey StepKind = iota
	// StepAll selects all items of a list: "[*]".
	StepAll
	// StepMatch selects the items of a list whose member Key is the string Value:
	// "[name=web]".
	StepMatch
)

// Step is one step of a [Path].
type Step struct {
	Kind  StepKind
	Key   string
	Value string
}

// Path is a parsed path: a JSON pointer without indices in which a token may end
// with a selector, "[name=web]" or "[*]". The zero Path is invalid. Paths are
// immutable and safe for concurrent use.
type Path struct {
	text  string
	steps []Step
}

// ParsePath parses a path. It rejects the empty path (no operation changes a whole
// document), list indices, and escapes other than "~0" for "~" and "~1" for "/".
func ParsePath(text string) (Path, error) {
	if len(text) > MaxPathBytes {
		return Path{}, fmt.Errorf("path of %d bytes is longer than %d", len(text), MaxPathBytes)
	}
	if !strings.HasPrefix(text, "/") {
		return Path{}, fmt.Errorf("path %q must begin with a slash", text)
	}
	path := Path{text: text}
	for token := range strings.SplitSeq(text[1:], "/") {
		steps, err := parseToken(token)
		if err != nil {
			return Path{}, fmt.Errorf("path %q: %w", text, err)
		}
		path.steps = append(path.steps, steps...)
	}
	if len(path.steps) > MaxPathSteps {
		return Path{}, fmt.Errorf("path %q has more than %d steps", text, MaxPathSteps)
	}
	return path, nil
}

// String returns the path as it was written.
func (p Path) String() string { return p.text }

// Steps returns the steps. The caller must not alter them.
func (p Path) Steps() []Step { return p.steps }

// Covers reports whether other is p or lies below it: "/spec/containers[*]" covers
// "/spec/containers[name=web]/image", and not the reverse.
func (p Path) Covers(other Path) bool {
	if len(p.steps) > len(other.steps) {
		return false
	}
	for i, step := range p.steps {
		if !step.covers(other.steps[i]) {
			return false
		}
	}
	return true
}

// Overlaps reports whether a field can lie below both paths.
func (p Path) Overlaps(other Path) bool {
	for i := range min(len(p.steps), len(other.steps)) {
		if !p.steps[i].overlaps(other.steps[i]) {
			return false
		}
	}
	return true
}

// interferesWith reports whether a write below p can change the result of a write below
// other although they have no field in common: one path goes through a list where the other
// goes through an object, so only one write can succeed; or one path writes the member by
// which the other selects items.
func (p Path) interferesWith(other Path) bool {
	for i := range min(len(p.steps), len(other.steps)) {
		a, b := p.steps[i], other.steps[i]
		if (a.Kind == StepKey) != (b.Kind == StepKey) {
			return true
		}
		if p.writesSelector(i, b) || other.writesSelector(i, a) {
			return true
		}
		if !a.overlaps(b) {
			return false
		}
	}
	return false
}

// writesSelector reports whether p, whose step i selects items, writes the member by which
// another selector selects them.
func (p Path) writesSelector(i int, selector Step) bool {
	if selector.Kind != StepMatch || i+1 >= len(p.steps) {
		return false
	}
	return p.steps[i+1] == Step{Kind: StepKey, Key: selector.Key}
}

// entersItems reports whether the path goes into list items after its first n steps.
func (p Path) entersItems(n int) bool {
	return slices.ContainsFunc(p.steps[n:], func(s Step) bool { return s.Kind != StepKey })
}

// withAllItems returns the path with "[*]" in place of every selector.
func (p Path) withAllItems() string {
	var out strings.Builder
	for _, step := range p.steps {
		if step.Kind == StepKey {
			out.WriteString("/" + EscapeToken(step.Key))
		} else {
			out.WriteString("[*]")
		}
	}
	return out.String()
}

// member returns the path of a member.
func (p Path) member(key string) Path {
	return Path{text: p.text + "/" + EscapeToken(key), steps: append(slices.Clip(p.steps), Step{Kind: StepKey, Key: key})}
}

func (s Step) covers(other Step) bool {
	return s == other || (s.Kind == StepAll && other.Kind == StepMatch)
}

// overlaps is true for two matches on different members ("[name=a]", "[image=b]"), because
// both may select the same item.
func (s Step) overlaps(other Step) bool {
	if s.Kind == StepKey || other.Kind == StepKey {
		return s == other
	}
	if s.Kind == StepMatch && other.Kind == StepMatch && s.Key == other.Key {
		return s.Value == other.Value
	}
	return true
}

// parseToken parses one token of a path ("containers[name=web]") into one or two steps.
func parseToken(token string) ([]Step, error) {
	name, selector, selects := strings.Cut(token, "[")
	key, err := unescape(name)
	if err != nil {
		return nil, err
	}
	if key == "" {
		return nil, errors.New("a token is empty")
	}
	if key == "-" || strings.Trim(key, "0123456789") == "" {
		return nil, fmt.Errorf("token %q is an index: select list items by [name=x] or [*]", token)
	}
	steps := []Step{{Kind: StepKey, Key: key}}
	if !selects {
		return steps, nil
	}
	selector, closed := strings.CutSuffix(selector, "]")
	if !closed || strings.ContainsAny(selector, "[]") {
		return nil, fmt.Errorf("token %q: a selector is [name=x] or [*], at the end of the token", token)
	}
	if selector == "*" {
		return append(steps, Step{Kind: StepAll}), nil
	}
	field, value, ok := strings.Cut(selector, "=")
	if !ok || field == "" {
		return nil, fmt.Errorf("token %q: a selector is [name=x] or [*]", token)
	}
	match := Step{Kind: StepMatch}
	if match.Key, err = unescape(field); err != nil {
		return nil, err
	}
	if match.Value, err = unescape(value); err != nil {
		return nil, err
	}
	return append(steps, match), nil
}

// unescape resolves the escapes of RFC 6901.
func unescape(token string) (string, error) {
	at := strings.IndexByte(token, '~')
	if at < 0 {
		return token, nil
	}
	var out strings.Builder
	for at >= 0 {
		out.WriteString(token[:at])
		switch {
		case strings.HasPrefix(token[at:], "~0"):
			out.WriteByte('~')
		case strings.HasPrefix(token[at:], "~1"):
			out.WriteByte('/')
		default:
			return "", fmt.Errorf("%q: a tilde must be followed by 0 or 1", token)
		}
		token = token[at+2:]
		at = strings.IndexByte(token, '~')
	}
	out.WriteString(token)
	return out.String(), nil
}

// EscapeToken returns a map key as a token of a JSON pointer (RFC 6901).
func EscapeToken(key string) string {
	return strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}
