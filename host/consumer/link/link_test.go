package link

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testclock "k8s.io/utils/clock/testing"
)

var errUnreachable = errors.New("no route to host")

func TestIsReachable(t *testing.T) {
	for name, tc := range map[string]struct {
		result error
		want   bool
	}{
		"ok":                  {nil, true},
		"forbidden":           {apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no right")), true},
		"not found":           {apierrors.NewNotFound(schema.GroupResource{}, "livez"), true},
		"too many requests":   {apierrors.NewTooManyRequests("busy", 1), true},
		"unauthorized":        {apierrors.NewUnauthorized("expired"), false},
		"internal error":      {apierrors.NewInternalError(errors.New("etcd failed")), false},
		"service unavailable": {apierrors.NewServiceUnavailable("no endpoints"), false},
		"connection refused":  {errors.New("connection refused"), false},
		"deadline exceeded":   {context.DeadlineExceeded, false},
		"wrapped API status":  {fmt.Errorf("probing: %w", apierrors.NewTooManyRequests("busy", 1)), true},
	} {
		t.Run(name, func(t *testing.T) {
			l := New(time.Second, time.Second, time.Now)
			l.Connect(func(context.Context) error { return tc.result }, nil)
			assert.Equal(t, tc.want, l.Failures(t.Context(), false) == 0)
		})
	}
}

func TestResultsAreSharedWithinAnInterval(t *testing.T) {
	clock, probes := testclock.NewFakePassiveClock(time.Date(2026, 11, 21, 17, 0, 0, 0, time.UTC)), 0
	var result error
	l := New(10*time.Second, time.Second, clock.Now)
	l.Connect(func(context.Context) error { probes++; return result }, nil)
	require.NoError(t, l.Check(t.Context()))
	assert.Zero(t, l.Failures(t.Context(), false))
	assert.Equal(t, 1, probes, "the result of the Node's check is used")

	clock.SetTime(clock.Now().Add(10 * time.Second))
	assert.Zero(t, l.Failures(t.Context(), false))
	assert.Equal(t, 2, probes, "a result is used for one interval")

	result = errUnreachable
	clock.SetTime(clock.Now().Add(10 * time.Second))
	assert.Equal(t, 1, l.Failures(t.Context(), false))
	assert.Equal(t, 1, l.Failures(t.Context(), false))
	require.ErrorIs(t, l.Check(t.Context()), errUnreachable)
	assert.Equal(t, 2, l.Failures(t.Context(), false))
	assert.Equal(t, 3, l.Failures(t.Context(), true), "recheck probes after a failure")

	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, l.Check(canceled), errUnreachable)
	assert.Equal(t, 3, l.Failures(t.Context(), false), "a canceled check is not recorded")

	result = nil
	l.Connect(func(context.Context) error { return result }, nil)
	assert.Zero(t, l.Failures(t.Context(), false), "a new connection is checked at once")
	result = errUnreachable
	assert.Zero(t, l.Failures(t.Context(), true), "recheck uses a success within the interval")
}

func TestIntervalOfZeroChecksNothing(t *testing.T) {
	l := New(0, 0, time.Now)
	l.Connect(func(context.Context) error { return errUnreachable }, nil)
	assert.Zero(t, l.Failures(t.Context(), false))
}

func TestFailuresWaitsForTheFirstConnection(t *testing.T) {
	l := New(time.Second, time.Second, time.Now)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	assert.Equal(t, 1, l.Failures(ended, false))
}

// A probe of the previous session says nothing about the next one.
func TestAResultOfThePreviousSessionIsNotRecorded(t *testing.T) {
	for name, result := range map[string]error{"reachable": nil, "unreachable": errUnreachable} {
		t.Run(name, func(t *testing.T) {
			l := New(time.Hour, time.Second, time.Now)
			probing, proceed, checked := make(chan struct{}), make(chan struct{}), make(chan error)
			l.Connect(func(context.Context) error {
				close(probing)
				<-proceed
				return result
			}, nil)
			go func() { checked <- l.Check(t.Context()) }()
			<-probing
			probes := 0
			l.Connect(func(context.Context) error {
				probes++
				return nil
			}, nil)
			close(proceed)
			require.ErrorIs(t, <-checked, result)
			assert.Zero(t, l.Failures(t.Context(), false))
			assert.Equal(t, 1, probes, "the next check uses the probe of the new session")
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

func TestAProviderThatAnswersAnotherRequestIsReachable(t *testing.T) {
	unauthorized := apierrors.NewUnauthorized("expired")
	for name, tc := range map[string]struct {
		answer int // to another request, while the probe waits; 0 means none
		before bool
		probe  error
		want   error
	}{
		"another request is answered":            {answer: http.StatusCreated, probe: context.DeadlineExceeded},
		"another request is refused":             {answer: http.StatusTooManyRequests, probe: context.DeadlineExceeded},
		"no answer":                              {probe: context.DeadlineExceeded, want: context.DeadlineExceeded},
		"an answer before the probe":             {answer: http.StatusOK, before: true, probe: context.DeadlineExceeded, want: context.DeadlineExceeded},
		"the API server fails":                   {answer: http.StatusServiceUnavailable, probe: context.DeadlineExceeded, want: context.DeadlineExceeded},
		"another user is not accepted":           {answer: http.StatusUnauthorized, probe: context.DeadlineExceeded, want: context.DeadlineExceeded},
		"this user is not accepted, another one": {answer: http.StatusOK, probe: unauthorized, want: unauthorized},
	} {
		t.Run(name, func(t *testing.T) {
			clock := testclock.NewFakePassiveClock(time.Date(2026, 11, 26, 17, 0, 0, 0, time.UTC))
			answers := NewAnswers(clock.Now)
			sender := answers.Of(roundTripper(func(*http.Request) (*http.Response, error) {
				if tc.answer == 0 {
					return nil, errUnreachable
				}
				return &http.Response{StatusCode: tc.answer}, nil
			}))
			ask := func() {
				response, err := sender.RoundTrip(&http.Request{})
				assert.Equal(t, tc.answer == 0, err != nil)
				assert.Equal(t, tc.answer == 0, response == nil)
			}
			if tc.before {
				ask()
			}
			l := New(10*time.Second, time.Second, clock.Now)
			l.Connect(func(context.Context) error {
				clock.SetTime(clock.Now().Add(time.Second))
				if !tc.before {
					ask()
				}
				return tc.probe
			}, answers)
			require.ErrorIs(t, l.Check(t.Context()), tc.want)
			assert.Equal(t, tc.want == nil, l.Failures(t.Context(), false) == 0)
		})
	}
}
