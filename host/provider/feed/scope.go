package feed

import (
	"context"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// reviewAll is the interval at which all rights of an open watch are checked again. It is the
	// longest time for which a virtual kubelet keeps a watch without the feed.
	reviewAll = 10 * time.Minute
	// firstRetry and lastRetry bound the pause before the rights in refused namespaces are checked
	// again. The API server learns about a new binding a moment after it was written.
	firstRetry, lastRetry = 200 * time.Millisecond, time.Minute
	// reviewsAtOnce bounds the concurrent requests for one watch.
	reviewsAtOnce = 10
)

// review reports whether the caller may watch the kind in a namespace.
type review func(ctx context.Context, namespace string) bool

// scope is the set of namespaces that a watch shows.
type scope struct {
	review review
	// allowed and refused have the version of the bindings of each namespace when it was checked.
	allowed, refused map[string]string
	retry            time.Duration
}

func newScope(review review) *scope {
	return &scope{review: review, allowed: map[string]string{}, refused: map[string]string{}, retry: firstRetry}
}

// update applies the bindings and reports whether the set of allowed namespaces changed. It checks
// namespaces that are new, whose bindings changed, or that were refused.
func (s *scope) update(ctx context.Context, bound map[string]string) (changed bool) {
	var unknown []string
	for namespace, version := range bound {
		if s.allowed[namespace] != version {
			unknown = append(unknown, namespace)
		}
	}
	before := s.allowed
	allowed := map[string]string{}
	for namespace, version := range before {
		if bound[namespace] == version {
			allowed[namespace] = version
		}
	}
	hasNews := slices.ContainsFunc(unknown, func(namespace string) bool { return s.refused[namespace] != bound[namespace] })
	refused := map[string]string{}
	for i, isAllowed := range s.reviewEach(ctx, unknown) {
		namespace := unknown[i]
		if isAllowed {
			allowed[namespace] = bound[namespace]
		} else {
			refused[namespace] = bound[namespace]
		}
	}
	s.allowed, s.refused = allowed, refused
	if s.retry = min(2*s.retry, lastRetry); hasNews {
		s.retry = firstRetry
	}
	return !maps.EqualFunc(before, allowed, func(string, string) bool { return true })
}

// reviewEach checks the rights in namespaces and returns the results in their order.
func (s *scope) reviewEach(ctx context.Context, namespaces []string) []bool {
	results := make([]bool, len(namespaces))
	var group errgroup.Group
	group.SetLimit(reviewsAtOnce)
	for i, namespace := range namespaces {
		group.Go(func() error {
			results[i] = s.review(ctx, namespace)
			return nil
		})
	}
	_ = group.Wait() // No function returns an error.
	return results
}

// forget makes the next update check all namespaces again. Their events pass until then.
func (s *scope) forget() {
	for namespace := range s.allowed {
		s.allowed[namespace] = ""
	}
}

// next returns when the refused namespaces are checked again, nil if there are none.
func (s *scope) next() <-chan time.Time {
	if len(s.refused) == 0 {
		return nil
	}
	return time.After(s.retry)
}

// shows reports whether the watch shows the objects of a namespace.
func (s *scope) shows(namespace string) bool {
	_, ok := s.allowed[namespace]
	return ok
}

func (s *scope) namespaces() []string { return slices.Collect(maps.Keys(s.allowed)) }
