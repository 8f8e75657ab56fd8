package suite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/longshore-dev/longshore/host/policy/module"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// unknownSetting is a member that no module knows.
const unknownSetting = "longshore.dev/unknown"

// checkSettings tests validate_settings with settings that are wrong.
func (r *run) checkSettings(ctx context.Context) error {
	for i := range r.manifest.Points {
		point := r.manifest.Points[i].Point
		unknown, other, err := r.wrongSettings(point)
		if err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(unknown)) {
			settings := unknown[name]
			verdict, problem := r.verdict(ctx, point, settings)
			if problem == nil && verdict == nil {
				problem = errors.New("accepted: a misspelled member would be a policy that does something else")
			}
			r.add(ruleSettings, featureSettings, fmt.Sprintf("%s, %s", point, name), problem, settings)
		}
		for _, name := range slices.Sorted(maps.Keys(other)) {
			settings := other[name]
			_, problem := r.verdict(ctx, point, settings)
			r.add(ruleCrash, featureSettings, fmt.Sprintf("%s, %s", point, name), problem, settings)
		}
		if err := r.refusedSettings(ctx, point, unknown); err != nil {
			return err
		}
	}
	return nil
}

// verdict returns the refusal of the module, or a problem if it gave no verdict.
func (r *run) verdict(ctx context.Context, point contract.Point, settings json.RawMessage) (verdict *module.SettingsError, problem error) {
	err := r.hosts.ours.module.ValidateSettings(ctx, settings, point)
	if verdict, ok := errors.AsType[*module.SettingsError](err); ok {
		return verdict, nil
	}
	return nil, err
}

// wrongSettings returns settings with an unknown member, and settings with values of other
// types.
func (r *run) wrongSettings(point contract.Point) (unknown, other map[string]json.RawMessage, err error) {
	deep := strings.Repeat(`{"a":`, contract.MaxValueDepth-2) + "1" + strings.Repeat("}", contract.MaxValueDepth-2)
	unknown = map[string]json.RawMessage{"an unknown member": json.RawMessage(`{"` + unknownSetting + `":true}`)}
	other = map[string]json.RawMessage{"nothing": nil, "an empty object": json.RawMessage("{}"), "deep nesting": json.RawMessage(deep)}
	known := r.settingsOf(point, 0)
	if known == nil {
		return unknown, other, nil
	}
	settings, err := decodeObject(known)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the settings of a vector: %w", err)
	}
	add := func(to map[string]json.RawMessage, name string, value any) {
		var data []byte
		if data, err = json.Marshal(value); err != nil {
			err = fmt.Errorf("encoding settings: %w", err)
			return
		}
		to[name] = data
	}
	add(unknown, "an unknown member beside those of a vector", edited(settings, []any{unknownSetting}, true))
	for _, path := range pathsOf(settings, nil) {
		for _, replacement := range []any{int64(7), []any{"longshore"}, map[string]any{"longshore": true}} {
			add(other, fmt.Sprintf("%v is %T", path, replacement), edited(settings, path, replacement))
		}
	}
	return unknown, other, err
}

// refusedSettings sends requests with settings that the module refuses.
func (r *run) refusedSettings(ctx context.Context, point contract.Point, unknown map[string]json.RawMessage) error {
	for _, name := range slices.Sorted(maps.Keys(unknown)) {
		settings := unknown[name]
		if verdict, _ := r.verdict(ctx, point, settings); verdict == nil {
			continue // that is another finding
		}
		moment := momentsOf(r.manifest.For(point))[0]
		q := &question{point: point, moment: moment, settings: settings, facts: generated(point, moment)[1]}
		input, err := q.request()
		if err != nil {
			return err
		}
		r.add(ruleRequest, featureSettings, fmt.Sprintf("%s, %s", point, name), r.refuses(ctx, point.Export(), input), input)
	}
	return nil
}
