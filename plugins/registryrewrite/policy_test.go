package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/longshore-dev/longshore/sdk/contract"
	"github.com/longshore-dev/longshore/sdk/guesttest"
)

func TestRewrite(t *testing.T) {
	c := config{Rewrites: []rewrite{
		{From: "docker.io/library", To: "mirror.example/official"},
		{From: "docker.io", To: "mirror.example/hub"},
		{From: "registry.example:5000", To: "registry.example:5000/cache"},
		{From: "quay.io/team/web", To: "mirror.example/web"},
	}}
	// An empty want means that the image stays unchanged.
	for image, want := range map[string]string{
		"web":                               "mirror.example/official/web",
		"web:1.2":                           "mirror.example/official/web:1.2",
		"web@sha256:00ff":                   "mirror.example/official/web@sha256:00ff",
		"team/web:1":                        "mirror.example/hub/team/web:1",
		"docker.io/team/web":                "mirror.example/hub/team/web",
		"docker.io.evil.example/team/web":   "",
		"quay.io/team/web:2":                "mirror.example/web:2",
		"quay.io/team/website:2":            "",
		"quay.io/other/web":                 "",
		"localhost/web":                     "",
		"registry.example:5000/a/b:1":       "registry.example:5000/cache/a/b:1",
		"registry.example:5000/cache/a/b:1": "",
		"mirror.example/official/web:1.2":   "",
	} {
		t.Run(image, func(t *testing.T) {
			got, changed := c.rewrite(image)
			if got != want || changed != (want != "") {
				t.Fatalf("got %q, %v, want %q", got, changed, want)
			}
		})
	}
}

func TestPolicy(t *testing.T) {
	response := guesttest.Ask(t, contract.PodMutation, guesttest.Question{
		Moment: contract.MomentOffload,
		Facts: contract.PodMutationFacts{Object: contract.Pod{Spec: contract.PodSpec{
			InitContainers: []contract.Container{{Name: "setup", Image: "busybox"}},
			Containers: []contract.Container{
				{Name: "web", Image: "docker.io/shop/web:1"},
				{Name: "sidecar", Image: "quay.io/shop/sidecar:1"},
			},
		}}},
		Settings: map[string]any{"rewrites": []any{map[string]string{"from": "docker.io", "to": "mirror.example"}}},
	})
	want := []contract.Operation{
		contract.Set("/spec/initContainers[name=setup]/image", contract.String("mirror.example/library/busybox")),
		contract.Set("/spec/containers[name=web]/image", contract.String("mirror.example/shop/web:1")),
	}
	if !slices.EqualFunc(response.Operations, want, func(a, b contract.Operation) bool {
		return a.Op == b.Op && a.Path == b.Path && string(a.Value) == string(b.Value)
	}) {
		t.Fatalf("got %s", response.Operations)
	}
}

func TestVectors(t *testing.T) { guesttest.Vectors(t, os.DirFS("vectors")) }

func TestSettings(t *testing.T) {
	type m = map[string]any
	for name, tc := range map[string]struct {
		settings any
		want     string
	}{
		"one rewrite":        {m{"rewrites": []m{{"from": "docker.io", "to": "mirror.example"}}}, ""},
		"no rewrite":         {m{}, "rewrites is empty"},
		"a misspelled field": {m{"rewrites": []m{{"form": "docker.io", "to": "mirror.example"}}}, "rewrites[0].form: unknown field, want from or to"},
		"a field forgotten":  {m{"rewrites": []m{{"from": "docker.io"}}}, `rewrites[0].to is ""`},
		"a URL":              {m{"rewrites": []m{{"from": "https://docker.io", "to": "mirror.example"}}}, `rewrites[0].from is "https://docker.io"`},
		"both fields bad":    {m{"rewrites": []m{{"from": "/", "to": ""}}}, `rewrites[0].to is ""`},
		"no list":            {m{"rewrites": "docker.io"}, "spec.settings.rewrites: want a list"},
		"a slash at the end": {m{"rewrites": []m{{"from": "docker.io", "to": "mirror.example/"}}}, `rewrites[0].to is "mirror.example/"`},
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
	for _, line := range []string{"name: " + m.Name, "version: " + m.Version, "  - " + string(m.Points[0].Point)} {
		if !slices.Contains(strings.Split(string(data), "\n"), line) {
			t.Errorf("plugin.yaml lacks the line %q", line)
		}
	}
}
