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
	sum, err := sumOf(strings.NewReader(text), "calls_sum")
	require.NoError(t, err)
	assert.InDelta(t, 0.6, sum, 1e-9)
	_, err = sumOf(strings.NewReader(text), "missing")
	assert.ErrorContains(t, err, "no metric missing")
	_, err = sumOf(strings.NewReader("calls_sum{a=\"1\"} many\n"), "calls_sum")
	assert.ErrorContains(t, err, "reading metric calls_sum")
}
