package main

import (
	"bytes"
	"runtime/pprof"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLiveMemoryIsInAHeapProfile(t *testing.T) {
	var profile bytes.Buffer
	require.NoError(t, pprof.Lookup("heap").WriteTo(&profile, 1))
	live, err := liveOf(profile.Bytes())
	require.NoError(t, err)
	assert.Positive(t, live)

	_, err = liveOf([]byte("# HeapAlloc = 1\n"))
	require.Error(t, err)
}
