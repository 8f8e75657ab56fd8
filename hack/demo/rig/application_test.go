package rig_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/hack/demo/application"
	"github.com/longshore-dev/longshore/hack/demo/rig"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// step is a part of a test that builds on the parts before it.
type step struct {
	name string
	run  func(*testing.T, *rig.Rig)
}

func inTurn(t *testing.T, r *rig.Rig, steps []step) {
	t.Helper()
	for _, step := range steps {
		if !t.Run(step.name, func(t *testing.T) { step.run(t, r) }) {
			return
		}
	}
}

// startApplication brings up what the demo shows.
func startApplication(t *testing.T) (*rig.Rig, *rig.Clusters) {
	t.Helper()
	r, clusters := start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	require.NoError(t, r.Install(ctx, r.AllowAPIAccess))
	require.NoError(t, r.Rome.WaitForDeployments(ctx, rig.Namespace, quiet))
	require.NoError(t, r.Milan.WaitForDeployments(ctx, rig.Namespace, quiet))
	require.NoError(t, r.Peer(ctx, quiet))
	waiting, stopWaiting := context.WithTimeout(ctx, patience)
	defer stopWaiting()
	createStorage(t, r)
	require.NoError(t, r.PrepareProvider(waiting))
	require.NoError(t, r.CreateVirtualNode(waiting, rig.Capacity("640", "2560Gi", "5000"), quiet))
	require.NoError(t, r.Rome.Offload(waiting, application.Namespace, offloadingv1beta1.RemotePodOffloadingStrategyType, quiet))
	require.NoError(t, r.RunApplication(waiting, quiet))
	return r, clusters
}

// TestAPodRunsOnTheOtherCluster is the demo's path, and what an operator does next. Its
// parts build on each other: one installation is used for all of them. It takes longest, and Go starts
// parallel tests in the order of their files.
func TestAPodRunsOnTheOtherCluster(t *testing.T) {
	t.Parallel()
	r, clusters := startApplication(t)
	inTurn(t, r, []step{
		{"every status, source and decision is what it seems", func(t *testing.T, r *rig.Rig) {
			require.NoError(t, r.Verify(t.Context(), application.Namespace))
		}},
		{"what the pods need is in both clusters, as the demo shows", needsAreShown},
		{"the application is the same in both clusters, object by object", applicationCompared},
		{"so are real applications, of which some pods run in rome", func(t *testing.T, r *rig.Rig) { realApplicationsCompared(t, r, clusters.Rome) }},
		{"the check of helm test passes", installationChecked},
		{"no kwok plays the virtual node", noKwokOnTheVirtualNode},
		{"dashboards of Liqo read the metrics", metricsOfLiqo},
		{"what longshorectl plan predicts is what happens", planIsTrue},
		{"a malicious consumer gets nothing that was not granted", maliciousConsumer},
		{"peering again changes nothing, wherever the command is interrupted", peeringIsRepeated},
		{"the tutorial of the first policy is true, command by command", firstPolicy},
		{"bad input is refused where its author looks", badInput},
		{"a pod that vanishes on the provider comes back", remotePodComesBack},
		{"a VirtualNode that loses its finalizer and is deleted comes back, and nothing is lost", virtualNodeComesBack},
		{"a removed scheduling label comes back", labelComesBack},
		{"a change of a ConfigMap arrives", configMapFollows},
		{"the commands of the README switch a policy off", readmePolicy},
		{"the how-tos about policies are true, command by command", howToPolicies},
		{"the how-tos about reflected objects are true, command by command", howToObjects},
		{"the how-to about planning is true, command by command", howToPlan},
		{"the how-to about volumes is true, command by command", howToVolumes},
		{"scaling down takes the remote pod away", scaleDown},
		{"a policy that is switched off changes the outcome", policySwitchedOff},
		{"a custom policy loaded from a ConfigMap decides, live", customPolicy},
		{"a policy of the provider denies and changes pods of the consumer, live", providerPolicy},
		{"a policy of the provider grants half of a resource slice and denies it, live", sliceCapped},
		{"two slices of the provider are used at once, and one is returned", twoSlices},
		{"an EndpointSlice of the consumer is one in the provider", endpointsArrive},
		{"an event of a remote pod is an event of the local pod", eventsArrive},
		{"a restarted virtual kubelet keeps the pods", kubeletRestarts},
		{"an event that was reflected before the restart is updated", eventsArrive},
		{"pods on the virtual node in a namespace that is not offloaded come to an end", podsElsewhere},
		{"an offloaded namespace is deleted with its pods", namespaceGoes},
		{"un-offloading takes the remote namespace away", unOffload},
		{"unpeering takes everything back, and peering again works", unpeerAndPeerAgain},
		{"returning the resource slice leaves nothing", returnSlice},
	})
}

// TestLongTheApplicationRunsOn disturbs the demo.
func TestLongTheApplicationRunsOn(t *testing.T) {
	t.Parallel()
	r, _ := startApplication(t)
	inTurn(t, r, []step{
		{"the tutorial of writing a policy is true, command by command", writePolicy},
		{"replacing a module under load loses and delays nothing", swapUnderLoad},
		{"replicas are replaced and killed while pods are admitted", severalReplicas},
		{"every component is killed and loses its lease while all kinds change", disturbedInTurn},
	})
}
