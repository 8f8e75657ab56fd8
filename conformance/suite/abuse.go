package suite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// abuse sends what no request should be.
func (r *run) abuse(ctx context.Context, declared *contract.PointManifest, all []*asked) error {
	point := declared.Point
	broken, misshapen := garbage(point)
	for _, name := range slices.Sorted(maps.Keys(broken)) {
		r.add(ruleBroken, string(point), name, r.refuses(ctx, point.Export(), broken[name]), broken[name])
	}
	for _, name := range slices.Sorted(maps.Keys(misshapen)) {
		r.add(ruleShape, string(point), name, r.refuses(ctx, point.Export(), misshapen[name]), misshapen[name])
	}
	r.wrongTypes(ctx, string(point), all)
	return r.large(ctx, declared)
}

// refuses wants an error that the module reports.
func (r *run) refuses(ctx context.Context, export string, input []byte) error {
	output, err := r.hosts.ours.Call(ctx, export, input)
	switch {
	case err == nil:
		return fmt.Errorf("%s answered %s: it must refuse what it does not understand", export, output)
	case !errors.Is(err, engine.Guest):
		return fmt.Errorf("it must report an error: %w", err)
	default:
		return nil
	}
}

// garbage is what is no JSON object, and JSON of another shape than the contract's.
func garbage(point contract.Point) (broken, misshapen map[string][]byte) {
	head := `{"version":"` + contract.Version + `","point":"` + string(point) + `","facts":`
	broken = map[string][]byte{
		"nothing":              nil,
		"text":                 []byte("hello"),
		"a question cut short": []byte(head + `{"object":{"meta`),
		"a question and more":  []byte(head + `{}}{}`),
		"nesting without end":  []byte(head + strings.Repeat(`{"object":`, 50_000)),
	}
	misshapen = map[string][]byte{
		"null":                         []byte("null"),
		"a list":                       []byte("[]"),
		"a contract of the future":     []byte(strings.Replace(head, contract.Version, "v99", 1) + `{}}`),
		"no version":                   []byte(`{"point":"` + string(point) + `","facts":{}}`),
		"facts that are not an object": []byte(head + `[1,2]}`),
		"an object that is a number":   []byte(head + `{"object":7}}`),
		"bytes that are not text":      []byte(head + "{\"object\":{\"kind\":\"\xff\xfe\"}}}"),
	}
	return broken, misshapen
}

// wrongTypesAtMost bounds the values that are replaced.
const wrongTypesAtMost = 60

// wrongTypes replaces the values of a request, one at a time. The question is the one with the
// most operations, which is likely to have the facts that the module uses.
func (r *run) wrongTypes(ctx context.Context, feature string, all []*asked) {
	if r.failed(ruleCompletes, feature) {
		return // that is the finding
	}
	var best *asked
	for _, a := range all {
		if a.answered && (best == nil || len(a.call.Answer) > len(best.call.Answer)) {
			best = a
		}
	}
	if best == nil {
		return
	}
	request, err := decodeObject(best.call.Request)
	if err != nil {
		return // the host encoded it
	}
	facts, _ := request["facts"].(map[string]any)
	paths := pathsOf(facts, []any{"facts"})
	for i, path := range paths {
		if i == wrongTypesAtMost {
			break
		}
		for _, replacement := range []any{int64(7), []any{"longshore"}} {
			input, err := json.Marshal(edited(request, path, replacement))
			if err != nil {
				continue // it was decoded from JSON
			}
			_, err = r.hosts.ours.Call(ctx, best.point.Export(), input)
			if errors.Is(err, engine.Guest) {
				err = nil
			}
			r.add(ruleTypes, feature, fmt.Sprintf("%v is %T", path, replacement), err, input)
		}
	}
}

// large asks about objects that are larger than any that a person writes.
func (r *run) large(ctx context.Context, declared *contract.PointManifest) error {
	for _, moment := range momentsOf(declared) {
		for _, name := range slices.Sorted(maps.Keys(largeObjects)) {
			g := &generator{full: true}
			q := &question{name: name, point: declared.Point, moment: moment, settings: r.settingsOf(declared.Point, 0), facts: largeFacts(g, declared.Point, moment, name)}
			t, err := r.trial(q)
			if err != nil {
				return err
			}
			ask := q.ask()
			ask.SkipChecks = true // of what is not valid itself
			answer, err := t.Ask(ctx, ask)
			rule, err := faultOf(err, q, answer.Call.Answer)
			if err != nil && rule == "" {
				return err
			}
			if rule == refused || r.failed(rule, string(declared.Point)) {
				err = nil // that is not a finding, or one already
			}
			r.add(ruleLarge, string(declared.Point), label(moment)+name, err, nil)
		}
	}
	return nil
}

// failed reports whether a rule has a finding at a feature.
func (r *run) failed(rule, feature string) bool {
	return slices.ContainsFunc(r.report.Findings, func(f Finding) bool { return f.Rule == rule && f.Feature == feature })
}

// largeObjects change an object into a large one.
var largeObjects = map[string]func(object map[string]any){
	"5 MB": func(object map[string]any) {
		object["data"] = map[string]any{"large": strings.Repeat("x", 5<<20)}
		if spec, ok := object["spec"].(map[string]any); ok {
			spec["containers"] = []any{map[string]any{"name": "web", "image": "web:1", "env": []any{map[string]any{"name": "A", "value": strings.Repeat("x", 5<<20)}}}}
		}
	},
	"1,000 containers": func(object map[string]any) {
		containers := make([]any, 1000)
		for i := range containers {
			containers[i] = map[string]any{"name": "c" + strconv.Itoa(i), "image": "docker.io/team/web:" + strconv.Itoa(i), "resources": map[string]any{"limits": map[string]any{"nvidia.com/gpu": "1"}}}
		}
		if spec, ok := object["spec"].(map[string]any); ok {
			spec["containers"] = containers
		}
	},
	"10,000 labels": func(object map[string]any) {
		labels := make(map[string]any, 10_000)
		for i := range 10_000 {
			labels["example.com/l"+strconv.Itoa(i)] = "v"
		}
		if metadata, ok := object["metadata"].(map[string]any); ok {
			metadata["labels"] = labels
		}
	},
	"deep nesting": func(object map[string]any) {
		var deep any = "end"
		for range 5_000 {
			deep = map[string]any{"d": deep}
		}
		for _, name := range []string{"metadata", "spec"} {
			if structure, ok := object[name].(map[string]any); ok {
				structure["deep"], structure["nodeSelector"], structure["tolerations"] = deep, deep, []any{deep}
			}
		}
	},
}

// largeFacts are facts with a large object, local or not.
func largeFacts(g *generator, point contract.Point, moment contract.Moment, name string) map[string]any {
	g.Rand = newRandom(1)
	facts := g.facts(point, moment)
	for _, member := range []string{memberObject, "local"} {
		if object, ok := facts[member].(map[string]any); ok {
			largeObjects[name](object)
		}
	}
	return facts
}
