package policies

import (
	"github.com/longshore-dev/longshore/host/forge/invariants"
	"github.com/longshore-dev/longshore/host/forge/remote"
	"github.com/longshore-dev/longshore/host/policy/chain"
)

// chainOptions remember no answer: every question is a call, as if no two objects were
// alike in anything that a policy reads.
func chainOptions() chain.Options {
	return chain.Options{ReservedKey: remote.ReservedKey, GuardedKey: invariants.GuardedKey, MemoEntries: -1}
}
