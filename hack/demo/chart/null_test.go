package chart

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/engine"
)

// nonsense is what templates make of a value that is missing. Expressions of the Common Expression Language compare
// with null.
var nonsense = regexp.MustCompile(`(?m)<nil>|%!|.*[=:] ?null$|quantity\(''\)|.*--[a-z-]+=$`)

// keys returns the paths of all values, of groups and of what is in them.
func keys(prefix []string, values map[string]any) [][]string {
	var found [][]string
	for key, value := range values {
		path := append(append([]string{}, prefix...), key)
		found = append(found, path)
		if group, ok := value.(map[string]any); ok {
			found = append(found, keys(path, group)...)
		}
	}
	return found
}

// TestEveryKeyWithADefaultIsRequired: without it, templates would render another meaning, or nonsense.
func TestEveryKeyWithADefaultIsRequired(t *testing.T) {
	values := map[string]any{}
	require.NoError(t, yaml.Unmarshal(readSource(t, "charts/longshore/values.yaml"), &values))
	var walk func(name string, values map[string]any, schema *valueSchema)
	walk = func(name string, values map[string]any, schema *valueSchema) {
		for key, value := range values {
			child, isKnown := schema.Properties[key]
			if !isKnown {
				continue // Each key of this map is the user's.
			}
			assert.Contains(t, schema.Required, key, "the schema does not require %s%s", name, key)
			if group, ok := value.(map[string]any); ok {
				walk(name+key+".", group, child)
			}
		}
	}
	walk("", values, readSchema(t))
}

// rendered returns the text of all templates.
func rendered(t *testing.T, values map[string]any) (string, error) {
	t.Helper()
	chrt, err := load()
	require.NoError(t, err)
	composed, err := util.ToRenderValues(chrt, values, common.ReleaseOptions{Name: "longshore", Namespace: "longshore", IsInstall: true, Revision: 1}, common.DefaultCapabilities)
	if err != nil {
		return "", fmt.Errorf("refused: %w", err)
	}
	files, err := engine.Render(chrt, composed)
	if err != nil {
		return "", fmt.Errorf("rendering: %w", err)
	}
	var all strings.Builder
	for name, content := range files {
		all.WriteString("# " + name + "\n" + content)
	}
	return all.String(), nil
}

// TestAValueThatIsNull: Helm removes a key whose value is null, and its default with it.
func TestAValueThatIsNull(t *testing.T) {
	values := map[string]any{}
	require.NoError(t, yaml.Unmarshal(readSource(t, "charts/longshore/values.yaml"), &values))
	for _, path := range keys(nil, values) {
		name := strings.Join(path, ".")
		t.Run(name, func(t *testing.T) {
			set := map[string]any{"clusterID": "rome"}
			inner := set
			for _, key := range path[:len(path)-1] {
				next := map[string]any{}
				inner[key], inner = next, next
			}
			inner[path[len(path)-1]] = nil
			text, err := rendered(t, set)
			if err != nil {
				assert.ErrorContains(t, err, "missing property '"+path[len(path)-1]+"'")
				return
			}
			assert.Empty(t, nonsense.FindAllString(text, -1))
		})
	}
}
