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

// Until polls until the condition is true, and fails the test if that takes longer than the
// patience. An assertion that fails with the condition's own T fails this attempt, not the
// test: a real cluster now and then returns an object before its status, or refuses a
// connection. The failures of the last attempt are reported.
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
