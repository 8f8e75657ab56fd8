package console

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAPipeGetsPlainLines(t *testing.T) {
	var out bytes.Buffer
	c := NewPlain(&out)
	require.NoError(t, c.Step("Starting clusters", func(progress func(string)) error {
		progress("rome")
		return nil
	}))
	failure := errors.New("no port")
	require.ErrorIs(t, c.Step("Installing", func(func(string)) error { return failure }), failure)
	assert.Contains(t, out.String(), "ok   Starting clusters")
	assert.Contains(t, out.String(), "FAIL Installing")
	assert.NotContains(t, out.String(), "\033", "a pipe gets no escape sequence")
}

func TestTablesAlign(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, NewPlain(&out).Table([]string{"POD", "PHASE"}, [][]string{{"web", "Running"}, {"database", "Pending"}}))
	assert.Equal(t, "POD       PHASE\nweb       Running\ndatabase  Pending\n", out.String())
}
