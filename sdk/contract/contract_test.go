package contract_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/longshore-dev/longshore/sdk/contract"
)

func TestNegotiate(t *testing.T) {
	for name, tc := range map[string]struct {
		host, module []string
		want         string
		ok           bool
	}{
		"the host's preference counts": {[]string{"v2", "v1"}, []string{"v1", "v2"}, "v2", true},
		"an older module":              {[]string{"v2", "v1"}, []string{"v1"}, "v1", true},
		"nothing in common":            {[]string{"v2"}, []string{"v1"}, "", false},
		"a module that speaks nothing": {[]string{"v2"}, nil, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got, ok := contract.Negotiate(tc.host, tc.module); got != tc.want || ok != tc.ok {
				t.Fatalf("got %q, %v", got, ok)
			}
		})
	}
}

func TestManifestForAndAt(t *testing.T) {
	m := contract.Manifest{Points: []contract.PointManifest{
		{Point: contract.PodMutation, Moments: []contract.Moment{contract.MomentOffload}},
		{Point: contract.MetadataFilter},
	}}
	if m.For(contract.OffloadingPatch) != nil {
		t.Error("a point that is not declared was found")
	}
	p := m.For(contract.PodMutation)
	if p == nil || p.At(contract.MomentAdmission) || !p.At(contract.MomentOffload) {
		t.Errorf("moments of %+v", p)
	}
	if p := m.For(contract.MetadataFilter); p == nil || !p.At(contract.MomentAdmission) || !p.At("") {
		t.Error("no declared moment must mean all")
	}
}

func TestEveryPointHasItsOwnExport(t *testing.T) {
	seen := map[string]bool{"": true, contract.ExportDescribe: true, contract.ExportValidateSettings: true}
	for _, point := range contract.Points() {
		if seen[point.Export()] {
			t.Errorf("%s has export %q", point, point.Export())
		}
		seen[point.Export()] = true
	}
	if got := contract.Point("Other").Export(); got != "" {
		t.Errorf("an unknown point has export %q", got)
	}
}

// The constructors write what encoding/json reads back as the same operation.
func TestOperations(t *testing.T) {
	seconds := int64(30)
	for want, op := range map[string]contract.Operation{
		`{"op":"set","path":"/a","value":"x\"y"}`:              contract.Set("/a", contract.String(`x"y`)),
		`{"op":"set","path":"/a","value":true}`:                contract.Set("/a", contract.Bool(true)),
		`{"op":"set","path":"/a","value":-7}`:                  contract.Set("/a", contract.Int(-7)),
		`{"op":"set","path":"/a","value":null}`:                contract.Set("/a", contract.Raw(nil)),
		`{"op":"set","path":"/a","value":{"b":[1]}}`:           contract.Set("/a", contract.Raw(`{"b":[1]}`)),
		`{"op":"remove","path":"/a"}`:                          contract.Remove("/a"),
		`{"op":"remove","path":"/a","keys":["x","y"]}`:         contract.Remove("/a", "x", "y"),
		`{"op":"merge","path":"/a","value":{"a":"1","b":"2"}}`: contract.Merge("/a", contract.StringMap{"b": "2", "a": "1"}),
		`{"op":"ensure","path":"/a","value":[]}`:               contract.Ensure("/a"),
		`{"op":"ensure","path":"/a","value":[{"key":"k","operator":"Exists","tolerationSeconds":30},null]}`: contract.Ensure("/a",
			contract.Toleration{Key: "k", Operator: "Exists", TolerationSeconds: &seconds}, contract.Raw(nil)),
		`{"op":"require","path":"/a","value":[{"matchFields":[{"key":"k","operator":"In","values":["v"]}]},{}]}`: contract.Require("/a",
			contract.NodeSelectorTerm{MatchFields: []contract.NodeSelectorRequirement{{Key: "k", Operator: "In", Values: []string{"v"}}}},
			contract.NodeSelectorTerm{}),
	} {
		t.Run(want, func(t *testing.T) {
			if got := string(op.AppendJSON(nil)); got != want {
				t.Fatalf("got  %s\nwant %s", got, want)
			}
			var back contract.Operation
			if err := json.Unmarshal([]byte(want), &back); err != nil || !reflect.DeepEqual(back, op) {
				t.Fatalf("%v: %+v differs from %+v", err, back, op)
			}
		})
	}
}

func ExampleMerge() {
	fmt.Printf("%s\n", contract.Merge("/spec/nodeSelector", contract.StringMap{"pool": "gpu"}).AppendJSON(nil))
	// Output: {"op":"merge","path":"/spec/nodeSelector","value":{"pool":"gpu"}}
}

func ExampleRequire() {
	pool := contract.NodeSelectorRequirement{Key: "pool", Operator: "In", Values: []string{"gpu"}}
	operation := contract.Require("/spec/affinity/nodeAffinity", contract.NodeSelectorTerm{
		MatchExpressions: []contract.NodeSelectorRequirement{pool},
	})
	fmt.Printf("%s\n", operation.Value)
	// Output: [{"matchExpressions":[{"key":"pool","operator":"In","values":["gpu"]}]}]
}

// The table of the points has the facts that their types have, by way of the generated schemas.
func TestRulesNameTheFactsOfThePoint(t *testing.T) {
	for i, point := range contract.CorePoints() {
		if contract.Points()[i] != point {
			t.Errorf("core point %d is %s, and in the table %s", i, point, contract.Points()[i])
		}
	}
	for _, point := range contract.Points() {
		data, err := os.ReadFile("schema/facts-" + strings.ReplaceAll(point.Export(), "_", "-") + ".json")
		if err != nil {
			t.Fatal(err)
		}
		var schema struct{ Properties map[string]any }
		if err := json.Unmarshal(data, &schema); err != nil {
			t.Fatal(err)
		}
		rules := point.Rules()
		if got, want := slices.Sorted(slices.Values(rules.Facts)), slices.Sorted(maps.Keys(schema.Properties)); !slices.Equal(got, want) {
			t.Errorf("%s: the table has the facts %v, the type %v", point, got, want)
		}
		if rules.Facts[0] != "object" || len(rules.Writes) == 0 {
			t.Errorf("%s: policies must get an object and be able to write to it", point)
		}
	}
	if contract.Point("Other").Rules() != nil {
		t.Error("an unknown point has rules")
	}
}
