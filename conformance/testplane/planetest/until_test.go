package planetest_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
)

func TestALookThatFailsIsTakenAgain(t *testing.T) {
	looks := 0
	planetest.Until(t, func(t planetest.T) bool {
		looks++
		if looks == 1 {
			require.NoError(t, errors.New("connection refused"), "ends this look only")
			looks = 100
		}
		return looks > 2 && assert.NoError(t, t.Context().Err())
	}, time.Minute, time.Millisecond)
	assert.Equal(t, 3, looks)
}
