package hostile_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/longshore-dev/longshore/charts"
	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	"github.com/longshore-dev/longshore/host/app/scheme"
)

// kind is a custom resource of the chart.
type kind struct {
	gvk          schema.GroupVersionKind
	plural       string
	isNamespaced bool
	hasStatus    bool
	schema       map[string]any
}

// TestWhatIsAcceptedIsDecoded gives hostile values, one of each class, to each field of every custom resource
// of the chart.
func TestWhatIsAcceptedIsDecoded(t *testing.T) { whatIsAcceptedIsDecoded(t, valuesOfEachClass()) }

// TestLongWhatIsAcceptedIsDecoded does so with every value.
func TestLongWhatIsAcceptedIsDecoded(t *testing.T) { whatIsAcceptedIsDecoded(t, hostileValues()) }

// One request has the value in all fields; those that the API server names in its refusal get back what they
// had, until it accepts the rest.
func whatIsAcceptedIsDecoded(t *testing.T, values map[string]json.RawMessage) {
	t.Helper()
	cluster := planetest.ForTest(t, "hostile")
	kinds := kindsOf(t)
	var plurals []string
	for _, k := range kinds {
		plurals = append(plurals, k.plural)
	}
	planetest.InstallCRDs(t, cluster.RESTConfig(), plurals...)
	types, err := scheme.New()
	require.NoError(t, err)
	seen := &sync.Map{}
	for _, k := range kinds {
		t.Run(k.plural, func(t *testing.T) {
			t.Parallel()
			a := newAttack(t, cluster.RESTConfig(), types, seen, k)
			for _, part := range slices.Sorted(maps.Keys(child(k.schema, "properties"))) {
				if slices.Contains([]string{"apiVersion", "kind", "metadata"}, part) {
					continue
				}
				a.attackPart(t, part, values)
			}
			require.Positive(t, a.attacks, "no hostile value was sent")
			t.Logf("%d requests, %d accepted", a.sent, a.accepted)
		})
	}
}

func kindsOf(t *testing.T) []kind {
	t.Helper()
	files, err := fs.Glob(charts.Longshore, "longshore/crds/*.yaml")
	require.NoError(t, err)
	var kinds []kind
	for _, file := range files {
		raw, err := charts.Longshore.ReadFile(file)
		require.NoError(t, err)
		crd := map[string]any{}
		require.NoError(t, yaml.Unmarshal(raw, &crd))
		spec := child(crd, "spec")
		versions, _ := spec["versions"].([]any)
		require.Len(t, versions, 1, file)
		version, _ := versions[0].(map[string]any)
		k := kind{
			plural: strings.TrimSuffix(path.Base(file), ".yaml"), isNamespaced: spec["scope"] == "Namespaced",
			schema: child(child(version, "schema"), "openAPIV3Schema"),
			gvk:    schema.GroupVersionKind{Group: fmt.Sprint(spec["group"]), Version: fmt.Sprint(version["name"]), Kind: fmt.Sprint(child(spec, "names")["kind"])},
		}
		_, k.hasStatus = child(version, "subresources")["status"]
		kinds = append(kinds, k)
	}
	require.NotEmpty(t, kinds)
	return kinds
}
