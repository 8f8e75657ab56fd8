package main

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/longshore-dev/longshore/sdk/contract"
	"github.com/longshore-dev/longshore/sdk/guesttest"
)

func pod(containers ...contract.Container) contract.ShadowPodAdmissionFacts {
	return contract.ShadowPodAdmissionFacts{Object: contract.Pod{Spec: contract.PodSpec{Containers: containers}}}
}

func TestDenials(t *testing.T) {
	limited := json.RawMessage(`{"limits":{"memory":"1Gi"}}`)
	for name, tc := range map[string]struct {
		facts contract.ShadowPodAdmissionFacts
		want  string
	}{
		"a harmless pod":            {pod(contract.Container{Name: "web", Resources: limited}), ""},
		"a privileged container":    {pod(contract.Container{Name: "web", Resources: limited, SecurityContext: &contract.SecurityContext{Privileged: true}}), "Privileged: container web is privileged"},
		"not privileged":            {pod(contract.Container{Name: "web", Resources: limited, SecurityContext: &contract.SecurityContext{}}), ""},
		"no limit":                  {pod(contract.Container{Name: "web"}), "LimitRequired: container web has no limit of memory"},
		"a limit of something else": {pod(contract.Container{Name: "web", Resources: json.RawMessage(`{"limits":{"cpu":2}}`)}), "LimitRequired: container web has no limit of memory"},
		"a privileged init container": {contract.ShadowPodAdmissionFacts{Object: contract.Pod{Spec: contract.PodSpec{InitContainers: []contract.Container{
			{Name: "setup", Resources: limited, SecurityContext: &contract.SecurityContext{Privileged: true}},
		}}}}, "Privileged: container setup is privileged"},
		"a host path": {contract.ShadowPodAdmissionFacts{Object: contract.Pod{Spec: contract.PodSpec{Volumes: []contract.Volume{
			{Name: "cache"}, {Name: "logs", HostPath: json.RawMessage(`{"path":"/var/log"}`)},
		}}}}, "HostPath: volume logs is a path of the node"},
	} {
		t.Run(name, func(t *testing.T) {
			response := guesttest.Ask(t, contract.ShadowPodAdmission, guesttest.Question{Facts: tc.facts, Settings: map[string]any{"requireLimits": []string{"memory"}}})
			got := ""
			if response.Deny != nil {
				got = response.Deny.Reason + ": " + response.Deny.Message
			}
			if !strings.HasPrefix(got, tc.want) || (got == "") != (tc.want == "") {
				t.Fatalf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestDefaultRequests(t *testing.T) {
	settings := map[string]any{"defaultRequests": map[string]string{"cpu": "100m", "memory": "64Mi"}}
	response := guesttest.Ask(t, contract.ShadowPodAdmission, guesttest.Question{Settings: settings, Facts: pod(
		contract.Container{Name: "none"},
		contract.Container{Name: "cpu", Resources: json.RawMessage(`{"requests":{"cpu":"1"}}`)},
		contract.Container{Name: "limited", Resources: json.RawMessage(`{"limits":{"cpu":1,"memory":"1Gi"}}`)},
	)})
	want := []contract.Operation{
		contract.Merge("/spec/containers[name=none]/resources/requests", contract.StringMap{"cpu": "100m", "memory": "64Mi"}),
		contract.Merge("/spec/containers[name=cpu]/resources/requests", contract.StringMap{"memory": "64Mi"}),
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
		"none":                 {nil, ""},
		"all":                  {m{"requireLimits": []string{"memory"}, "defaultRequests": m{"cpu": "0.5", "memory": "64Mi"}}, ""},
		"a misspelled field":   {m{"requiredLimits": []string{"memory"}}, "spec.settings.requiredLimits: unknown field, want requireLimits or defaultRequests"},
		"a limit without name": {m{"requireLimits": []string{""}}, "requireLimits[0] is empty"},
		"a number":             {m{"defaultRequests": m{"cpu": 1}}, `defaultRequests["cpu"]: want a string`},
		"a misspelled amount":  {m{"defaultRequests": m{"memory": "64MB"}}, `defaultRequests["memory"] is "64MB": want an amount`},
		"no amount":            {m{"defaultRequests": m{"memory": "Mi"}}, "want an amount"},
		"half a suffix":        {m{"defaultRequests": m{"memory": "64i"}}, "want an amount"},
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
