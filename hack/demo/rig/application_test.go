package rig_test

import (
	"testing"

	"github.com/longshore-dev/longshore/hack/demo/application"
	"github.com/longshore-dev/longshore/hack/demo/rig"

	"github.com/stretchr/testify/require"
)

// The tests here are what an operator does with the demo and its application. Each step can be run alone.

// TestPolicies loads, changes and removes policies of both clusters, live.
func TestPolicies(t *testing.T) {
	t.Parallel()
	borrow(t).each(t, []step[*rig.Rig]{
		{"the tutorial of the first policy is true", firstPolicy},
		{"the commands of the README switch a policy off", readmePolicy},
		{"the how-tos about policies are true", howToPolicies},
		{"a policy that is switched off changes the outcome", policySwitchedOff},
		{"a custom policy loaded from a ConfigMap decides, live", customPolicy},
		{"a policy of the provider denies and changes pods of the consumer, live", providerPolicy},
		{"a policy of the provider grants half of a resource slice and denies it, live", sliceCapped},
	})
}

// TestAPodRunsOnTheOtherCluster looks at what the demo shows.
func TestAPodRunsOnTheOtherCluster(t *testing.T) {
	t.Parallel()
	d := borrow(t)
	d.each(t, []step[*rig.Rig]{
		{"every status, source and decision is what it seems", func(t *testing.T, r *rig.Rig) {
			require.NoError(t, r.Verify(t.Context(), application.Namespace))
		}},
		{"what the pods need is in both clusters, as the demo shows", needsAreShown},
		{"the application is the same in both clusters, object by object", applicationCompared},
		{"so are real applications, of which some pods run in rome", func(t *testing.T, r *rig.Rig) { realApplicationsCompared(t, r, d.clusters.Rome) }},
		{"the check of helm test passes", installationChecked},
		{"no kwok plays the virtual node", noKwokOnTheVirtualNode},
		{"dashboards of Liqo read the metrics", metricsOfLiqo},
		{"what longshorectl plan predicts is what happens", planIsTrue},
		{"the how-to about planning is true", howToPlan},
	})
}

// TestChangesAreReflected changes what is reflected, and how.
func TestChangesAreReflected(t *testing.T) {
	t.Parallel()
	borrow(t).each(t, []step[*rig.Rig]{
		{"a change of a ConfigMap arrives", configMapFollows},
		{"scaling down takes the remote pod away", scaleDown},
		{"an EndpointSlice of the consumer is one in the provider", endpointsArrive},
		{"the how-tos about reflected objects are true", howToObjects},
		{"the how-to about volumes is true", howToVolumes},
	})
}

// TestDisturbances has objects and processes vanish.
func TestDisturbances(t *testing.T) {
	t.Parallel()
	borrow(t).each(t, []step[*rig.Rig]{
		{"a pod that vanishes on the provider comes back", remotePodComesBack},
		{"a VirtualNode that loses its finalizer and is deleted comes back, and nothing is lost", virtualNodeComesBack},
		{"a removed scheduling label comes back", labelComesBack},
		{"a restarted virtual kubelet keeps the pods, and updates the events of before", kubeletRestarts},
	})
}

// TestSlicesOfOneProvider has two virtual nodes at once.
func TestSlicesOfOneProvider(t *testing.T) {
	t.Parallel()
	borrow(t).each(t, []step[*rig.Rig]{
		{"two slices of the provider are used at once, and one is returned", twoSlices},
	})
}

// TestNamespaces has pods on the virtual node in namespaces that are not offloaded, or not any more.
func TestNamespaces(t *testing.T) {
	t.Parallel()
	borrow(t).each(t, []step[*rig.Rig]{
		{"pods on the virtual node in a namespace that is not offloaded come to an end", podsElsewhere},
		{"an offloaded namespace is deleted with its pods", namespaceGoes},
	})
}

// TestWhatIsRefused asks both clusters for what they refuse, or have done.
func TestWhatIsRefused(t *testing.T) {
	t.Parallel()
	borrow(t).each(t, []step[*rig.Rig]{
		{"a malicious consumer gets nothing that was not granted", maliciousConsumer},
		{"bad input is refused where its author looks", badInput},
		{"peering again changes nothing, wherever the command is interrupted", peeringIsRepeated},
	})
}

// TestWithdrawal takes back what the demo has, piece by piece.
func TestWithdrawal(t *testing.T) {
	t.Parallel()
	d := borrow(t)
	d.isSpent = true
	inTurn(t, d.Rig, []step[*rig.Rig]{
		{"un-offloading takes the remote namespace away", unOffload},
		{"unpeering takes everything back, and peering again works", unpeerAndPeerAgain},
		{"returning the resource slice leaves nothing", returnSlice},
	})
}

// TestLongTheApplicationRunsOn disturbs the demo.
func TestLongTheApplicationRunsOn(t *testing.T) {
	t.Parallel()
	d := start(t)
	d.prepare(t)
	runApplication(t, d.Rig)
	inTurn(t, d.Rig, []step[*rig.Rig]{
		{"the tutorial of writing a policy is true", writePolicy},
		{"replacing a module under load loses and delays nothing", swapUnderLoad},
		{"replicas are replaced and killed while pods are admitted", severalReplicas},
		{"every component is killed and loses its lease while all kinds change", disturbedInTurn},
	})
}
