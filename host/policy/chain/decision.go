package chain

import (
	"fmt"
	"strings"
	"time"

	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/host/policy/operation"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// Decision is what one policy did to an object, without values.
type Decision struct {
	Point  contract.Point
	Moment contract.Moment
	// Binding is the name of the OffloadingPolicy.
	Binding string
	// Module and Digest of the code that was called.
	Module string
	Digest string
	// Effects are the operations that changed the object.
	Effects []operation.Effect
	// Kept are the paths of reserved keys that the policy tried to change.
	Kept []string
	// Denied reports that the policy denied or skipped the object.
	Denied bool
	// Ignored is the error for which the policy was skipped (failure policy Ignore).
	Ignored string
	// FellBack is the error for which the previous version was called (failure policy
	// LastGood). Module and Digest are that version's.
	FellBack string
}

// Denied is the answer of a policy that denies or skips an object.
type Denied struct {
	// Policy is the name of the OffloadingPolicy, Module and Digest its code.
	Policy string
	Module string
	Digest string
	// Reason is a CamelCase word, Message a sentence for the object's owner.
	Reason  string
	Message string
	// Skip reports that the object is valid and is not reflected
	// (contract.ResourceMutation).
	Skip bool
}

// Error implements error.
func (d *Denied) Error() string {
	if d.Skip {
		return fmt.Sprintf("policy %q (module %s, %s) skips the object: %s: %s", d.Policy, d.Module, ShortDigest(d.Digest), d.Reason, d.Message)
	}
	return fmt.Sprintf("policy %q (module %s, %s) denied the object: %s: %s; its owner must change the object, or an operator the policy",
		d.Policy, d.Module, ShortDigest(d.Digest), d.Reason, d.Message)
}

// ShortDigest returns the first twelve digits of a digest, without its algorithm.
func ShortDigest(digest string) string {
	if _, hex, ok := strings.Cut(digest, ":"); ok {
		digest = hex
	}
	return digest[:min(len(digest), 12)]
}

// Outcome of an evaluation of one policy.
type Outcome string

// The outcomes.
const (
	// Answered: the policy was called.
	Answered Outcome = "answered"
	// Remembered: the answer was cached.
	Remembered Outcome = "remembered"
	// Refused: the policy denied or skipped the object.
	Refused Outcome = "denied"
	// Failed: the policy gave no valid answer.
	Failed Outcome = "failed"
	// Skipped: the policy failed, and its failure policy is Ignore.
	Skipped Outcome = "ignored"
	// FellBack: the policy failed, and its previous version was called (failure policy
	// LastGood).
	FellBack Outcome = "fellback"
)

// Observation describes the evaluation of one policy.
type Observation struct {
	Point   contract.Point
	Moment  contract.Moment
	Binding string
	Module  string
	Digest  string
	Outcome Outcome
	// Changed reports whether the answer changed the object.
	Changed bool
	// Stats of the call; zero for cached answers.
	Stats engine.Stats
	// Duration of matching, encoding, calling and applying; zero without a clock.
	Duration time.Duration
	// Err is a [*PolicyError] if the policy failed, and Class its class.
	Err   error
	Class engine.Class
	// Shadow reports that the answer is not applied. Difference is what it would have
	// changed, nil for nothing.
	Shadow     bool
	Difference *Difference
}

// Observer receives observations, for metrics. It is called from many goroutines while the
// object waits, and must not block.
type Observer interface {
	Observe(Observation)
}
