package policies

import (
	"github.com/longshore-dev/longshore/host/forge/invariants"
	"github.com/longshore-dev/longshore/host/forge/remote"
	"github.com/longshore-dev/longshore/host/policy/chain"
)

// chainOptions are those of every component's chains, but for what the source adds.
func chainOptions() chain.Options {
	return chain.Options{ReservedKey: remote.ReservedKey, GuardedKey: invariants.GuardedKey}
}
