// Package chain decides. Pod flow, stage 4: it asks the policies that are bound to an
// extension point, one after the other, each about the result of the one before, and
// applies what they answer.
//
// A policy is given only the facts that it declared to read, and only operations
// that it declared to write are accepted, within the bounds of the point and of its
// binding. Answers are remembered, since policies are pure. What an answer changed is
// recorded as a decision, without values.
//
// The package knows nothing of Kubernetes: documents are JSON-like values, which
// objects a binding concerns is for its [Matcher] to say, and metrics leave through
// an [Observer]. It does not load modules, and it does not check the host's own
// invariants.
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
	// Digest identifies the code, "sha256:…": equal digests, equal answers.
	Digest() string
	// Manifest declares points, reads and writes. It does not change.
	Manifest() *contract.Manifest
	// Call asks the export with an encoded contract.Request. The answer is the caller's.
	Call(ctx context.Context, export string, request []byte) ([]byte, engine.Stats, error)
}

// FailurePolicy says what happens when a policy gives no valid answer.
type FailurePolicy string

// The failure policies. The zero value is Fail.
const (
	// Fail refuses the object with a [*PolicyError].
	Fail FailurePolicy = "Fail"
	// Ignore goes on without the policy, and says so in a warning and a decision.
	Ignore FailurePolicy = "Ignore"
	// LastGood asks the binding's Fallback, and says so in a warning and a decision;
	// without one it is Fail. A failure that is not the policy's is Fail, too.
	LastGood FailurePolicy = "LastGood"
)

// Mode says what is done with the answers of a policy.
type Mode string

// The modes. The zero value is Enforce.
const (
	// Enforce applies them.
	Enforce Mode = "Enforce"
	// Shadow asks, tells the observer what would differ, and applies nothing. It needs
	// no order, conflicts with nobody, and its failures disturb nothing.
	Shadow Mode = "Shadow"
	// Disabled does not ask.
	Disabled Mode = "Disabled"
)

// Allow narrows what the manifest declares. An empty list narrows nothing.
type Allow struct {
	Reads  []string
	Writes []contract.WriteRule
}

// Limits lower the contract's bounds; zero means the contract's.
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

// Binding says: at this point, in this order, for these objects, this policy.
type Binding struct {
	// Name of the binding, that of its OffloadingPolicy. Unique at a point, but for one
	// Shadow binding that stands in for the enforced one of its name: it is asked about
	// the same object, and compared with what that one makes of it.
	Name string
	// Policy that answers; may be nil when the mode is Disabled.
	Policy Policy
	// Point at which it is asked.
	Point contract.Point
	// Moments narrows the manifest's; empty narrows nothing.
	Moments []contract.Moment
	// Order among the bindings of the point, lowest first; those without come last,
	// by name. Bindings whose writes do not commute need different ones.
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
	// Match says which objects the policy is asked about; nil means all.
	Match Matcher
	// Fallback is the version that is asked when this one fails and the failure policy is
	// LastGood; nil when there is none. Of it, Policy, Moments, Settings, Allow and Limits
	// count.
	Fallback *Binding
	// BuiltIn marks a policy that the host carries. It is never quarantined, and requests and
	// answers are bounded by [MaxBuiltInBytes] instead of the contract's bounds: its author
	// answers for it on the largest object that an API server stores.
	BuiltIn bool
	// Unavailable says why the policy cannot be asked at present, although it counts: each
	// question that concerns it fails with this cause and class [Unavailable], and the
	// failure policy says what comes of that; LastGood is Fail then. Policy is not called:
	// it says who would have answered, and at which moments. Nil when it can be asked. Of no
	// use in mode Shadow.
	Unavailable error
}

// Attributes of the object in question, for matching. They are the local object's.
type Attributes struct {
	// Namespace of the local object.
	Namespace string
	// NamespaceLabels, nil when the caller does not know them.
	NamespaceLabels map[string]string
	// Labels of the local object.
	Labels map[string]string
	// VirtualNode is the name of the virtual node, "" while none is chosen.
	VirtualNode string
	// Object is [Input].Object, before all policies. The chains set it.
	Object map[string]any
}

// Matcher says whether a binding concerns an object. It is safe for concurrent use.
// An error counts as a failure of the policy.
type Matcher interface {
	Matches(ctx context.Context, attributes Attributes) (bool, error)
}

// Input is one question to a chain.
type Input struct {
	// Point and Moment of the question.
	Point  contract.Point
	Moment contract.Moment
	// Object is the JSON form of the object being decided: objects are
	// map[string]any, other values may also be Go values that marshal to JSON, so a
	// caller need not convert what no policy touches. It is not altered.
	Object map[string]any
	// Facts are the other members of the facts object: "local", "patch" … Any Go value
	// that marshals to JSON will do; only what is read is looked at.
	Facts map[string]any
	// Writes narrows the bound of the point for this very object, whose kind may have
	// less; nil narrows nothing. An operation beyond it is a failure of the policy.
	Writes operation.Rules
	// Check tells what is wrong with the object as one policy left it; nil finds nothing. An
	// error is a failure of that policy.
	Check ObjectCheck
	// Match are the attributes that bindings are matched with.
	Match Attributes
}

// ObjectCheck compares an object before and after one policy that changed it, and returns an error
// if the host cannot use what the policy made of it.
type ObjectCheck func(before, after map[string]any) error

// Result is the answer of a chain.
type Result struct {
	// Object after all policies. It shares with the input what did not change, and
	// values with remembered answers: treat it as read-only.
	Object map[string]any
	// Changed tells whether Object differs from the input's.
	Changed bool
	// Decisions of the policies that were asked, in order.
	Decisions []Decision
	// Denial is set when a policy refused the object or had it skipped; those after it were
	// not asked.
	Denial *Denied
	// Warnings for the person who made the request.
	Warnings []string
}

// Options of [New].
type Options struct {
	// MemoEntries bounds the number of remembered answers, 8192 when zero, none when
	// negative.
	MemoEntries int
	// MemoBytes bounds their size, 32 MiB when zero.
	MemoBytes int64
	// Observer is told of every question to a policy; may be nil.
	Observer Observer
	// Clock measures calls for the Observer and times quarantines; nil measures none, and
	// nothing is quarantined.
	Clock func() time.Time
	// Quarantine says when a policy that keeps failing is no longer asked.
	Quarantine QuarantineOptions
	// HealthChanged is called when a quarantine begins or ends; may be nil. It must not
	// block.
	HealthChanged func()
	// ReservedKey tells which label and annotation keys no policy may set, change or
	// drop (T40); nil reserves none.
	ReservedKey func(key string) bool
	// GuardedKey reports the label and annotation keys on which runtimes, networks and clouds
	// act. A policy may set one only if its binding names the key in Allow.Writes. Nil guards
	// none.
	GuardedKey func(key string) bool
	// Retired is told, once, of each policy that no binding names any more, after its
	// last call has returned; may be nil. The policy may be closed then.
	Retired func(Policy)
}

// ErrNotLoaded is returned by Evaluate before the first Swap: nothing may be decided
// before the operator's policies are known.
var ErrNotLoaded = errors.New("the policies are not loaded yet")

// Chains are the bindings of all points. They are safe for concurrent use.
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

// Swap replaces all bindings at once: an evaluation sees either the old ones or the
// new ones. On error nothing changes; the error is a [*BindingError] or a
// [*ConflictError] and names the binding to blame.
func (c *Chains) Swap(bindings []Binding) error {
	next, err := newSnapshot(bindings)
	if err != nil {
		return err
	}
	c.mu.Lock()
	for policy := range next.policies {
		c.uses[policy]++
	}
	c.health = next.adopt(c.health, c.options.Quarantine)
	previous := c.current.Swap(next)
	c.mu.Unlock()
	if previous != nil {
		previous.superseded.Store(true)
		c.retireIfIdle(previous)
	}
	return nil
}

// Asks reports whether any policy is bound to the point, be it in mode Shadow. Without one
// a question need not even be laid out. Before the first [Chains.Swap] it is true: nobody
// knows.
func (c *Chains) Asks(point contract.Point) bool {
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
		current.calls.Add(1)
		if c.current.Load() == current {
			return current, nil
		}
		c.release(current)
	}
}

func (c *Chains) release(s *snapshot) {
	s.calls.Add(-1)
	c.retireIfIdle(s)
}

func (c *Chains) retireIfIdle(s *snapshot) {
	if !s.superseded.Load() || s.calls.Load() != 0 || !s.retired.CompareAndSwap(false, true) {
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
