package kubelet

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// watch is a clock that is set by hand.
type watch struct{ now time.Time }

func (w *watch) Now() time.Time { return w.now }

func TestALookIsAnAnswerOfTheProvider(t *testing.T) {
	for name, tc := range map[string]struct {
		answer error
		want   bool
	}{
		"it lives":                            {nil, true},
		"it may not be asked":                 {apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no right")), true},
		"it does not know the question":       {apierrors.NewNotFound(schema.GroupResource{}, "livez"), true},
		"it is busy":                          {apierrors.NewTooManyRequests("busy", 1), true},
		"it does not know who asks":           {apierrors.NewUnauthorized("expired"), false},
		"it is not well":                      {apierrors.NewInternalError(errors.New("etcd failed")), false},
		"something before it finds it not":    {apierrors.NewServiceUnavailable("no endpoints"), false},
		"nobody answers":                      {errors.New("connection refused"), false},
		"nobody answers in time":              {context.DeadlineExceeded, false},
		"an answer in a wrapping is the same": {fmt.Errorf("asking: %w", apierrors.NewTooManyRequests("busy", 1)), true},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLink(&Options{NodePingInterval: time.Second, NodePingTimeout: time.Second}, time.Now)
			l.connect(func(context.Context) error { return tc.answer })
			assert.Equal(t, tc.want, l.look(t.Context(), false) == 0)
		})
	}
}

func TestWhatTheNodeAsksIsNotAskedAgain(t *testing.T) {
	clock, asks := &watch{now: time.Date(2026, 11, 21, 17, 0, 0, 0, time.UTC)}, 0
	var answer error
	l := newLink(&Options{NodePingInterval: 10 * time.Second, NodePingTimeout: time.Second}, clock.Now)
	l.connect(func(context.Context) error {
		asks++
		return answer
	})
	require.NoError(t, l.health(t.Context()))
	assert.Zero(t, l.look(t.Context(), false))
	clock.now = clock.now.Add(9 * time.Second)
	assert.Zero(t, l.look(t.Context(), false))
	assert.Equal(t, 1, asks)

	clock.now, answer = clock.now.Add(time.Second), errCut
	assert.Equal(t, 1, l.look(t.Context(), false))
	assert.Equal(t, 1, l.look(t.Context(), false))
	assert.ErrorIs(t, l.health(t.Context()), errCut)
	assert.Equal(t, 2, l.look(t.Context(), false))

	assert.Equal(t, 3, l.look(t.Context(), true), "who waits for it asks again")
	stopped, stop := context.WithCancel(t.Context())
	stop()
	assert.ErrorIs(t, l.health(stopped), errCut)
	assert.Equal(t, 3, l.look(t.Context(), false), "who stops says nothing about the provider")

	answer = nil
	l.connect(func(context.Context) error { return answer })
	assert.Zero(t, l.look(t.Context(), false), "another kubeconfig is asked at once")
	answer = errCut
	assert.Zero(t, l.look(t.Context(), true), "an answer is believed for a while")
}

func TestAPingThatIsSwitchedOffKeepsTheLeader(t *testing.T) {
	l := newLink(&Options{}, time.Now)
	l.connect(func(context.Context) error { return errCut })
	assert.Zero(t, l.look(t.Context(), false))
}

func TestBeforeTheFirstSessionNothingIsKnown(t *testing.T) {
	l := newLink(&Options{NodePingInterval: time.Second, NodePingTimeout: time.Second}, time.Now)
	ended, end := context.WithCancel(t.Context())
	end()
	assert.Equal(t, 1, l.look(ended, false), "it waits for the session, or the end")
}
