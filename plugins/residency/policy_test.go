package main

import (
	"os"
	"strings"
	"testing"

	"github.com/longshore-dev/longshore/sdk/contract"
	"github.com/longshore-dev/longshore/sdk/guesttest"
)

func TestGuard(t *testing.T) {
	none := "none"
	for name, tc := range map[string]struct {
		annotation, region string
		settings           any
		want               string
	}{
		"the region is allowed":                     {annotation: "eu-west", region: "eu-west"},
		"one of several":                            {annotation: "eu-west, eu-north", region: "eu-north"},
		"another region":                            {annotation: "eu-west,eu-north", region: "us-east", want: "DataResidency"},
		"a region that begins alike":                {annotation: "eu", region: "eu-west", want: "DataResidency"},
		"a node without a region":                   {annotation: "eu-west", want: "UnknownRegion"},
		"an annotation without a region":            {annotation: " ,", region: "eu-west", want: "InvalidDataResidency"},
		"no annotation":                             {annotation: none, region: "us-east"},
		"the default, elsewhere":                    {annotation: none, region: "us-east", settings: map[string]any{"default": []string{"eu-west"}}, want: "DataResidency"},
		"the annotation before a default":           {annotation: "us-east", region: "us-east", settings: map[string]any{"default": []string{"eu-west"}}},
		"an annotation cannot allow all":            {annotation: "", region: "us-east", settings: map[string]any{"default": []string{"eu-west"}}, want: "InvalidDataResidency"},
		"a missing default is not a reason to deny": {annotation: none, region: "us-east", settings: map[string]any{"default": []string{}}},
		"a default and an unlabelled node":          {annotation: none, settings: map[string]any{"default": []string{"eu-west"}}, want: "UnknownRegion"},
	} {
		t.Run(name, func(t *testing.T) {
			local := &contract.Pod{}
			if tc.annotation != none {
				local.Metadata.Annotations = map[string]string{residencyAnnotation: tc.annotation}
			}
			node := &contract.VirtualNode{Name: "milan"}
			if tc.region != "" {
				node.Labels = map[string]string{regionLabel: tc.region}
			}
			response := guesttest.Ask(t, contract.PodMutation, guesttest.Question{
				Moment: contract.MomentOffload, Facts: contract.PodMutationFacts{Local: local, VirtualNode: node}, Settings: tc.settings,
			})
			switch {
			case tc.want == "" && response.Deny != nil:
				t.Fatalf("denied: %+v", response.Deny)
			case tc.want != "" && (response.Deny == nil || response.Deny.Reason != tc.want):
				t.Fatalf("got %+v, want reason %s", response.Deny, tc.want)
			}
		})
	}
}

func TestVectors(t *testing.T) { guesttest.Vectors(t, os.DirFS("vectors")) }

func TestSettings(t *testing.T) {
	for name, tc := range map[string]struct {
		settings any
		want     string
	}{
		"none":               {nil, ""},
		"regions":            {map[string]any{"default": []string{"eu-west", "eu-north"}}, ""},
		"a list in one text": {map[string]any{"default": []string{"eu-west, eu-north"}}, "want the name of one region"},
		"an empty name":      {map[string]any{"default": []string{""}}, `default[0] is ""`},
		"a misspelled field": {map[string]any{"defaults": []string{"eu-west"}}, "spec.settings.defaults: unknown field"},
	} {
		t.Run(name, func(t *testing.T) {
			response := guesttest.ValidateSettings(t, tc.settings)
			if response.Valid != (tc.want == "") || !strings.Contains(response.Message, tc.want) {
				t.Fatalf("got %+v, want %q", response, tc.want)
			}
		})
	}
}
