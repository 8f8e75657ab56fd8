package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWatchesAreAddedUp(t *testing.T) {
	for name, tc := range map[string]struct {
		metrics string
		want    float64
		err     string
	}{
		"watches of all resources": {
			"# HELP apiserver_longrunning_requests x\napiserver_longrunning_requests{resource=\"pods\",verb=\"WATCH\"} 3\n" +
				"apiserver_longrunning_requests{resource=\"secrets\",verb=\"WATCH\"} 1e+02\n", 103, "",
		},
		"other long requests are none": {"apiserver_longrunning_requests{resource=\"pods\",verb=\"CONNECT\"} 3\nother{verb=\"WATCH\"} 4\n", 0, ""},
		"a value that is not a number": {"apiserver_longrunning_requests{verb=\"WATCH\"} many\n", 0, "many"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := sumWatches([]byte(tc.metrics))
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			assert.InDelta(t, tc.want, got, 0)
		})
	}
}

func TestARunOfScaleKeepsOtherResults(t *testing.T) {
	known := []Result{{Name: "a", Command: "bin/bench"}, {Name: "b", Command: (&options{scale: true}).command()}}
	assert.Len(t, (&options{scale: true}).dropReplaced(known), 2)
	kept := (&options{}).dropReplaced(known)
	require.Len(t, kept, 1, "and a run of everything else those of scale")
	assert.Equal(t, "b", kept[0].Name)
}

func TestARunOfTenantsKeepsOtherResults(t *testing.T) {
	tenants := &options{tenants: true}
	assert.Equal(t, "bin/bench -tenants", tenants.command())
	known := []Result{{Name: "a", Command: "bin/bench"}, {Name: "b", Command: tenants.command()}}
	assert.Len(t, tenants.dropReplaced(known), 2)
	kept := (&options{}).dropReplaced(known)
	require.Len(t, kept, 1, "and a run of everything else those of tenants")
	assert.Equal(t, "b", kept[0].Name)
}
