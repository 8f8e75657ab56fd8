package operation_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/host/policy/operation"
)

func mustPath(t *testing.T, text string) operation.Path {
	t.Helper()
	path, err := operation.ParsePath(text)
	require.NoError(t, err)
	return path
}

func TestParsePath(t *testing.T) {
	for name, tc := range map[string]struct {
		path      string
		wantSteps []operation.Step
		wantErr   string
	}{
		"fields": {
			path:      "/spec/nodeSelector",
			wantSteps: []operation.Step{{Key: "spec"}, {Key: "nodeSelector"}},
		},
		"a selector by name": {
			path:      "/containers[name=web]/image",
			wantSteps: []operation.Step{{Key: "containers"}, {Kind: operation.StepMatch, Key: "name", Value: "web"}, {Key: "image"}},
		},
		"a selector of all": {
			path:      "/containers[*]",
			wantSteps: []operation.Step{{Key: "containers"}, {Kind: operation.StepAll}},
		},
		"escapes, resolved once": {
			path:      "/annotations/liqo.io~1preset~01",
			wantSteps: []operation.Step{{Key: "annotations"}, {Key: "liqo.io/preset~1"}},
		},
		"an escape in a selector": {
			path:      "/env[name=a~1b]",
			wantSteps: []operation.Step{{Key: "env"}, {Kind: operation.StepMatch, Key: "name", Value: "a/b"}},
		},
		"an empty selected value": {
			path:      "/env[name=]",
			wantSteps: []operation.Step{{Key: "env"}, {Kind: operation.StepMatch, Key: "name"}},
		},
		"no path":               {path: "", wantErr: "must begin with a slash"},
		"no slash":              {path: "spec", wantErr: "must begin with a slash"},
		"the whole document":    {path: "/", wantErr: "a token is empty"},
		"an empty token":        {path: "/spec//x", wantErr: "a token is empty"},
		"an index":              {path: "/spec/containers/0", wantErr: "is an index"},
		"the append index":      {path: "/spec/containers/-", wantErr: "is an index"},
		"an unclosed selector":  {path: "/spec/containers[name=web", wantErr: "at the end of the token"},
		"text after a selector": {path: "/spec/containers[*]x", wantErr: "at the end of the token"},
		"two selectors":         {path: "/spec/containers[*][*]", wantErr: "at the end of the token"},
		"a selector alone":      {path: "/spec/[*]", wantErr: "a token is empty"},
		"an index selector":     {path: "/spec/containers[0]", wantErr: "a selector is"},
		"an unknown escape":     {path: "/spec/a~2b", wantErr: "followed by 0 or 1"},
		"a trailing tilde":      {path: "/spec/a~", wantErr: "followed by 0 or 1"},
		"a very long path":      {path: "/" + strings.Repeat("x", operation.MaxPathBytes), wantErr: "longer than"},
		"a very deep path":      {path: strings.Repeat("/x", operation.MaxPathSteps+1), wantErr: "more than"},
	} {
		t.Run(name, func(t *testing.T) {
			path, err := operation.ParsePath(tc.path)
			if tc.wantErr != "" {
				assert.ErrorContains(t, err, tc.wantErr)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tc.wantSteps, path.Steps())
			assert.Equal(t, tc.path, path.String())
		})
	}
}

func TestCoversAndOverlaps(t *testing.T) {
	for name, tc := range map[string]struct {
		a, b                        string
		aCoversB, bCoversA, overlap bool
	}{
		"equal paths":                      {a: "/a/b", b: "/a/b", aCoversB: true, bCoversA: true, overlap: true},
		"a field and its parent":           {a: "/a", b: "/a/b", aCoversB: true, overlap: true},
		"siblings":                         {a: "/a/b", b: "/a/c"},
		"a common prefix of text":          {a: "/a/b", b: "/a/bc"},
		"all and one item":                 {a: "/l[*]", b: "/l[name=x]", aCoversB: true, overlap: true},
		"a list and its item":              {a: "/l", b: "/l[name=x]/y", aCoversB: true, overlap: true},
		"different items":                  {a: "/l[name=x]", b: "/l[name=y]"},
		"items by other members":           {a: "/l[name=x]", b: "/l[image=y]", overlap: true},
		"a key is not a selector":          {a: "/l/x", b: "/l[*]/x"},
		"fields of all items and one item": {a: "/l[*]/a", b: "/l[name=x]/b"},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := mustPath(t, tc.a), mustPath(t, tc.b)
			assert.Equal(t, tc.aCoversB, a.Covers(b), "a covers b")
			assert.Equal(t, tc.bCoversA, b.Covers(a), "b covers a")
			assert.Equal(t, tc.overlap, a.Overlaps(b), "a overlaps b")
			assert.Equal(t, tc.overlap, b.Overlaps(a), "b overlaps a")
		})
	}
}
