package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/local"
	"github.com/longshore-dev/longshore/host/kit/plaintext"
	"github.com/longshore-dev/longshore/host/kit/podend"
	"github.com/longshore-dev/longshore/host/planner"
)

const (
	// patience is how long a pod may take to be scheduled, ready or gone before that is a problem.
	patience = 2 * time.Minute
	// maxReasons is how many reasons are shown for the pods of a peer: a provider may send a new one for each pod.
	maxReasons = 10
	// named is how many objects with the same problem are named.
	named = 3
)

// faulty are pods with the same fault. The diagnosis is that of the first.
type faulty struct {
	peer, actor string
	diagnosis   *planner.Diagnosis
	pods        []*corev1.Pod
}

// pods returns the pods that are refused, not scheduled, not ready or not gone, by the reason. A pod whose virtual
// node is not ready is left out, since the node is a problem itself, as is one that does not follow the strategy of
// its namespace. A pod with a scheduling gate waits for whoever set the gate.
func pods(s *snapshot) []Problem {
	groups := map[[3]string]*faulty{}
	observe := observer(s)
	for i := range s.pods {
		pod := &s.pods[i]
		o := observe(pod)
		if o == nil {
			continue
		}
		d := planner.Diagnose(*o)
		if d == nil || !isProblem(pod, d, s.now) {
			continue
		}
		found := &faulty{actor: string(s.id), diagnosis: d}
		if o.Node != nil {
			found.peer = o.Node.Labels[liqocorev1beta1.RemoteClusterIDLabel]
		}
		if d.Who == planner.ProviderOperator && found.peer != "" {
			found.actor = found.peer
		}
		key := [3]string{found.peer, d.Reason.Reason, found.actor}
		if groups[key] == nil {
			groups[key] = found
		}
		groups[key].pods = append(groups[key].pods, pod)
	}
	return describePods(groups)
}

// observer returns what is known about a pod; nil if it has nothing to do with virtual nodes.
func observer(s *snapshot) func(*corev1.Pod) *planner.Observed {
	facts := planner.Facts{HomeClusterID: string(s.id), VirtualNodes: s.virtualNodes.Items, Nodes: map[string]*corev1.Node{}, Requested: map[string]corev1.ResourceList{}}
	if !s.isKnown(resourceVirtualNodes) || !s.isKnown(resourceNodes) {
		facts.VirtualNodes = nil
	}
	for i := range s.nodes.Items {
		name := s.nodes.Items[i].Name
		facts.Nodes[name], facts.Requested[name] = &s.nodes.Items[i], usedOn(s, func(node string) bool { return node == name })
	}
	offloadings := map[string]*offloadingv1beta1.NamespaceOffloading{}
	for i := range s.offloadings.Items {
		offloadings[s.offloadings.Items[i].Namespace] = &s.offloadings.Items[i]
	}
	return func(pod *corev1.Pod) *planner.Observed {
		o := &planner.Observed{Pod: pod, Offloading: offloadings[pod.Namespace], Facts: facts, Node: facts.Nodes[pod.Spec.NodeName]}
		isHome := o.Offloading == nil || o.Offloading.Spec.PodOffloadingStrategy == offloadingv1beta1.LocalPodOffloadingStrategyType
		if pod.Spec.NodeName == "" && isHome || pod.Spec.NodeName != "" && o.Node == nil && s.isKnown(resourceNodes) {
			return nil
		}
		for i := range s.foreignClusters.Items {
			if fc := &s.foreignClusters.Items[i]; o.Node != nil && string(fc.Spec.ClusterID) == o.Node.Labels[liqocorev1beta1.RemoteClusterIDLabel] {
				o.Peer = fc
			}
		}
		return o
	}
}

// isProblem reports whether a fault is one that does not end by itself, or has lasted too long.
func isProblem(pod *corev1.Pod, d *planner.Diagnosis, now time.Time) bool {
	isRefused := d.Stage == planner.Forging || d.Stage == planner.Creating
	switch {
	case d.Stage == planner.VirtualNode && d.Reason.Reason != local.RemoteUnavailableReason, d.Reason.Reason == corev1.PodReasonSchedulingGated:
		return false
	case d.Reason.Reason == offloadingv1beta1.CreatedBeforeOffloadingReason, d.Reason.Reason == offloadingv1beta1.StrategyChangedReason:
		return false
	case pod.DeletionTimestamp != nil: // It is the time at which the grace period ends.
		return now.Sub(pod.DeletionTimestamp.Time) > patience
	case podend.IsTerminal(pod.Status.Phase): // A container ended, which its owner expects or sees.
		return isRefused || d.Stage == planner.Mapping
	default:
		return isRefused || now.Sub(changedAt(pod)) > patience
	}
}

// changedAt returns since when a pod is not scheduled, or not ready.
func changedAt(pod *corev1.Pod) time.Time {
	kind, last := corev1.PodReady, pod.CreationTimestamp.Time
	if pod.Spec.NodeName == "" {
		kind = corev1.PodScheduled
	}
	for _, c := range pod.Status.Conditions {
		if (c.Type == kind || c.Type == corev1.PodScheduled) && c.LastTransitionTime.After(last) {
			last = c.LastTransitionTime.Time
		}
	}
	return last
}

// describePods returns a problem for each group, those with most pods first.
func describePods(groups map[[3]string]*faulty) []Problem {
	var all []*faulty
	for _, group := range groups {
		all = append(all, group)
	}
	slices.SortFunc(all, func(a, b *faulty) int {
		return cmp.Or(strings.Compare(a.peer, b.peer), cmp.Compare(len(b.pods), len(a.pods)),
			strings.Compare(a.diagnosis.Reason.Reason, b.diagnosis.Reason.Reason), strings.Compare(a.actor, b.actor))
	})
	var found []Problem
	shown, rest := map[string]int{}, map[string]*faulty{}
	for _, group := range all {
		if shown[group.peer]++; shown[group.peer] > maxReasons {
			if rest[group.peer] == nil {
				rest[group.peer] = group
				continue
			}
			rest[group.peer].pods = append(rest[group.peer].pods, group.pods...)
			continue
		}
		found = append(found, group.problem(joinReason(group.diagnosis.Reason.Reason, plaintext.Within(group.diagnosis.Message, maxText))))
	}
	for _, group := range all {
		if rest[group.peer] == group {
			found = append(found, group.problem(fmt.Sprintf("They have %d further reasons; that of the first is %s.", shown[group.peer]-maxReasons, group.diagnosis.Reason.Reason)))
		}
	}
	return found
}

func (f *faulty) problem(message string) Problem {
	first := f.pods[0]
	var names []string
	for _, pod := range f.pods {
		names = append(names, pod.Namespace+"/"+pod.Name)
	}
	object := "Pod " + names[0]
	if len(names) > 1 {
		object = fmt.Sprintf("%d Pods: %s", len(names), plaintext.Names(names, named))
	}
	action := fmt.Sprintf("The cause of one, and who can correct it: longshorectl explain -n %s pod/%s", first.Namespace, first.Name)
	return Problem{Peer: f.peer, Object: object, Message: message, Actor: f.actor, Action: action}
}
