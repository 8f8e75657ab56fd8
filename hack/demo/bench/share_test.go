package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSumOf(t *testing.T) {
	const text = `# HELP calls_sum what
calls_sum{a="1",b="x} y"} 0.5
calls_sum{a="2"} 1e-1
calls_summit{a="2"} 7
other 3
`
	for label, want := range map[string]float64{"": 0.6, `a="1"`: 0.5, `b="none"`: 0} {
		sum, err := sumOf(strings.NewReader(text), "calls_sum", label)
		require.NoError(t, err)
		assert.InDelta(t, want, sum, 1e-9, label)
	}
	sum, err := sumOf(strings.NewReader(text), "missing", "")
	require.NoError(t, err)
	assert.Zero(t, sum)
	_, err = sumOf(strings.NewReader("calls_sum{a=\"1\"} many\n"), "calls_sum", "")
	assert.ErrorContains(t, err, "reading metric calls_sum")
}
