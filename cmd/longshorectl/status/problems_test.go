package status

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// A provider may say for ever that it creates or deletes a remote namespace.
func TestARemoteNamespaceThatDoesNotBecomeReadyIsAProblem(t *testing.T) {
	since := func(at time.Time) func(*snapshot) {
		return func(s *snapshot) {
			s.offloadings.Items[0].Status.OffloadingPhase = offloadingv1beta1.InProgressOffloadingPhaseType
			s.offloadings.Items[0].Status.RemoteNamespacesConditions = map[string]offloadingv1beta1.RemoteNamespaceConditions{"milan": {
				{Type: offloadingv1beta1.NamespaceReady, Status: corev1.ConditionFalse, Reason: "Terminating", Message: "It waits.", LastTransitionTime: metav1.NewTime(at)},
			}}
		}
	}
	checkProblems(t, map[string]problemRow{
		"a moment ago": {since(now.Add(-time.Minute)), "", ""},
		"for minutes":  {since(now.Add(-time.Hour)), "rome", "Remote namespaces are not ready for minutes: milan: Terminating: It waits."},
	})
}

func TestProblemsOfPoliciesClaimsAndPeersNameWhoMustAct(t *testing.T) {
	claimIs := func(cluster, state string) func(*snapshot) {
		return func(s *snapshot) {
			labels := map[string]string{offloadingv1beta1.StorageClusterLabel: cluster, offloadingv1beta1.RemoteClaimLabel: state}
			s.claims.Items = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data", Namespace: "shop", Labels: labels}}}
		}
	}
	policyIs := func(reason string, generation int64) func(*snapshot) {
		return func(s *snapshot) {
			policy := &s.policies.Items[0]
			policy.Generation, policy.Status.Conditions[0] = generation, metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: reason, Message: "Message."}
			if reason == "Bound" {
				policy.Status.Conditions[0].Status = metav1.ConditionTrue
			}
		}
	}
	checkProblems(t, map[string]problemRow{
		"a policy is quarantined": {policyIs("Quarantined", 0), "rome", "Quarantined: Message."},
		"a policy is refused":     {policyIs("BindingRefused", 0), "rome", "BindingRefused: Message."},
		"a policy is loaded":      {policyIs("Loading", 0), "", "Loading: Message."},
		"a policy is new":         {policyIs("Bound", 1), "", "Its latest version is not reported as used yet."},
		"a claim has its data":    {claimIs("milan", "Created"), "", ""},
		"a claim is lost": {claimIs("milan", "Lost"), "rome",
			"The claim was deleted in the provider, and its data with it, unless the volume is retained there: pods that use it stay Pending."},
		"a claim is left behind": {claimIs("turin", "Created"), "rome",
			"Its data is in a cluster that has no virtual node here: pods that use it stay Pending. With the last virtual node, a provider deletes the data, unless it retains the volume."},
		"a slice is cordoned": {func(s *snapshot) { s.slices.Items[1].Annotations = map[string]string{"liqo.io/cordon": "true"} }, "rome",
			"It is cordoned: new pods of it are refused."},
		"a Tenant is cordoned": {func(s *snapshot) { s.slices.Items[1].Annotations = map[string]string{"liqo.io/cordon-tenant": "true"} }, "rome",
			"It is cordoned with its Tenant: new pods of the consumer are refused."},
		"resources cannot be read": {func(s *snapshot) { s.broken = map[string]error{"quotas": errors.New("unable to decode")} }, "rome", "They cannot be read: unable to decode"},
		"a peer sends what is not read": {func(s *snapshot) {
			s.warnings = []corev1.Event{{
				InvolvedObject: corev1.ObjectReference{Kind: "VirtualNode", Namespace: "liqo-tenant-milan", Name: "milan"}, Reason: "CannotBeDecoded", Message: "Message.",
				LastTimestamp: metav1.NewTime(now),
			}}
		}, "rome", "CannotBeDecoded: Message. (12:00:00 UTC)"},
	})
}
