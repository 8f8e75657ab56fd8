package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/longshore-dev/longshore/sdk/contract"
	"github.com/longshore-dev/longshore/sdk/guesttest"
)

func TestAmounts(t *testing.T) {
	for text, want := range map[string]float64{"1": 1, "500m": 0.5, "1.5": 1.5, "64Mi": 64 << 20, "2k": 2000, "1E": 1e18, "1e3": 1000} {
		if got, err := parse(text); err != nil || got != want {
			t.Errorf("%s: got %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "Mi", "64MB", "-1", "much", "1 Gi", "Inf", "NaN", "+1"} {
		if got, err := parse(text); err == nil {
			t.Errorf("%q: got %v, want an error", text, got)
		}
	}
}

func TestVectors(t *testing.T) { guesttest.Vectors(t, os.DirFS("vectors")) }

func TestSettings(t *testing.T) {
	type m = map[string]any
	for name, tc := range map[string]struct {
		settings any
		want     string
	}{
		"one tenant":         {m{"tenants": []m{{"clusterID": "rome", "resources": m{"cpu": "32"}}}}, ""},
		"only denyOthers":    {m{"denyOthers": true}, ""},
		"no ID":              {m{"tenants": []m{{"resources": m{"cpu": "32"}}}}, "tenants[0].clusterID is empty"},
		"no amount":          {m{"tenants": []m{{"clusterID": "rome", "resources": m{"cpu": "many"}}}}, `tenants[0].resources["cpu"]: "many" is not an amount`},
		"a misspelled field": {m{"tenant": []m{}}, "spec.settings.tenant: unknown field, want denyOthers or tenants"},
	} {
		t.Run(name, func(t *testing.T) {
			response := guesttest.ValidateSettings(t, tc.settings)
			if response.Valid != (tc.want == "") || !strings.Contains(response.Message, tc.want) {
				t.Fatalf("got %+v, want %q", response, tc.want)
			}
		})
	}
}

func TestPluginFileAgreesWithTheManifest(t *testing.T) {
	data, err := os.ReadFile("plugin.yaml")
	if err != nil {
		t.Fatal(err)
	}
	m := manifest()
	for _, line := range []string{"name: " + m.Name, "version: " + m.Version, "  - " + string(contract.ResourceSliceAdmission)} {
		if !slices.Contains(strings.Split(string(data), "\n"), line) {
			t.Errorf("plugin.yaml lacks the line %q", line)
		}
	}
}
