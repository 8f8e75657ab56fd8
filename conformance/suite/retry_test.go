package suite

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/host/policy/engine"
)

// A host that is busy with others makes one call slow, not all of them.
func TestACallThatReachedItsTimeIsMadeAgain(t *testing.T) {
	late, wrong := fmt.Errorf("pod_mutation: %w", engine.ErrCallTime), errors.New("no answer")
	for name, c := range map[string]struct {
		answers []error
		want    error
		calls   int
	}{
		"in time":             {[]error{nil}, nil, 1},
		"late once":           {[]error{late, nil}, nil, 2},
		"wrong":               {[]error{wrong, nil}, wrong, 1},
		"late, then wrong":    {[]error{late, late, wrong}, wrong, 3},
		"late each time":      {[]error{late, late, late, late, late, nil}, late, attempts},
		"in time at the last": {[]error{late, late, late, late, nil}, nil, attempts},
	} {
		t.Run(name, func(t *testing.T) {
			calls := 0
			result, err := inTime(func() (int, error) {
				calls++
				return calls, c.answers[calls-1]
			})
			require.Equal(t, c.want, err)
			require.Equal(t, c.calls, calls)
			require.Equal(t, c.calls, result)
		})
	}
}
