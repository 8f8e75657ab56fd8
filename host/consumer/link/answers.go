package link

import (
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Answers knows when a provider last answered a request of this process. It is safe for concurrent use.
type Answers struct {
	now  func() time.Time
	last atomic.Pointer[time.Time]
}

// NewAnswers returns Answers of a provider that has not answered yet.
func NewAnswers(now func() time.Time) *Answers { return &Answers{now: now} }

// Of returns a RoundTripper that sends requests with another one and records their answers.
func (a *Answers) Of(sender http.RoundTripper) http.RoundTripper { return &recorder{sender, a} }

// since reports whether the provider answered after a time.
func (a *Answers) since(begin time.Time) bool {
	last := a.last.Load()
	return last != nil && last.After(begin)
}

type recorder struct {
	http.RoundTripper

	answers *Answers
}

// RoundTrip implements http.RoundTripper.
func (r *recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := r.RoundTripper.RoundTrip(request)
	if err == nil && isAccepted(response.StatusCode) {
		at := r.answers.now()
		r.answers.last.Store(&at)
	}
	return response, err //nolint:wrapcheck // It is that of the transport.
}

// WrappedRoundTripper lets client-go find the transport below.
func (r *recorder) WrappedRoundTripper() http.RoundTripper { return r.RoundTripper }

// isAccepted reports whether the code of an answer shows that the API server works and accepts the user.
func isAccepted(code int) bool {
	return code < http.StatusInternalServerError && code != http.StatusUnauthorized
}

// isSilent reports whether a request got no answer.
func isSilent(err error) bool {
	var status apierrors.APIStatus
	return err != nil && !errors.As(err, &status)
}
