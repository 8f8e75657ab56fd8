package engine

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestMemoriesAreReset writes at random, as a hostile guest may.
func TestMemoriesAreReset(t *testing.T) {
	const size = 700 * blockBytes
	random := rand.New(rand.NewPCG(1, 2))
	content := make([]byte, size)
	for at := range size - 100*blockBytes {
		if at/blockBytes%5 != 3 { // with blocks of zeros in between, and a hundred behind
			content[at] = byte(random.Uint32())
		}
	}
	m, err := newMemory(size + 50*blockBytes)
	require.NoError(t, err)
	t.Cleanup(m.Free)
	copy(m.reserved, content)
	state := m.blocks(size)
	assert.Nil(t, state[3], "a block of zeros takes no space")
	copy(m.reserved, bytes.Repeat([]byte{7}, size)) // as data segments do
	for round := range 200 {
		m.restore(state)
		require.True(t, bytes.Equal(content, m.reserved[:size]), "round %d", round)
		for range random.IntN(60) {
			m.reserved[random.IntN(size)] ^= byte(random.Uint32())
		}
		if round%50 == 49 {
			clear(m.reserved[:size])
		}
	}
}
