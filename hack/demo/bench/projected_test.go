package main

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/sdk/contract"
)

func TestProjectedQuestions(t *testing.T) {
	asked, err := questions()
	require.NoError(t, err)
	require.Len(t, asked, len(contract.CorePoints()))
	for _, q := range asked {
		t.Run(string(q.input.Point), func(t *testing.T) {
			before, err := json.Marshal(q.input.Object)
			require.NoError(t, err)
			input, raw, err := sized(q.input)
			require.NoError(t, err)
			assert.GreaterOrEqual(t, len(raw), 7000, "the pod is a large one")
			assert.Len(t, input.Object["spec"].(map[string]any)["containers"], 3)
			if local, ok := input.Facts["local"].(map[string]any); ok {
				assert.Len(t, local["spec"].(map[string]any)["containers"], 3, "the local pod is as large")
			}
			after, err := json.Marshal(q.input.Object)
			require.NoError(t, err)
			assert.JSONEq(t, string(before), string(after), "the vector stays as it is")
			assert.NoError(t, nativeOperations(raw), "native code can decode it")
		})
	}
}

func TestInTurns(t *testing.T) {
	var order []string
	note := func(name string) func() error {
		return func() error { order = append(order, name); return nil }
	}
	_, _, err := inTurns(t.Context(), 1, note("ours"), note("native"))
	require.NoError(t, err)
	require.Len(t, order, 2*(turnsBefore+1))
	assert.Equal(t, []string{"ours", "native", "ours", "native"}, order[:4])
	failed := errors.New("failed")
	_, _, err = inTurns(t.Context(), 1, note("ours"), func() error { return failed })
	assert.ErrorIs(t, err, failed)
}
