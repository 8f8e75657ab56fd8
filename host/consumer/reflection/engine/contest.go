package engine

import "github.com/longshore-dev/longshore/host/kit/contest"

type (
	// Contest counts how often one desired state had to be written again because another writer in
	// the provider changed it.
	Contest = contest.Contest
	// LastWrite is a value that was written, with the contest about it.
	LastWrite = contest.LastWrite
)

// Contested returns the event about another writer in the provider. object names what that
// writer changes. Each revert is followed by a decision without events, so the event stays quiet
// for as long as reverts count.
func Contested(facts Facts, object string) RecordEvent {
	return RecordEvent{
		Type: EventWarning, Reason: ReasonFailedReflection, Quiet: contest.Calm,
		Message: "A controller or user in cluster " + facts.ProviderClusterID + " keeps changing " + object +
			". Stop it, or do not reflect the labels or annotations that it writes.",
	}
}
