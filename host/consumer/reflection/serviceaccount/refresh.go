package serviceaccount

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/forge/remote"
	"github.com/longshore-dev/longshore/host/kit/retry"
)

// ReasonServiceAccountNotFound is the reason of an event on a pod whose service account does not exist.
const ReasonServiceAccountNotFound = "ServiceAccountNotFound"

const (
	// refreshPart is the part of its lifetime that is left when a token is requested again.
	refreshPart = 5
	// maxJitter spreads the requests for pods that were created at the same time.
	maxJitter = 30 * time.Second
	// minRenewal is the least time between two requests for the tokens of a pod, whatever lifetime
	// was granted and whatever the clocks of the two API servers are.
	minRenewal = 10 * time.Second
	// clockSkew is tolerated between this clock and that of the API server.
	clockSkew = 5 * time.Minute
)

// access is what one pod gets.
type access struct {
	pod     *corev1.Pod
	account string
	tokens  []remote.PodToken
}

// sent is the memory of the tokens that were sent for a pod.
type sent struct {
	last engine.LastWrite
	// due is when they are requested again.
	due time.Time
}

// refresh requests the tokens of a pod, unless those in its remote Secret, if there is one, are valid
// for longer. Another writer that changes or deletes the Secret is slowed down, not fought.
func (d *Definition) refresh(in engine.Input, a *access, secret *corev1.Secret) []engine.Action {
	now := in.Facts.Now
	before, _ := in.Memory.(sent)
	if !now.Before(before.due) {
		before.last = engine.LastWrite{} // A renewal is no contest.
	}
	if secret != nil {
		due := a.refreshAt(secret, now)
		if !before.due.IsZero() && before.due.Before(due) {
			due = before.due
		}
		if left := due.Sub(now); left > 0 {
			return []engine.Action{engine.Requeue{After: left, Reason: "the tokens are valid"}}
		}
	}
	var actions []engine.Action
	pause, isDue := before.last.Pause(a.identity(), now)
	if isDue {
		actions = append(actions, engine.Contested(in.Facts, "the Secret with the tokens of the pod"))
	}
	if pause > 0 {
		return append(actions, engine.Requeue{After: pause, Reason: "another writer changes the Secret"})
	}
	return append(actions, engine.Query{Run: func(ctx context.Context) ([]engine.Action, error) {
		return d.request(ctx, in.Facts, a, before.last)
	}})
}

// request requests all tokens of a pod and sends them.
func (d *Definition) request(ctx context.Context, facts engine.Facts, a *access, last engine.LastWrite) ([]engine.Action, error) {
	data := map[string][]byte{}
	var earliest time.Time
	for _, token := range a.tokens {
		response, err := d.options.CreateToken(ctx, a.pod.Namespace, a.account, forgeRequest(a.pod, token))
		if isMissing(err) {
			return a.reportMissing(facts), nil
		}
		if err != nil {
			return nil, fmt.Errorf("requesting a token of service account %q for the remote pod: %w", a.account, err)
		}
		data[token.Key] = []byte(response.Status.Token)
		if expiration := response.Status.ExpirationTimestamp.Time; earliest.IsZero() || expiration.Before(earliest) {
			earliest = expiration
		}
	}
	left := max(a.refreshTime(facts.Now, earliest).Sub(facts.Now), minRenewal)
	return []engine.Action{
		engine.Apply{Config: remote.TokenSecret(a.pod, facts.RemoteNamespace, data, facts.Now, earliest, d.options.Origin), SkipPolicies: true},
		engine.Requeue{After: left, Reason: "the tokens expire"},
		engine.Remember{Value: sent{last: last.Wrote(a.identity(), facts.Now), due: facts.Now.Add(left)}},
	}, nil
}

// isMissing reports whether the service account does not exist, and not the pod.
func isMissing(err error) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok || !apierrors.IsNotFound(err) {
		return false
	}
	details := status.ErrStatus.Details
	return details != nil && details.Kind == "serviceaccounts"
}

// reportMissing says that the service account does not exist. The pod waits for it.
func (a *access) reportMissing(facts engine.Facts) []engine.Action {
	return []engine.Action{
		engine.RecordEvent{
			Type: engine.EventWarning, Reason: ReasonServiceAccountNotFound,
			Message: "Service account " + a.account + " does not exist, and the pod needs its token in cluster " + facts.ProviderClusterID + ". Create the service account.",
		},
		engine.Requeue{After: retry.Max, Reason: "the service account does not exist"},
		engine.Hold{Reason: "the service account does not exist"},
	}
}

// identity says which tokens the pod gets. It does not depend on when they were issued.
func (a *access) identity() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s %s", a.pod.UID, a.account)
	for _, token := range a.tokens {
		fmt.Fprintf(&text, " %s=%d,%q", token.Key, token.Seconds, token.Audience)
	}
	return text.String()
}

// refreshAt returns when the tokens of a Secret are requested again: the zero time if it lacks
// one, or does not say when they expire.
func (a *access) refreshAt(secret *corev1.Secret, now time.Time) time.Time {
	for _, token := range a.tokens {
		if _, found := secret.Data[token.Key]; !found {
			return time.Time{}
		}
	}
	expiration, err := time.Parse(time.RFC3339, secret.Annotations[remote.TokenExpirationKey])
	if err != nil || expiration.After(now.Add(a.requested()+clockSkew)) {
		return time.Time{}
	}
	// The Secret of an earlier version does not have the time.
	issued, err := time.Parse(time.RFC3339, secret.Annotations[remote.TokenIssuedKey])
	if err != nil {
		issued = time.Time{}
	}
	return a.refreshTime(issued, expiration)
}

// refreshTime returns when tokens, the first of which expires at expiration, are requested again:
// when a part is left of the lifetime that was granted. The jitter depends on the pod.
func (a *access) refreshTime(issued, expiration time.Time) time.Time {
	lifetime := max(min(a.requested(), expiration.Sub(issued)), 0)
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(a.pod.UID))
	jitter := min(time.Duration(hash.Sum32())%maxJitter, lifetime/(2*refreshPart))
	return expiration.Add(jitter - lifetime/refreshPart)
}

// requested returns the shortest lifetime that is requested.
func (a *access) requested() time.Duration {
	shortest := a.tokens[0].Seconds
	for _, token := range a.tokens {
		shortest = min(shortest, token.Seconds)
	}
	return time.Duration(shortest) * time.Second
}
