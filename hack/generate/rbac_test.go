package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMarkersBecomeRules(t *testing.T) {
	for name, tc := range map[string]struct {
		markers []string
		want    []rule
		err     string
	}{
		"verbs of one resource are united": {
			[]string{`groups="",resources=pods,verbs=get;list`, `groups="",resources=pods,verbs=watch;get`},
			[]rule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list", "watch"}}}, "",
		},
		"resources with the same verbs share a rule": {
			[]string{`groups="",resources=secrets;pods,verbs=get`},
			[]rule{{APIGroups: []string{""}, Resources: []string{"pods", "secrets"}, Verbs: []string{"get"}}}, "",
		},
		"named resources stay apart from all of them": {
			[]string{`groups="",resources=secrets,verbs=list`, `groups="",resources=secrets,resourceNames=mine,verbs=get`},
			[]rule{
				{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"list"}},
				{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"mine"}, Verbs: []string{"get"}},
			}, "",
		},
		"groups are apart": {
			[]string{`groups="";events.k8s.io,resources=events,verbs=create`},
			[]rule{
				{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create"}},
				{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create"}},
			}, "",
		},
		"a misspelled key": {[]string{`groups="",resource=pods,verbs=get`}, nil, `unknown key "resource"`},
		"no verbs":         {[]string{`groups="",resources=pods`}, nil, "verbs are required"},
	} {
		t.Run(name, func(t *testing.T) {
			rules, err := rulesOf(tc.markers)
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tc.want, rules)
		})
	}
}
