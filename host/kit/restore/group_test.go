package restore_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/longshore-dev/longshore/host/kit/restore"
)

// A server answers each question when the test allows it.
type server struct {
	group   restore.Group
	allow   chan error
	asked   atomic.Int64
	answers chan string
}

func newServer() *server {
	return &server{allow: make(chan error), answers: make(chan string, 100)}
}

func (s *server) list(ctx context.Context) (string, error) {
	version := fmt.Sprint(s.asked.Add(1))
	select {
	case err := <-s.allow:
		return version, err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func (s *server) ask(ctx context.Context, callers int) {
	for range callers {
		go func() {
			version, err := s.group.Ask(ctx, s.list)
			if err != nil {
				version = err.Error()
			}
			s.answers <- version
		}()
	}
	synctest.Wait()
}

func (s *server) answer(err error) {
	s.allow <- err
	synctest.Wait()
}

func (s *server) got() map[string]int {
	got := map[string]int{}
	for range len(s.answers) {
		got[<-s.answers]++
	}
	return got
}

func TestCallersShareTheNextQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.ask(t.Context(), 1)
		s.ask(t.Context(), 50)
		assert.EqualValues(t, 1, s.asked.Load(), "one question at a time")
		s.answer(nil)
		assert.Equal(t, map[string]int{"1": 1}, s.got(), "the first question may be older than the end of the other watches")
		s.ask(t.Context(), 1)
		s.answer(nil)
		assert.Equal(t, map[string]int{"2": 50}, s.got())
		s.answer(nil)
		assert.Equal(t, map[string]int{"3": 1}, s.got())
		s.ask(t.Context(), 1)
		s.answer(nil)
		assert.Equal(t, map[string]int{"4": 1}, s.got())
	})
}

func TestErrorsOfTheServerAreShared(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want int64 // questions of the 50 callers that share one
	}{
		"it cannot be reached": {errUnavailable, 1},
		"it is busy":           {apierrors.NewTooManyRequests("busy", 1), 1},
		"the credentials of the first are not valid": {apierrors.NewUnauthorized("expired"), 50},
		"the first caller may not read":              {apierrors.NewForbidden(corev1.Resource("configmaps"), "", errors.New("no role")), 50},
		"the first caller has no namespace":          {apierrors.NewNotFound(corev1.Resource("configmaps"), ""), 50},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				s.ask(t.Context(), 1)
				s.ask(t.Context(), 50)
				s.answer(nil)
				s.answer(tc.err)
				require.Equal(t, 1+tc.want, s.asked.Load())
				for range tc.want - 1 {
					s.answer(nil)
				}
				got := s.got()
				if tc.want == 1 {
					assert.Equal(t, map[string]int{"1": 1, tc.err.Error(): 50}, got)
				} else {
					assert.Equal(t, 1, got[tc.err.Error()])
					assert.Len(t, got, 51, "each has an answer of its own")
				}
			})
		})
	}
}

func TestACallerThatEndsDoesNotHoldUpOthers(t *testing.T) {
	for name, tc := range map[string]struct {
		// answers are those of the server before the caller ends that is to ask the next question.
		answers int
	}{
		"before its question": {0},
		"during its question": {1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				s.ask(t.Context(), 1)
				ending, end := context.WithCancel(t.Context())
				s.ask(ending, 2)
				s.ask(t.Context(), 1)
				for range tc.answers {
					s.answer(nil)
				}
				end()
				synctest.Wait()
				for range 2 - tc.answers {
					s.answer(nil)
				}
				got := s.got()
				assert.Equal(t, 2, got[context.Canceled.Error()])
				assert.Len(t, got, 3, "%v", got)
				s.ask(t.Context(), 1)
				s.answer(nil)
				assert.Len(t, s.got(), 1)
			})
		})
	}
}
