package chain

import (
	"crypto/sha256"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// QuarantineOptions say when a policy that keeps failing is no longer asked.
type QuarantineOptions struct {
	// Failures in a row that quarantine a policy at a point, 5 when zero; never when
	// negative.
	Failures int
	// Owners is the number of namespaces whose objects must be among those failures, 3 when
	// zero: the objects of one user must not stop the policy for all others.
	Owners int
	// Probe is the time after which one question is let through, 10 seconds when zero.
	// Each that fails doubles it.
	Probe time.Duration
	// MaxProbe bounds it, 5 minutes when zero.
	MaxProbe time.Duration
}

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

// Health is how a binding does at a point, in its present version.
type Health struct {
	Binding string
	Point   contract.Point
	Digest  string
	// Shadow tells that nothing comes of its answers.
	Shadow bool
	// Answered tells that it has given a valid answer.
	Answered bool
	// Failures in a row.
	Failures int
	// Last failure of the row: its class and what it says, empty without failures.
	Class engine.Class
	Last  string
	// Since is when it was quarantined, the zero time when it is not.
	Since time.Time
	// FallsBack tells that its previous version answers meanwhile, and Fallback is that
	// version's digest.
	FallsBack bool
	Fallback  string
}

// Quarantined tells whether the policy is not asked at present.
func (h Health) Quarantined() bool { return !h.Since.IsZero() }

// healthKey is a version of a binding at a point.
type healthKey struct {
	name     string
	point    contract.Point
	policy   Policy
	identity [sha256.Size]byte
}

// health counts the failures of a version of a binding. It outlives the snapshots that
// the version is part of.
type health struct {
	options QuarantineOptions
	// troubled is false while there is nothing to look at: the usual case takes no lock.
	troubled atomic.Bool
	answered atomic.Bool

	mu       sync.Mutex
	failures int
	class    engine.Class
	last     string
	since    time.Time
	// owners are the namespaces whose objects the policy failed on in this row.
	owners map[string]*probation
}

// probation says when a policy in quarantine is asked about an object of a namespace again.
// Each namespace has its own, so that the objects of one do not delay the others.
type probation struct {
	next    time.Time
	wait    time.Duration
	probing bool
}

// maxOwners bounds the namespaces with a probation of their own; those beyond share one.
const maxOwners = 1024

// probation returns that of a namespace, and whether it is new.
func (h *health) probation(owner string) (p *probation, isNew bool) {
	if h.owners == nil {
		h.owners = map[string]*probation{}
	}
	if p = h.owners[owner]; p == nil && len(h.owners) >= maxOwners {
		owner = ""
		p = h.owners[owner]
	}
	if p != nil {
		return p, false
	}
	p = &probation{}
	h.owners[owner] = p
	return p, true
}

// QuarantineError says since when and why a policy is not asked.
type QuarantineError struct {
	// Since when.
	Since time.Time
	// Failures in a row that led to it.
	Failures int
	// Class and Last describe the last of them.
	Class engine.Class
	Last  string
}

// Error implements error. It does not change while the quarantine lasts, so that
// events and conditions do not either.
func (e *QuarantineError) Error() string {
	return fmt.Sprintf("it is not asked since %s, because it gave no valid answer %d times in a row (%s: %s)",
		e.Since.UTC().Format(time.RFC3339), e.Failures, string(e.Class), e.Last)
}

// admit says whether the policy may be called for an object of a namespace; probe reports
// that this call decides whether the quarantine ends. An error is a [*QuarantineError].
// The first question of a namespace on whose objects the policy has not failed is always a
// probe.
func (h *health) admit(now func() time.Time, owner string) (probe bool, err error) {
	if !h.troubled.Load() {
		return false, nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.since.IsZero() {
		return false, nil
	}
	p, isNew := h.probation(owner)
	if isNew || !p.probing && !now().Before(p.next) {
		p.probing = true
		return true, nil
	}
	return false, h.quarantine()
}

func (h *health) quarantine() *QuarantineError {
	return &QuarantineError{Since: h.since, Failures: h.options.Failures, Class: h.class, Last: h.last}
}

// succeed notes a valid answer, of a call or remembered. It tells whether that ended a
// quarantine; what is remembered does not.
func (h *health) succeed(called bool) bool {
	if !h.answered.Load() {
		h.answered.Store(true)
	}
	if !h.troubled.Load() {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	quarantined := !h.since.IsZero()
	if quarantined && !called {
		return false
	}
	h.failures, h.class, h.last, h.since, h.owners = 0, "", "", time.Time{}, nil
	h.troubled.Store(false)
	return quarantined
}

// fail records a failure that speaks against the policy, on an object of a namespace, and
// reports whether it began a quarantine.
func (h *health) fail(now time.Time, f failed) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	p, _ := h.probation(f.owner)
	if !h.since.IsZero() {
		if f.probe {
			p.probing = false
			p.wait = min(max(2*p.wait, h.options.Probe), h.options.MaxProbe)
			p.next = now.Add(p.wait)
		}
		return false
	}
	h.failures++
	h.class, h.last = f.class, bounded(f.err.Error())
	h.troubled.Store(true)
	// Without a clock there would be no way out.
	if h.options.Failures < 0 || h.failures < h.options.Failures || len(h.owners) < h.options.Owners || now.IsZero() {
		return false
	}
	h.since = now
	for _, p := range h.owners {
		p.wait, p.next = h.options.Probe, now.Add(h.options.Probe)
	}
	return true
}

// failed is a failure of a policy: whose object it was asked about, and whether in
// quarantine.
type failed struct {
	owner string
	probe bool
	class engine.Class
	err   error
}

// undecided ends a probe that says nothing about the policy; the next call is one.
func (h *health) undecided(owner string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p, _ := h.probation(owner)
	p.probing = false
}

func (h *health) report(l *link) Health {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := Health{
		Binding: l.Name, Point: l.Point, Digest: l.Policy.Digest(), Answered: h.answered.Load(),
		Shadow: l.Mode == Shadow, Failures: h.failures, Class: h.class, Last: h.last, Since: h.since,
	}
	if l.fallback != nil {
		out.FallsBack, out.Fallback = true, l.fallback.Policy.Digest()
	}
	return out
}

// maxLastBytes bounds what is kept of an error.
const maxLastBytes = 768

func bounded(text string) string { return engine.PlainWithin(text, maxLastBytes) }

// Health tells how the bound policies do, in the order of the points' names and of the
// chains.
func (c *Chains) Health() []Health {
	s := c.current.Load()
	if s == nil {
		return nil
	}
	var out []Health
	for _, point := range sortedPoints(s.chains) {
		for _, l := range s.chains[point] {
			out = append(out, l.health.report(l))
			if l.shadowed != nil {
				out = append(out, l.shadowed.health.report(l.shadowed))
			}
		}
	}
	return out
}
