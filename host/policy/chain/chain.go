// Package chain calls policies. Pod flow, stage 4: it calls the policies that are bound to
// an extension point in order, each with the result of the previous one, and applies their
// answers.
//
// A policy sees only the facts that its manifest declares to read. Its operations are
// accepted only where its manifest declares to write, within the bounds of the extension
// point and of the binding. Answers are cached, because policies are pure. Each change is
// recorded as a decision, without values.
//
// The package does not depend on Kubernetes: objects and facts are documents (package
// document), a [Matcher] decides which objects a binding matches, and an [Observer] exports
// metrics. It does not load modules and does not check the host's invariants.
//
// A set of bindings is a snapshot, with a link for each binding. One link and one object have
// an outcome: the link reads its part of the facts, the memo or the policy has the answer, and
// the answer is applied to the object. [Chains.Evaluate] adds the outcomes up.
package chain

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/host/policy/operation"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// Policy answers the extension points that its manifest declares. A loaded wasm
// module is one, and so is a plain Go function (package policytest). Implementations
// are safe for concurrent use, comparable (pointers), and pure: the same request
// gives the same answer.
type Policy interface {
	// Name of the module.
	Name() string
	// Digest identifies the code ("sha256:…"). Policies with equal digests give equal
	// answers.
	Digest() string
	// Manifest declares points, reads and writes. It does not change.
	Manifest() *contract.Manifest
	// Call calls the export with an encoded contract.Request. The caller owns the answer.
	Call(ctx context.Context, export string, request []byte) ([]byte, engine.Stats, error)
}

// FailurePolicy is what happens when a policy gives no valid answer.
type FailurePolicy string

// The failure policies. The zero value is Fail.
const (
	// Fail refuses the object with a [*PolicyError].
	Fail FailurePolicy = "Fail"
	// Ignore skips the policy and records that in a warning and a decision.
	Ignore FailurePolicy = "Ignore"
	// LastGood calls the binding's Fallback and records that in a warning and a decision.
	// Without a Fallback, or if the policy did not cause the failure, it is like Fail.
	LastGood FailurePolicy = "LastGood"
)

// Mode is what happens with the answers of a policy.
type Mode string

// The modes. The zero value is Enforce.
const (
	// Enforce applies the answers.
	Enforce Mode = "Enforce"
	// Shadow calls the policy and reports to the observer what would differ, but applies
	// nothing. A Shadow binding needs no order, has no conflicts, and its failures have no
	// effect.
	Shadow Mode = "Shadow"
	// Disabled does not call the policy.
	Disabled Mode = "Disabled"
)

// Allow narrows the reads and writes of the manifest. An empty list narrows nothing.
type Allow struct {
	Reads  []string
	Writes []contract.WriteRule
}

// Limits lower the contract's bounds. Zero means the contract's bound.
type Limits struct {
	// RequestBytes bounds the encoded request.
	RequestBytes int
	// ResponseBytes bounds the encoded answer.
	ResponseBytes int
	// Operations bounds the operations of an answer.
	Operations int
}

// MaxBuiltInBytes bounds a request to a built-in policy, and its answer. An object of 1.5 MiB,
// which is what etcd stores, has up to 7 MiB as JSON.
const MaxBuiltInBytes = 8 << 20

// Binding binds a policy to an extension point: where, in which order, and for which
// objects it is called.
type Binding struct {
	// Name of the binding: that of its OffloadingPolicy. It is unique at a point, except
	// that a Shadow binding may have the name of an enforced one. It is then called with
	// the same object, and its result is compared with that of the enforced binding.
	Name string
	// Policy to call; may be nil if the mode is Disabled.
	Policy Policy
	// Point at which it is called.
	Point contract.Point
	// Moments narrows the manifest's; empty narrows nothing.
	Moments []contract.Moment
	// Order among the bindings of the point, lowest first. Bindings without an order come
	// last, by name. Bindings with writes that do not commute need different orders.
	Order *int
	// FailurePolicy, Fail when empty.
	FailurePolicy FailurePolicy
	// Mode, Enforce when empty.
	Mode Mode
	// Settings travel in each request; a JSON object, or nothing.
	Settings json.RawMessage
	// Allow narrows reads and writes.
	Allow Allow
	// Limits lower the contract's bounds.
	Limits Limits
	// Match selects the objects; nil selects all.
	Match Matcher
	// Fallback is the version to call if this one fails and the failure policy is LastGood;
	// may be nil. Only its Policy, Moments, Settings, Allow and Limits are used.
	Fallback *Binding
	// BuiltIn marks a policy of the host. It is never quarantined, and its requests and
	// answers are bounded by [MaxBuiltInBytes] instead of the contract's bounds, because it
	// must handle the largest object that an API server stores.
	BuiltIn bool
	// Unavailable is set if the policy was enforced before and cannot be called now. Every
	// evaluation that matches the binding then fails with this cause and class
	// [Unavailable], and the failure policy applies; LastGood is like Fail. Policy is not
	// called, but its name, digest and manifest are used. Not for mode Shadow.
	Unavailable error
}

// Attributes of the local object, for matching.
type Attributes struct {
	// Namespace of the local object.
	Namespace string
	// NamespaceLabels, nil if the caller does not know them.
	NamespaceLabels map[string]string
	// Labels of the local object.
	Labels map[string]string
	// VirtualNode is the name of the virtual node, "" before the pod is scheduled.
	VirtualNode string
	// Object is [Input].Object, before all policies. [Chains.Evaluate] sets it.
	Object map[string]any
}

// Matcher reports whether a binding matches an object. It is safe for concurrent use. An
// error fails the evaluation with class [Host].
type Matcher interface {
	Matches(ctx context.Context, attributes Attributes) (bool, error)
}

// Input is one evaluation of a chain.
type Input struct {
	// Point and Moment of the evaluation.
	Point  contract.Point
	Moment contract.Moment
	// Object is the object as a document. It is not altered.
	Object map[string]any
	// Facts are the other members of the facts object ("local", "patch" …), a document, too.
	// Only declared reads are encoded.
	Facts map[string]any
	// Writes narrows the bound of the point for the kind of this object; nil narrows
	// nothing. An operation beyond it is a failure of the policy.
	Writes operation.Rules
	// Check validates the object after each policy that changed it; may be nil. An error is
	// a failure of that policy.
	Check ObjectCheck
	// Match are the attributes with which bindings are matched.
	Match Attributes
}

// ObjectCheck compares an object before and after one policy changed it, and returns an
// error if the host cannot use the result.
type ObjectCheck func(before, after map[string]any) error

// Result is the result of a chain.
type Result struct {
	// Object after all policies. It shares unchanged values with the input and written
	// values with cached answers: treat it as read-only.
	Object map[string]any
	// Changed reports whether Object differs from the input's.
	Changed bool
	// Decisions of the policies that were called, in order.
	Decisions []Decision
	// Denial is set if a policy refused or skipped the object. Later policies were not
	// called.
	Denial *Denied
	// Warnings for the user who made the request.
	Warnings []string
}

// Options of [New].
type Options struct {
	// MemoEntries bounds the number of cached answers: 8192 if zero, no cache if negative.
	MemoEntries int
	// MemoBytes bounds the size of cached answers, 32 MiB if zero.
	MemoBytes int64
	// Observer receives every call of a policy and every cached answer; may be nil.
	Observer Observer
	// Clock measures calls for the Observer and times quarantines. With nil, durations are
	// zero and no policy is quarantined.
	Clock func() time.Time
	// Quarantine configures when a policy that keeps failing is no longer called.
	Quarantine QuarantineOptions
	// HealthChanged is called when a quarantine begins or ends; may be nil. It must not
	// block.
	HealthChanged func()
	// ReservedKey reports the label and annotation keys that no policy may set, change or
	// remove; nil reserves none.
	ReservedKey func(key string) bool
	// GuardedKey reports the label and annotation keys on which runtimes, networks and
	// clouds act. A policy may set one only if its binding names the key in Allow.Writes.
	// Nil guards none.
	GuardedKey func(key string) bool
	// Retired is called once for each policy that no binding uses any more, after its last
	// call has returned; may be nil. The policy may then be closed.
	Retired func(Policy)
}

// ErrNotLoaded is returned by [Chains.Evaluate] before the first [Chains.Swap]. No object
// is decided before the policies are known.
var ErrNotLoaded = errors.New("policies are not loaded yet")

// Chains holds the bindings of all points. It is safe for concurrent use.
type Chains struct {
	options Options
	memo    *memo
	current atomic.Pointer[snapshot]

	mu     sync.Mutex
	uses   map[Policy]int
	health map[healthKey]*health
}

// New returns chains that answer [ErrNotLoaded] until the first [Chains.Swap].
func New(options Options) *Chains {
	if options.MemoEntries == 0 {
		options.MemoEntries = 8192
	}
	if options.MemoBytes == 0 {
		options.MemoBytes = 32 << 20
	}
	options.Quarantine = options.Quarantine.withDefaults()
	return &Chains{
		options: options,
		memo:    newMemo(options.MemoEntries, options.MemoBytes),
		uses:    map[Policy]int{},
	}
}

// Swap replaces all bindings at once: an evaluation sees either the old ones or the new
// ones. On error nothing changes; the error is a [*BindingError] or a [*ConflictError].
func (c *Chains) Swap(bindings []Binding) error {
	next, err := newSnapshot(bindings)
	if err != nil {
		return err
	}
	c.mu.Lock()
	for policy := range next.policies {
		c.uses[policy]++
	}
	c.health = next.assignHealth(c.health, c.options.Quarantine)
	previous := c.current.Swap(next)
	c.mu.Unlock()
	if previous != nil {
		previous.replaced.Store(true)
		c.retireIfIdle(previous)
	}
	return nil
}

// HasBindings reports whether any policy is bound to the point, in any mode but Disabled. It
// is true before the first [Chains.Swap].
func (c *Chains) HasBindings(point contract.Point) bool {
	current := c.current.Load()
	return current == nil || len(current.chains[point]) > 0
}

// acquire returns the current snapshot and keeps its policies open until release.
func (c *Chains) acquire() (*snapshot, error) {
	for {
		current := c.current.Load()
		if current == nil {
			return nil, ErrNotLoaded
		}
		current.evaluations.Add(1)
		if c.current.Load() == current {
			return current, nil
		}
		c.release(current)
	}
}

func (c *Chains) release(s *snapshot) {
	s.evaluations.Add(-1)
	c.retireIfIdle(s)
}

func (c *Chains) retireIfIdle(s *snapshot) {
	if !s.replaced.Load() || s.evaluations.Load() != 0 || !s.retired.CompareAndSwap(false, true) {
		return
	}
	var unused []Policy
	c.mu.Lock()
	for policy := range s.policies {
		if c.uses[policy]--; c.uses[policy] == 0 {
			delete(c.uses, policy)
			unused = append(unused, policy)
		}
	}
	c.mu.Unlock()
	if c.options.Retired == nil {
		return
	}
	for _, policy := range unused {
		c.options.Retired(policy)
	}
}
