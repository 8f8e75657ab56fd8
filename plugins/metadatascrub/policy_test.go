package main

import (
	"os"
	"strings"
	"testing"

	"github.com/longshore-dev/longshore/sdk/contract"
	"github.com/longshore-dev/longshore/sdk/guesttest"
)

func TestMatches(t *testing.T) {
	for _, tc := range []struct {
		pattern, text string
		want          bool
	}{
		{"example.com/team", "example.com/team", true},
		{"example.com/team", "example.com/teams", false},
		{"example.com/*", "example.com/team", true},
		{"example.com/*", "sub.example.com/team", false},
		{"*.example.com/*", "sub.example.com/team", true},
		{"*password*", "db-password-hash", true},
		{"*password*", "password", true},
		{"*password", "password-hash", false},
		{"a*a", "a", false},
		{"a*b*c", "abbc", true},
		{"a*b*c", "acb", false},
		{"*aab", "aaab", true},
		{"*", "", true},
		{"**", "anything", true},
	} {
		if got := matches(tc.pattern, tc.text); got != tc.want {
			t.Errorf("matches(%q, %q) = %v", tc.pattern, tc.text, got)
		}
	}
}

// All labels of a large object go, in operations that the host takes.
func TestManyKeysAreSeveralOperations(t *testing.T) {
	labels := map[string]string{}
	for i := range 3 * maxKeys {
		labels["l"+strings.Repeat("x", i%50)+string(rune('a'+i%26))+string(rune('a'+i/26%26))+string(rune('a'+i/676))] = "v"
	}
	response := guesttest.Ask(t, contract.MetadataFilter, guesttest.Question{
		Facts:    contract.MetadataFilterFacts{Object: contract.ObjectMetadata{Kind: "Pod", Metadata: contract.Metadata{Labels: labels}}},
		Settings: map[string]any{"rules": []any{map[string]any{"labels": []string{"*"}}}},
	})
	removed := 0
	for _, operation := range response.Operations {
		if len(operation.Keys) > maxKeys {
			t.Fatalf("an operation has %d keys", len(operation.Keys))
		}
		removed += len(operation.Keys)
	}
	if removed != len(labels) {
		t.Fatalf("removed %d of %d labels", removed, len(labels))
	}
}

func TestVectors(t *testing.T) { guesttest.Vectors(t, os.DirFS("vectors")) }

func TestSettings(t *testing.T) {
	rules := func(r map[string]any) any { return map[string]any{"rules": []any{r}} }
	for name, tc := range map[string]struct {
		settings any
		want     string
	}{
		"none":                {nil, ""},
		"patterns":            {rules(map[string]any{"kinds": []string{"Secret"}, "annotations": []string{"*password*"}}), ""},
		"nothing to remove":   {rules(map[string]any{"kinds": []string{"Secret"}}), "rules[0] has neither labels nor annotations"},
		"a list in one text":  {rules(map[string]any{"labels": []string{"a, b"}}), `the pattern "a, b"`},
		"an empty pattern":    {rules(map[string]any{"labels": []string{""}}), `the pattern ""`},
		"a misspelled member": {rules(map[string]any{"label": []string{"a"}}), "spec.settings.rules[0].label: unknown field"},
	} {
		t.Run(name, func(t *testing.T) {
			response := guesttest.ValidateSettings(t, tc.settings)
			if response.Valid != (tc.want == "") || !strings.Contains(response.Message, tc.want) {
				t.Fatalf("got %+v, want %q", response, tc.want)
			}
		})
	}
}
