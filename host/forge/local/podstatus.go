// Package local builds objects of the consumer. Pod flow, stage 7: the status of a local pod
// from that of its remote pod, and the Node of a virtual node.
//
// All functions are pure: they use no client, context, clock, environment, logger or package
// state, and do not alter their arguments.
package local

import (
	"math"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/plaintext"
	"github.com/longshore-dev/longshore/host/kit/podend"
	"github.com/longshore-dev/longshore/host/kit/podupdate"
)

// RemoteUnavailableReason is the reason of the condition Ready of a pod whose provider
// is unreachable.
const RemoteUnavailableReason = "RemoteUnavailable"

// PodStatusInput is the input of [PodStatus].
type PodStatusInput struct {
	// Local and Remote are the local pod and its remote pod.
	Local, Remote *corev1.Pod
	// NodeIP is the address of the virtual node.
	NodeIP string
	// ExtraRestarts is the number of restarts of earlier remote pods.
	ExtraRestarts int32
	// DisableIPReflection omits the pod's addresses.
	DisableIPReflection bool
	// MapIP translates the address of a remote pod to the one that the consumer can reach, ""
	// while it is not known; nil if the addresses are the same.
	MapIP func(string) string
	// Unknown reports that Remote may be older than an outage. The pod does not become ready
	// then.
	Unknown bool
	// LocalGates are the conditions of readiness gates that the consumer has set. The local pod
	// keeps its own conditions of these types.
	LocalGates []corev1.PodCondition
	// HasCurrentSpec reports that Remote has the current spec of Local, of the fields that may
	// change while a pod runs.
	HasCurrentSpec bool
	Now            time.Time
}

// PodStatus builds the status of a local pod: the remote status, within bounds, of the containers
// that the local pod has, with the addresses and restart counts of the consumer.
func PodStatus(in PodStatusInput) *corev1.PodStatus {
	status := in.Remote.Status.DeepCopy()
	injected := InjectedContainers(status, &in.Local.Spec)
	boundStatus(status, in)
	mapAddresses(status, in)
	status.HostIP = in.NodeIP
	status.HostIPs = nil
	if in.NodeIP != "" {
		status.HostIPs = []corev1.HostIP{{IP: in.NodeIP}}
	}
	for i := range status.ContainerStatuses {
		count := int64(status.ContainerStatuses[i].RestartCount) + int64(in.ExtraRestarts)
		status.ContainerStatuses[i].RestartCount = int32(min(max(count, 0), math.MaxInt32))
	}
	keepTerminatedContainers(status, in)
	keepContainersOf(status, &in.Local.Spec) // An earlier version copied all.
	if len(injected) > 0 {
		followOwnContainers(status, in)
	}
	followOwnReadiness(status, in, len(injected) > 0)
	fit(status, &in.Local.Spec)
	keepLocalConditions(status, in)
	translatePodGenerations(status, in)
	if in.Local.Labels[offloadingv1beta1.RemoteUnavailableLabel] == "true" || in.Unknown && !IsReady(&in.Local.Status) {
		forceNotReady(status, &in.Local.Status, in.Now)
	}
	return status
}

// keepLocalConditions replaces the conditions that the consumer has set by those of the local pod: of gates and,
// while the local pod is deleted, why it is. A Job reads that.
func keepLocalConditions(status *corev1.PodStatus, in PodStatusInput) {
	kept := in.LocalGates
	if disruption := podCondition(&in.Local.Status, corev1.DisruptionTarget); in.Local.DeletionTimestamp != nil && disruption != nil {
		kept = append(slices.Clone(kept), *disruption)
	}
	for i := range kept {
		own, theirs := podCondition(&in.Local.Status, kept[i].Type), podCondition(status, kept[i].Type)
		switch {
		case own != nil && theirs != nil:
			*theirs = *own.DeepCopy()
		case own != nil:
			status.Conditions = append(status.Conditions, *own.DeepCopy())
		case theirs != nil:
			status.Conditions = slices.DeleteFunc(status.Conditions, func(c corev1.PodCondition) bool { return c.Type == kept[i].Type })
		}
	}
}

// translatePodGenerations turns generations of the remote pod into those of the local pod. The
// local pod's generation was observed when the remote pod has the local pod's spec and its
// provider has observed that. Otherwise, the last generation that was observed stays; 0 is
// unknown.
func translatePodGenerations(status *corev1.PodStatus, in PodStatusInput) {
	translate := func(remote, before int64) int64 {
		if in.HasCurrentSpec && remote > 0 && remote >= in.Remote.Generation {
			return in.Local.Generation
		}
		return before
	}
	status.ObservedGeneration = translate(status.ObservedGeneration, in.Local.Status.ObservedGeneration)
	for i := range status.Conditions {
		condition, before := &status.Conditions[i], int64(0)
		if podCondition(&corev1.PodStatus{Conditions: in.LocalGates}, condition.Type) != nil {
			continue // The condition is of the consumer.
		}
		if had := podCondition(&in.Local.Status, condition.Type); had != nil {
			before = had.ObservedGeneration
		}
		condition.ObservedGeneration = translate(condition.ObservedGeneration, before)
	}
}

// mapAddresses keeps all addresses of a dual-stack pod that an EndpointSlice may have. The API
// server requires podIP to be the first of podIPs.
func mapAddresses(status *corev1.PodStatus, in PodStatusInput) {
	if in.DisableIPReflection {
		status.PodIP, status.PodIPs = "", nil
		return
	}
	if len(status.PodIPs) == 0 && status.PodIP != "" {
		status.PodIPs = []corev1.PodIP{{IP: status.PodIP}}
	}
	// The API server refuses a status with two addresses of one family, also if one of IPv4 is written as IPv6.
	var reachable []corev1.PodIP
	hasFamily := map[bool]bool{}
	for _, ip := range status.PodIPs {
		address := canonical(ip.IP)
		if in.MapIP != nil && address.IsValid() {
			address = canonical(in.MapIP(address.String()))
		}
		if isEndpoint(address) && !hasFamily[address.Is4()] {
			hasFamily[address.Is4()] = true
			reachable = append(reachable, corev1.PodIP{IP: address.String()})
		}
	}
	status.PodIPs = reachable
	if len(status.PodIPs) == 0 {
		status.PodIP, status.PodIPs = "", nil
		return
	}
	status.PodIP = status.PodIPs[0].IP
}

// canonical returns an address in the form that the API server has for it, the zero value if it is none.
func canonical(text string) netip.Addr {
	address, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Addr{}
	}
	return address.Unmap()
}

// isEndpoint reports whether the API server accepts an address in an EndpointSlice. It refuses the
// whole slice for one that it does not accept, so that a provider could stop the Services of its
// consumer with the address of one pod.
func isEndpoint(ip netip.Addr) bool {
	return ip.IsValid() && ip.Zone() == "" && !ip.IsUnspecified() && !ip.IsLoopback() && !ip.IsLinkLocalUnicast() && !ip.IsLinkLocalMulticast()
}

// forceNotReady removes the pod from its Services while its state is unknown. The transition
// time is that of the local condition if that is false already, so that the status does not
// change with every reconciliation.
func forceNotReady(status, local *corev1.PodStatus, now time.Time) {
	condition := corev1.PodCondition{
		Type:               corev1.PodReady,
		Status:             corev1.ConditionFalse,
		Reason:             RemoteUnavailableReason,
		Message:            "The cluster that runs the pod is not reachable",
		LastTransitionTime: transition(now),
	}
	if had := podCondition(local, corev1.PodReady); had != nil && had.Status == corev1.ConditionFalse {
		condition.LastTransitionTime = had.LastTransitionTime
	}
	ready := podCondition(status, corev1.PodReady)
	switch {
	case ready == nil:
		status.Conditions = append(status.Conditions, condition)
	case ready.Status != corev1.ConditionFalse:
		condition.ObservedGeneration = ready.ObservedGeneration
		*ready = condition
	}
}

// IsReady reports whether a pod is ready by its status.
func IsReady(status *corev1.PodStatus) bool {
	ready := podCondition(status, corev1.PodReady)
	return ready != nil && ready.Status == corev1.ConditionTrue
}

func podCondition(status *corev1.PodStatus, conditionType corev1.PodConditionType) *corev1.PodCondition {
	for i := range status.Conditions {
		if status.Conditions[i].Type == conditionType {
			return &status.Conditions[i]
		}
	}
	return nil
}

// RejectedPodStatus builds the status of a local pod without a remote pod. It is idempotent.
func RejectedPodStatus(local *corev1.PodStatus, phase corev1.PodPhase, reason, message string, now time.Time) *corev1.PodStatus {
	status := local.DeepCopy()
	status.Phase, status.Reason, status.Message = phase, reason, plaintext.Line(message) // of a provider, or of a policy
	for i := range status.Conditions {
		condition := &status.Conditions[i]
		// A condition of another controller is its own, unless the pod has ended. Why it was ended stays true.
		if condition.Status != corev1.ConditionTrue || condition.Type == corev1.DisruptionTarget || !podend.IsTerminal(phase) && !podupdate.IsKubeletCondition(condition.Type) {
			continue
		}
		condition.Status = corev1.ConditionFalse
		condition.Reason = reason
		condition.LastTransitionTime = transition(now)
	}
	for _, containers := range [][]corev1.ContainerStatus{
		status.InitContainerStatuses, status.ContainerStatuses, status.EphemeralContainerStatuses,
	} {
		for i := range containers {
			rejectContainer(&containers[i], phase, reason, now)
		}
	}
	return status
}

func rejectContainer(container *corev1.ContainerStatus, phase corev1.PodPhase, reason string, now time.Time) {
	container.Ready = false
	if !podend.IsTerminal(phase) || container.State.Terminated != nil {
		return
	}
	terminated := &corev1.ContainerStateTerminated{
		Reason: reason, FinishedAt: transition(now), ContainerID: container.ContainerID,
	}
	if phase == corev1.PodFailed {
		terminated.ExitCode = 1
	}
	if running := container.State.Running; running != nil {
		terminated.StartedAt = running.StartedAt
	}
	container.State = corev1.ContainerState{Terminated: terminated}
}

// transition returns a time with the precision of the API, which is seconds.
func transition(now time.Time) metav1.Time { return metav1.NewTime(now.Truncate(time.Second)) }
