package view_test

import (
	"context"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/view"
	"github.com/longshore-dev/longshore/sdk/contract"
)

type answered []chain.Decision

func (a answered) Evaluate(_ context.Context, in chain.Input) (*chain.Result, error) {
	return &chain.Result{Object: in.Object, Decisions: a}, nil
}

func TestDecisionsAreLogged(t *testing.T) {
	skipped := ignored(decided(contract.MetadataFilter, "other", "0123456789abcdef"))
	skipped.Kept = []string{"/metadata/labels/liqo.io~1managed-by"}
	decisions := answered{decided(contract.MetadataFilter, "teams", "abc", "remove /metadata/labels[app team]"), skipped}
	for verbosity, want := range map[int][]string{
		0: nil,
		1: {
			`"level"=1 "msg"="A policy answered" "name"="settings" "point"="MetadataFilter" "policy"="teams" "module"="m" "digest"="abc" "operations"=["remove /metadata/labels[app team]"]`,
			`"level"=1 "msg"="A policy answered" "name"="settings" "point"="MetadataFilter" "policy"="other" "module"="m" "digest"="0123456789ab" "operations"=[] "kept"=["/metadata/labels/liqo.io~1managed-by"] "ignored"="it trapped"`,
		},
	} {
		var lines []string
		log := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{Verbosity: verbosity})
		_, _, err := view.ReflectMetadata(logr.NewContext(t.Context(), log.WithValues("name", "settings")), decisions, view.MetadataInput{Kind: "ConfigMap"}, "")
		require.NoError(t, err)
		assert.Equal(t, want, lines)
	}
}
