package policies

import (
	"github.com/longshore-dev/longshore/host/forge/invariants"
	"github.com/longshore-dev/longshore/host/forge/remote"
	"github.com/longshore-dev/longshore/host/policy/chain"
)

// chainOptions are the options of every component's chains; the source adds its own.
func chainOptions() chain.Options {
	return chain.Options{ReservedKey: remote.ReservedKey, GuardedKey: invariants.GuardedKey}
}
