package planner

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/longshore-dev/longshore/host/consumer/reflection/pod"
	"github.com/longshore-dev/longshore/host/forge/local"
)

// reasonFailedReflection is the reason of an event on an object that cannot be reflected.
const reasonFailedReflection = "FailedReflection"

// The states of a container that waits for what is not in its own status.
var creationReasons = []string{"", "PodInitializing", "ContainerCreating", "CreateContainerConfigError"}

// diagnoseNeeds reports an object that the pod needs to start and does not get.
func diagnoseNeeds(o Observed) *Diagnosis {
	if o.Facts.Inventory == nil || !isCreating(o.remotePod()) {
		return nil
	}
	plan := o.needs()
	if reason, who := plan.unmetNeed(o.isOffloaded()); reason != nil {
		return &Diagnosis{Reason: *reason, Who: who}
	}
	for i := range plan.Follows {
		f := &plan.Follows[i]
		if f.Optional {
			continue
		}
		event := newestWarning(o.Events, func(e *corev1.Event) bool {
			return e.InvolvedObject.Kind == f.Kind && e.InvolvedObject.Name == f.Name && e.Reason == reasonFailedReflection
		})
		isAbsent := slices.ContainsFunc(o.Absent, func(r Reference) bool { return r.Kind == f.Kind && r.Name == f.Name })
		switch {
		case isAbsent && event != nil:
			return newDiagnosis(Running, ReasonObjectNotReflected, Operator, "%s %q is not in the provider, although it follows the pod. %s", f.Kind, f.Name, describeEvent(event))
		case isAbsent:
			return newDiagnosis(Running, ReasonObjectNotReflected, Operator, "%s %q is not in the provider, although it follows the pod. See its events, and the log of the virtual kubelet.", f.Kind, f.Name)
		case event != nil && !o.Provider && o.isOffloaded():
			return newDiagnosis(Running, ReasonObjectNotReflected, Operator, "%s %q does not reach the provider. %s", f.Kind, f.Name, describeEvent(event))
		}
	}
	return nil
}

// needs returns a plan with the objects that the pod refers to.
func (o *Observed) needs() *Plan {
	p := &Planner{facts: Facts{HomeClusterID: o.homeClusterID(), Inventory: o.Facts.Inventory}}
	plan := &Plan{Namespace: o.Pod.Namespace, AdmittedPod: o.Pod, ShadowPod: o.ShadowPod, node: o.virtualNode()}
	p.follow(plan, nil)
	plan.sortFollows()
	return plan
}

// isCreating reports whether a pod waits, and no container says for what.
func isCreating(p *corev1.Pod) bool {
	if p.Status.Phase != corev1.PodPending && p.Status.Phase != "" {
		return false
	}
	for _, statuses := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for i := range statuses {
			state := &statuses[i].State
			if state.Waiting != nil && !slices.Contains(creationReasons, state.Waiting.Reason) || state.Terminated != nil && state.Terminated.ExitCode != 0 {
				return false
			}
		}
	}
	return true
}

// diagnoseReplacement reports a remote pod that the provider deletes, or has deleted.
func diagnoseReplacement(o Observed) *Diagnosis {
	ready := condition(o.Pod, corev1.PodReady)
	if ready == nil || ready.Reason != pod.ReasonReplaced || o.Pod.Status.Phase != corev1.PodRunning {
		return nil
	}
	if gone := o.RemotePod; gone != nil && gone.DeletionTimestamp != nil {
		held := ""
		if finalizers := pod.HeldByFinalizers(nil, gone); finalizers != "" {
			held = " The provider keeps " + finalizers + ", which the controllers that set them must remove."
		}
		return newDiagnosis(Creating, ready.Reason, ProviderOperator, "The provider deletes the remote pod since %s, and creates another one once it is gone.%s", deletedSince(gone), held)
	}
	return newDiagnosis(Creating, ready.Reason, ProviderOperator, "The provider has deleted the remote pod, and has not created another one yet. The events there say who deletes it.")
}

// diagnoseContainers reports the first container that does not run, or a pod that has failed.
func diagnoseContainers(o Observed) *Diagnosis {
	p := o.remotePod()
	injected := local.InjectedContainers(&p.Status, &o.Pod.Spec)
	for _, statuses := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for i := range statuses {
			c := &statuses[i]
			waiting, terminated := c.State.Waiting, c.State.Terminated
			name, who := fmt.Sprintf("Container %q", c.Name), Owner
			if slices.Contains(injected, c.Name) {
				name, who = name+", which is not in the spec of the pod and was added to the remote pod,", ProviderOperator
			}
			switch {
			case waiting != nil && waiting.Reason != "" && waiting.Reason != "PodInitializing" && waiting.Reason != "ContainerCreating":
				message := fmt.Sprintf("%s waits: %s", name, cmp.Or(waiting.Message, waiting.Reason))
				return newDiagnosis(Running, waiting.Reason, who, "%s%s%s", message, describeLastEnd(c), describePullSecrets(o, waiting.Reason))
			case terminated != nil && terminated.ExitCode != 0:
				return newDiagnosis(Running, cmp.Or(terminated.Reason, ReasonError), who, "%s ended with exit code %d. %s", name, terminated.ExitCode, terminated.Message)
			}
		}
	}
	if p.Status.Phase == corev1.PodFailed {
		return newDiagnosis(Running, cmp.Or(p.Status.Reason, ReasonFailed), Owner, "The pod has failed. %s", p.Status.Message)
	}
	return nil
}

// describeLastEnd says how a container ended before, or "".
func describeLastEnd(c *corev1.ContainerStatus) string {
	last := c.LastTerminationState.Terminated
	if last == nil {
		return ""
	}
	return strings.TrimSpace(fmt.Sprintf(". It ended with exit code %d (%s) before. %s", last.ExitCode, cmp.Or(last.Reason, "Error"), last.Message))
}

// describePullSecrets says which Secret for pulling images the provider does not have, or "".
func describePullSecrets(o Observed, reason string) string {
	if o.Facts.Inventory == nil || reason != "ErrImagePull" && reason != "ImagePullBackOff" {
		return ""
	}
	for _, f := range o.needs().Follows {
		isPull := slices.ContainsFunc(o.Pod.Spec.ImagePullSecrets, func(s corev1.LocalObjectReference) bool { return f.Kind == kindSecret && f.Name == s.Name })
		if isPull && (f.State == Missing || f.State == NotReflected && o.isOffloaded()) {
			return fmt.Sprintf(". Its imagePullSecret %q is not used: %s.", f.Name, f.Why)
		}
	}
	return ""
}

// diagnoseReadiness reports why a pod that runs is not ready.
func diagnoseReadiness(o Observed) *Diagnosis {
	ready := condition(o.Pod, corev1.PodReady)
	if ready != nil && ready.Reason == local.RemoteUnavailableReason {
		if down := o.outage(); down != nil {
			return newDiagnosis(VirtualNode, ReasonProviderUnreachable, Operator, "The API server of cluster %q does not answer, so the pod is not ready. %s", o.Peer.Spec.ClusterID, down.Message)
		}
		return newDiagnosis(VirtualNode, ready.Reason, Operator, "%s. The pod is ready again when its virtual node is.", ready.Message)
	}
	if o.RemotePod != nil && isRunning(o.RemotePod) {
		return newDiagnosis(Running, ReasonNotReported, Operator, "The remote pod is ready, and the virtual kubelet has not written that into the status of the pod. See its log.")
	}
	if o.Pod.Status.Phase != corev1.PodRunning || ready == nil {
		return nil
	}
	for _, check := range []func(Observed) *Diagnosis{diagnoseProbes, diagnoseGates} {
		if found := check(o); found != nil {
			return found
		}
	}
	if ready.Message == "" && ready.Reason == "" {
		return nil
	}
	return newDiagnosis(Running, cmp.Or(ready.Reason, ReasonNotReady), o.kubeletOperator(), "The pod runs and is not ready: %s", cmp.Or(ready.Message, ready.Reason))
}

// diagnoseProbes reports the first container that runs and is not ready.
func diagnoseProbes(o Observed) *Diagnosis {
	for i := range o.Pod.Status.ContainerStatuses {
		c := &o.Pod.Status.ContainerStatuses[i]
		if c.State.Running == nil || c.Ready {
			continue
		}
		message := fmt.Sprintf("Container %q runs and is not ready: its readiness probe does not succeed.", c.Name)
		if c.Started != nil && !*c.Started {
			message = fmt.Sprintf("Container %q runs and has not started: its startup probe does not succeed.", c.Name)
		}
		if event := newestWarning(o.Events, o.isAboutPod); event != nil {
			message += " " + describeEvent(event)
		}
		return newDiagnosis(Running, ReasonContainersNotReady, Owner, "%s", message)
	}
	return nil
}

// diagnoseGates reports the first readiness gate whose condition is not true.
func diagnoseGates(o Observed) *Diagnosis {
	for i := range o.Pod.Spec.ReadinessGates {
		gate := o.Pod.Spec.ReadinessGates[i].ConditionType
		switch c := condition(o.Pod, gate); {
		case c == nil:
			return newDiagnosis(Running, ReasonReadinessGate, Owner, "The containers are ready, and the readiness gate %q is not: its controller has not set the condition.", gate)
		case c.Status != corev1.ConditionTrue:
			return newDiagnosis(Running, ReasonReadinessGate, Owner, "The containers are ready, and the readiness gate %q is not: its controller has set it to %s. %s", gate, c.Status, strings.TrimSpace(c.Reason+" "+c.Message))
		}
	}
	return nil
}

// diagnoseKubelet reports a remote pod that its kubelet has not started.
func diagnoseKubelet(o Observed) *Diagnosis {
	if p := o.RemotePod; p != nil && p.Spec.NodeName != "" && len(p.Status.ContainerStatuses) == 0 && len(p.Status.InitContainerStatuses) == 0 {
		return newDiagnosis(Running, ReasonNotStarted, ProviderOperator, "The remote pod is on node %q of the provider, whose kubelet has not reported any of its containers yet.", p.Spec.NodeName)
	}
	return nil
}

// diagnoseWarning reports the newest warning about the pod.
func diagnoseWarning(o Observed) *Diagnosis {
	event := newestWarning(o.Events, o.isAboutPod)
	if event == nil {
		return nil
	}
	return diagnoseEvent(o, Running, event)
}

func diagnoseEvent(o Observed, stage Stage, event *corev1.Event) *Diagnosis {
	who := Owner
	switch event.Reason {
	case "FailedMount", "FailedAttachVolume", "FailedMapVolume", "FailedCreatePodSandBox", "FailedPodSandBoxStatus", "NetworkNotReady", "NodeNotReady":
		who = o.kubeletOperator()
	case reasonFailedReflection:
		who = Operator
	}
	return newDiagnosis(stage, event.Reason, who, "%s", describeEvent(event))
}

// describeEvent returns what a warning says, and when.
func describeEvent(event *corev1.Event) string {
	return fmt.Sprintf("Warning %s (%d times, last at %s): %s", event.Reason, local.EventCount(event), local.EventTime(event).UTC().Format("2006-01-02 15:04:05"), event.Message)
}

// isAboutPod reports whether an event is about the pod or its remote pod, and not about an earlier pod
// of the name.
func (o *Observed) isAboutPod(event *corev1.Event) bool {
	about := &event.InvolvedObject
	return about.Kind == "Pod" && (about.UID == o.Pod.UID || o.RemotePod != nil && about.UID == o.RemotePod.UID)
}

// newestWarning returns the newest warning that is selected; nil if there is none.
func newestWarning(events []corev1.Event, isSelected func(*corev1.Event) bool) *corev1.Event {
	var newest *corev1.Event
	for i := range events {
		event := &events[i]
		if event.Type == corev1.EventTypeWarning && isSelected(event) && (newest == nil || local.EventTime(event).After(local.EventTime(newest))) {
			newest = event
		}
	}
	return newest
}
