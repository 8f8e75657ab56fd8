//go:build !wasip1

package guesttest_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/longshore-dev/longshore/sdk/contract"
	"github.com/longshore-dev/longshore/sdk/guest"
	"github.com/longshore-dev/longshore/sdk/guest/antiaffinitypreset"
	"github.com/longshore-dev/longshore/sdk/guest/anyjson"
	"github.com/longshore-dev/longshore/sdk/guest/describe"
	"github.com/longshore-dev/longshore/sdk/guest/log"
	"github.com/longshore-dev/longshore/sdk/guest/metadatafilter"
	"github.com/longshore-dev/longshore/sdk/guest/offloadingpatch"
	"github.com/longshore-dev/longshore/sdk/guest/podmutation"
	"github.com/longshore-dev/longshore/sdk/guest/settings"
	"github.com/longshore-dev/longshore/sdk/guesttest"
)

type poolSettings struct {
	Pool string `json:"pool"`
}

// calls makes the policy of AntiAffinityPreset impure.
var calls int

func init() {
	describe.Handle(func() contract.Manifest {
		return contract.Manifest{Name: "test", Version: "1", Points: []contract.PointManifest{
			{
				Point: contract.PodMutation, Moments: []contract.Moment{contract.MomentOffload},
				Reads: []string{"/object/spec/containers[*]/name", "/object/metadata/annotations/example.com~1team"},
				Writes: []contract.WriteRule{
					{Path: "/spec/containers[*]/image", Verbs: []contract.Verb{contract.VerbSet}},
					{Path: "/metadata/labels", Verbs: []contract.Verb{contract.VerbMerge}, Keys: []string{"team"}},
				},
			},
			{Point: contract.OffloadingPatch, Reads: []string{"/virtualNode/name"}},
			{Point: contract.AntiAffinityPreset, Reads: []string{"/object"}},
		}}
	})
	settings.Handle(func(s guest.Settings) error { return anyjson.Settings(s, &poolSettings{}) })
	podmutation.Handle(func(r *podmutation.Request) (*guest.Answer, error) {
		var s poolSettings
		if err := anyjson.Settings(r.Settings, &s); err != nil {
			return nil, err
		}
		log.Info("asked")
		var operations []contract.Operation
		for _, c := range r.Facts.Object.Spec.Containers {
			// The image is not declared in reads, so it must be empty here.
			operations = append(operations, contract.Set("/spec/containers[name="+c.Name+"]/image", contract.String(s.Pool+c.Image)))
		}
		labels := contract.StringMap{"team": r.Facts.Object.Metadata.Annotations["example.com/team"]}
		return &guest.Answer{Operations: append(operations, contract.Merge("/metadata/labels", labels)), Warnings: []string{"w"}}, nil
	})
	offloadingpatch.Handle(func(r *offloadingpatch.Request) ([]contract.Operation, error) {
		if r.Facts.VirtualNode.Name == "" {
			return nil, errors.New("no virtual node")
		}
		return []contract.Operation{contract.Remove("/spec/nodeSelector", "undeclared")}, nil
	})
	antiaffinitypreset.Handle(func(*antiaffinitypreset.Request) ([]contract.Operation, error) {
		calls++
		return []contract.Operation{contract.Set("/x", contract.Int(calls))}, nil
	})
	metadatafilter.Handle(func(*metadatafilter.Request) ([]contract.Operation, error) { return nil, nil })
}

func TestAskProjectsAndAnswers(t *testing.T) {
	object := contract.Pod{
		Metadata: contract.Metadata{Annotations: map[string]string{"example.com/team": "blue", "other": "x"}},
		Spec:     contract.PodSpec{Containers: []contract.Container{{Name: "a", Image: "secret"}, {Name: "b"}}},
	}
	response := guesttest.Ask(t, contract.PodMutation, guesttest.Question{
		Moment:   contract.MomentOffload,
		Facts:    contract.PodMutationFacts{Object: object},
		Settings: poolSettings{Pool: "p"},
	})
	got, err := json.Marshal(response)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"version":"v1alpha1","operations":[` +
		`{"op":"set","path":"/spec/containers[name=a]/image","value":"p"},` +
		`{"op":"set","path":"/spec/containers[name=b]/image","value":"p"},` +
		`{"op":"merge","path":"/metadata/labels","value":{"team":"blue"}}],"warnings":["w"]}`
	if string(got) != want {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
}

func TestTryReturnsThePolicysError(t *testing.T) {
	_, err := guesttest.Try(t, contract.OffloadingPatch, guesttest.Question{Facts: contract.OffloadingPatchFacts{}})
	if err == nil || err.Error() != "offloading_patch: no virtual node" {
		t.Fatalf("got %v", err)
	}
	_, err = guesttest.Try(t, contract.PodMutation, guesttest.Question{
		Moment: contract.MomentOffload, Facts: contract.PodMutationFacts{}, Settings: map[string]string{"pol": "misspelled"},
	})
	if err == nil || !strings.Contains(err.Error(), `unknown field "pol"`) {
		t.Fatalf("got %v", err)
	}
}

func TestValidateSettings(t *testing.T) {
	if response := guesttest.ValidateSettings(t, poolSettings{Pool: "p"}); !response.Valid || response.Message != "" {
		t.Fatalf("got %+v", response)
	}
	if response := guesttest.ValidateSettings(t, map[string]int{"pool": 1}); response.Valid || response.Message == "" {
		t.Fatalf("got %+v", response)
	}
}

// recorder is a test that may fail.
type recorder struct {
	testing.TB
	errors []string
}

func (r *recorder) Helper()                   {}
func (r *recorder) Logf(string, ...any)       {}
func (r *recorder) Failed() bool              { return len(r.errors) > 0 }
func (r *recorder) Errorf(f string, a ...any) { r.errors = append(r.errors, fmt.Sprintf(f, a...)) }
func (r *recorder) Fatalf(f string, a ...any) {
	r.Errorf(f, a...)
	panic(r)
}

func TestAskHoldsThePolicyToItsManifest(t *testing.T) {
	tests := map[string]struct {
		point    contract.Point
		question guesttest.Question
		want     string
	}{
		"an operation outside writes": {
			contract.OffloadingPatch,
			guesttest.Question{Facts: contract.OffloadingPatchFacts{VirtualNode: contract.VirtualNode{Name: "n"}}},
			`does not allow "remove" at /spec/nodeSelector`,
		},
		"two answers to one question":  {contract.AntiAffinityPreset, guesttest.Question{Facts: contract.AntiAffinityPresetFacts{}}, "not pure"},
		"a point that is not declared": {contract.MetadataFilter, guesttest.Question{}, "does not declare MetadataFilter"},
		"a moment that is not declared": {
			contract.PodMutation, guesttest.Question{Moment: contract.MomentAdmission}, "does not declare moment Admission",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := &recorder{TB: t}
			func() {
				defer func() { _ = recover() }()
				guesttest.Ask(r, tc.point, tc.question)
			}()
			if !strings.Contains(strings.Join(r.errors, "\n"), tc.want) {
				t.Fatalf("got %q, want %q", r.errors, tc.want)
			}
		})
	}
}
