package chain

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/longshore-dev/longshore/host/kit/plaintext"
	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// QuarantineOptions configure when a policy that keeps failing is no longer called.
type QuarantineOptions struct {
	// Failures in a row that quarantine a policy at a point: 5 if zero, never if negative.
	Failures int
	// Owners is the number of namespaces with objects among those failures, 3 if zero. The
	// objects of one user must not stop a policy for all users.
	Owners int
	// Probe is the time after which one call is allowed, 10 seconds if zero. Each failed
	// probe doubles it.
	Probe time.Duration
	// MaxProbe bounds Probe, 5 minutes if zero.
	MaxProbe time.Duration
}

// neverQuarantine is a value of [QuarantineOptions].Failures.
const neverQuarantine = -1

func (o QuarantineOptions) withDefaults() QuarantineOptions {
	if o.Failures == 0 {
		o.Failures = 5
	}
	if o.Owners == 0 {
		o.Owners = 3
	}
	if o.Probe == 0 {
		o.Probe = 10 * time.Second
	}
	if o.MaxProbe == 0 {
		o.MaxProbe = 5 * time.Minute
	}
	return o
}

// Health is the health of a binding at a point, in its current version.
type Health struct {
	Binding string
	Point   contract.Point
	Digest  string
	// Shadow reports that the answers are not applied.
	Shadow bool
	// Answered reports that the policy has given a valid answer.
	Answered bool
	// Failures in a row.
	Failures int
	// Class and Last are the class and the message of the last failure in the row; empty
	// without failures.
	Class engine.Class
	Last  string
	// Remedy says which role must act on the last failure.
	Remedy string
	// Since is when the policy was quarantined, zero if it is not.
	Since time.Time
	// FallsBack reports that the previous version, with digest Fallback, answers while the
	// policy fails.
	FallsBack bool
	Fallback  string
}

// Quarantined reports whether the policy is currently not called.
func (h Health) Quarantined() bool { return !h.Since.IsZero() }

// healthKey is a version of a binding at a point.
type healthKey struct {
	name     string
	point    contract.Point
	policy   Policy
	identity [sha256.Size]byte
}

// health counts the failures of a version of a binding. It outlives the snapshots that
// contain the version.
type health struct {
	options QuarantineOptions
	// hasFailures is false without failures: the common case takes no lock.
	hasFailures atomic.Bool
	answered    atomic.Bool

	mu       sync.Mutex
	failures int
	class    engine.Class
	last     string
	since    time.Time
	// probes holds the namespaces of the objects in this row of failures.
	probes map[string]*probe
}

// probe is the schedule by which a quarantined policy is called for objects of one
// namespace. Each namespace has its own, so that one does not delay the others.
type probe struct {
	next      time.Time
	wait      time.Duration
	isRunning bool
}

// maxProbes bounds the namespaces with their own probe. All others share one.
const maxProbes = 1024

// probeOf returns the probe of a namespace, and whether it is new.
func (h *health) probeOf(namespace string) (p *probe, isNew bool) {
	if h.probes == nil {
		h.probes = map[string]*probe{}
	}
	if p = h.probes[namespace]; p == nil && len(h.probes) >= maxProbes {
		namespace = ""
		p = h.probes[namespace]
	}
	if p != nil {
		return p, false
	}
	p = &probe{}
	h.probes[namespace] = p
	return p, true
}

// QuarantineError reports since when and why a policy is not called.
type QuarantineError struct {
	// Since is the beginning of the quarantine.
	Since time.Time
	// Failures in a row that led to it.
	Failures int
	// Class and Last are the class and the message of the last of them.
	Class engine.Class
	Last  string
}

// Error implements error. It does not change while the quarantine lasts, so that events and
// conditions do not change either.
func (e *QuarantineError) Error() string {
	return fmt.Sprintf("not called since %s, after %d failures in a row (%s: %s)",
		e.Since.UTC().Format(time.RFC3339), e.Failures, string(e.Class), e.Last)
}

// admit returns nil if the policy may be called for an object of a namespace, else a
// [*QuarantineError]. isProbe reports that the call decides whether the quarantine ends. A
// namespace without failures so far gets a probe at once.
func (h *health) admit(now func() time.Time, namespace string) (isProbe bool, err error) {
	if !h.hasFailures.Load() {
		return false, nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.since.IsZero() {
		return false, nil
	}
	p, isNew := h.probeOf(namespace)
	if isNew || !p.isRunning && !now().Before(p.next) {
		p.isRunning = true
		return true, nil
	}
	return false, &QuarantineError{Since: h.since, Failures: h.options.Failures, Class: h.class, Last: h.last}
}

// recordSuccess records a valid answer and reports whether it ended a quarantine. A cached
// answer ends neither a quarantine nor a row of failures: the policy was not called.
func (h *health) recordSuccess(cached bool) bool {
	if !h.answered.Load() {
		h.answered.Store(true)
	}
	if cached || !h.hasFailures.Load() {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	quarantined := !h.since.IsZero()
	h.failures, h.class, h.last, h.since, h.probes = 0, "", "", time.Time{}, nil
	h.hasFailures.Store(false)
	return quarantined
}

// failedCall is a call that failed because of the policy.
type failedCall struct {
	// namespace of the object.
	namespace string
	// probe reports that the policy is quarantined and the call was a probe.
	probe bool
	class engine.Class
	err   error
}

// recordFailure records a failure of the policy and reports whether it began a quarantine.
func (h *health) recordFailure(now time.Time, f failedCall) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	p, _ := h.probeOf(f.namespace)
	if !h.since.IsZero() {
		if f.probe {
			p.isRunning = false
			p.wait = min(max(2*p.wait, h.options.Probe), h.options.MaxProbe)
			p.next = now.Add(p.wait)
		}
		return false
	}
	h.failures++
	h.class, h.last = f.class, truncate(f.err.Error())
	h.hasFailures.Store(true)
	// Without a clock a quarantine would never end.
	if h.options.Failures < 0 || h.failures < h.options.Failures || len(h.probes) < h.options.Owners || now.IsZero() {
		return false
	}
	h.since = now
	for _, p := range h.probes {
		p.wait, p.next = h.options.Probe, now.Add(h.options.Probe)
	}
	return true
}

// cancelProbe ends a probe that failed for another reason than the policy. The next call is
// a probe again.
func (h *health) cancelProbe(namespace string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p, _ := h.probeOf(namespace)
	p.isRunning = false
}

func (h *health) report(l *link) Health {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := Health{
		Binding: l.Name, Point: l.Point, Digest: l.Policy.Digest(), Answered: h.answered.Load(),
		Shadow: l.Mode == Shadow, Failures: h.failures, Class: h.class, Last: h.last, Since: h.since,
	}
	if h.failures > 0 {
		out.Remedy = remedy(l.Name, h.class, h.last, l.checksSettings())
	}
	if l.fallback != nil {
		out.FallsBack, out.Fallback = true, l.fallback.Policy.Digest()
	}
	return out
}

// maxLastBytes bounds the message of an error that is kept.
const maxLastBytes = 768

func truncate(text string) string { return plaintext.Within(text, maxLastBytes) }

// Health returns the health of all bindings, by the names of their points and in the order
// of the chains.
func (c *Chains) Health() []Health {
	s := c.current.Load()
	if s == nil {
		return nil
	}
	var out []Health
	for _, point := range slices.Sorted(maps.Keys(s.chains)) {
		for _, l := range s.chains[point] {
			out = append(out, l.health.report(l))
			if l.shadow != nil {
				out = append(out, l.shadow.health.report(l.shadow))
			}
		}
	}
	return out
}
