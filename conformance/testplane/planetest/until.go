package planetest

import (
	"context"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// T is what a helper needs of its test. A helper that takes it, instead of a *testing.T,
// serves in the conditions of Until as well.
type T interface {
	require.TestingT
	Helper()
	Context() context.Context
}

// Until looks again until the condition holds, and ends the test when it does not within
// the patience. What fails in the condition with the T that it is given fails this look, not
// the test: a real cluster now and then shows an object before its status, or refuses a
// connection. What failed in the last look is told.
func Until(t T, condition func(t T) bool, patience, every time.Duration, messageAndArguments ...any) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		if !condition(look{CollectT: c, ctx: t.Context()}) {
			c.FailNow()
		}
	}, patience, every, messageAndArguments...)
}

type look struct {
	*assert.CollectT

	ctx context.Context
}

func (l look) Context() context.Context { return l.ctx }
