package chain

import (
	"fmt"
	"strings"
	"time"

	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/host/policy/operation"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// Decision says what one policy did to an object: provenance, without values.
type Decision struct {
	Point  contract.Point
	Moment contract.Moment
	// Binding is the name of the OffloadingPolicy.
	Binding string
	// Module and Digest of the code that answered.
	Module string
	Digest string
	// Effects are the operations that changed the object.
	Effects []operation.Effect
	// Kept are reserved keys, as paths, that the policy tried to change (T40).
	Kept []string
	// Denied tells that the policy refused the object, or had it skipped.
	Denied bool
	// Ignored says why the policy was skipped (failure policy Ignore), else empty.
	Ignored string
	// FellBack says why the previous version decided (failure policy LastGood), else
	// empty. Module and Digest are that version's.
	FellBack string
}

// Denied is a policy's refusal of an object, or its wish that it stays at home.
type Denied struct {
	// Policy is the name of the OffloadingPolicy that refused, Module and Digest its code.
	Policy string
	Module string
	Digest string
	// Reason is a CamelCase word, Message a sentence for the object's owner.
	Reason  string
	Message string
	// Skip tells that the object is fine, and stays at home (contract.ResourceMutation).
	Skip bool
}

// Error implements error, so that a refusal can be returned as one.
func (d *Denied) Error() string {
	if d.Skip {
		return fmt.Sprintf("policy %q (module %s, %s) skips the object: %s: %s", d.Policy, d.Module, ShortDigest(d.Digest), d.Reason, d.Message)
	}
	return fmt.Sprintf("policy %q (module %s, %s) refused the object: %s: %s; its owner must change it, or an operator the policy",
		d.Policy, d.Module, ShortDigest(d.Digest), d.Reason, d.Message)
}

// ShortDigest returns the first twelve digits of a digest, without its algorithm.
func ShortDigest(digest string) string {
	if _, hex, ok := strings.Cut(digest, ":"); ok {
		digest = hex
	}
	return digest[:min(len(digest), 12)]
}

// Outcome of a question to a policy.
type Outcome string

// The outcomes.
const (
	// Answered by a call.
	Answered Outcome = "answered"
	// Remembered: answered from the memo, or by a call that another question made.
	Remembered Outcome = "remembered"
	// Refused the object, or had it skipped.
	Refused Outcome = "denied"
	// Failed without a valid answer.
	Failed Outcome = "failed"
	// Skipped: failed, but the failure policy is Ignore.
	Skipped Outcome = "ignored"
	// FellBack: failed, and the previous version answered (failure policy LastGood).
	FellBack Outcome = "fellback"
)

// Observation is what an [Observer] is told of a question to a policy.
type Observation struct {
	Point   contract.Point
	Moment  contract.Moment
	Binding string
	Module  string
	Digest  string
	Outcome Outcome
	// Changed tells whether the answer changed the object.
	Changed bool
	// Stats of the call; zero for remembered answers.
	Stats engine.Stats
	// Duration from the question to the applied answer, zero without a clock.
	Duration time.Duration
	// Err is the failure, if any, a [*PolicyError], and Class its class.
	Err   error
	Class engine.Class
	// Shadow tells that nothing comes of the answer, and Difference what would have; nil
	// when that is nothing.
	Shadow     bool
	Difference *Difference
}

// Observer takes observations for metrics and counters. It is called while the
// object waits, from many goroutines, and must not block.
type Observer interface {
	Observe(Observation)
}

// PlainText is [engine.Plain] for packages that know of no engine.
func PlainText(text string) string { return engine.Plain(text) }
