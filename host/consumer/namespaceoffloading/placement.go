package namespaceoffloading

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	schedulingcorev1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/podend"
)

const (
	reasonAsStrategy = "AsStrategy"
	actionCount      = "CountPods"
	// maxCounted bounds the pods that are listed and the events about them.
	maxCounted = 200
	// settling is how long pods are counted again after a change of the strategy: pods that were
	// created at the same time get a node later.
	settling = 30 * time.Second
	// recount is how often pods that do not follow the strategy are counted again.
	recount = time.Minute
	// labelDelay is how long after the label of a namespace a pod may be created without the
	// webhook: times have seconds, and API servers learn of labels by a watch.
	labelDelay = 5 * time.Second
)

// OffloadedAt returns when a namespace was offloaded: when its label was set, as far as the
// namespace's managed fields say, or else when its NamespaceOffloading was created. The namespace
// may be nil.
func OffloadedAt(namespace *corev1.Namespace, nso *offloadingv1beta1.NamespaceOffloading) time.Time {
	at := nso.CreationTimestamp.Time
	if namespace == nil {
		return at
	}
	for _, entry := range namespace.ManagedFields {
		if entry.Time != nil && entry.FieldsV1 != nil && entry.Time.After(at) &&
			strings.Contains(entry.FieldsV1.GetRawString(), `"f:`+offloadingv1beta1.SchedulingEnabledLabel+`"`) {
			at = entry.Time.Time
		}
	}
	return at
}

// PrecedesOffloading reports whether a pod was created before its namespace was offloaded, as far as
// times of seconds tell.
func PrecedesOffloading(pod *corev1.Pod, offloadedAt time.Time) bool {
	return !pod.CreationTimestamp.After(offloadedAt.Add(labelDelay))
}

// Contradiction returns why a pod runs where the strategy of its namespace does not permit it, or "".
// isVirtual is whether its node is virtual. Pods that a DaemonSet or a kubelet creates for one node, and
// those whose RuntimeClass may choose a virtual node, contradict nothing. Neither do later pods that do not
// tolerate virtual nodes: policies may keep pods at home.
func Contradiction(strategy offloadingv1beta1.PodOffloadingStrategyType, pod *corev1.Pod, isVirtual bool, offloadedAt time.Time) string {
	isEnding := pod.DeletionTimestamp != nil || podend.IsTerminal(pod.Status.Phase)
	owner := metav1.GetControllerOf(pod)
	if isEnding || owner != nil && (owner.Kind == "DaemonSet" || owner.Kind == "Node") {
		return ""
	}
	switch strategy {
	case offloadingv1beta1.LocalPodOffloadingStrategyType:
		if pod.Spec.NodeName != "" && isVirtual && pod.Spec.RuntimeClassName == nil {
			return offloadingv1beta1.StrategyChangedReason
		}
	case offloadingv1beta1.RemotePodOffloadingStrategyType:
		return notRemote(pod, isVirtual, offloadedAt)
	case offloadingv1beta1.LocalAndRemotePodOffloadingStrategyType:
	}
	return ""
}

// notRemote returns why a pod is, or will be, on a node of this cluster, or "".
func notRemote(pod *corev1.Pod, isVirtual bool, offloadedAt time.Time) string {
	taint := corev1.Taint{Key: offloadingv1beta1.VirtualNodeTaintKey, Value: "true", Effect: corev1.TaintEffectNoExecute}
	tolerates := schedulingcorev1.TolerationsTolerateTaint(klog.Background(), pod.Spec.Tolerations, &taint, false)
	switch {
	case isVirtual || pod.Spec.NodeName == "" && tolerates:
		return ""
	case PrecedesOffloading(pod, offloadedAt):
		return offloadingv1beta1.CreatedBeforeOffloadingReason
	case tolerates:
		return offloadingv1beta1.StrategyChangedReason
	default:
		return ""
	}
}

// Repair returns the commands that create pods of a namespace again where its strategy says.
func Repair(namespace string, pods []corev1.Pod) string {
	const shown = 5
	var workloads, names []string
	isAlone := false
	for i := range pods {
		owner := metav1.GetControllerOf(&pods[i])
		hash := pods[i].Labels["pod-template-hash"]
		switch {
		case owner != nil && owner.Kind == "StatefulSet":
			workloads = append(workloads, "statefulset/"+owner.Name)
		case owner != nil && owner.Kind == "ReplicaSet" && hash != "" && strings.HasSuffix(owner.Name, "-"+hash):
			workloads = append(workloads, "deployment/"+strings.TrimSuffix(owner.Name, "-"+hash))
		default:
			isAlone = isAlone || owner == nil
			names = append(names, pods[i].Name)
		}
	}
	list := func(command string, arguments []string) string {
		slices.Sort(arguments)
		arguments = slices.Compact(arguments)
		text := command + " " + strings.Join(arguments[:min(len(arguments), shown)], " ")
		if more := len(arguments) - shown; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		return text
	}
	var commands []string
	if len(workloads) > 0 {
		commands = append(commands, list("kubectl rollout restart -n "+namespace, workloads))
	}
	if len(names) > 0 {
		commands = append(commands, list("kubectl delete pod -n "+namespace, names))
	}
	text := strings.Join(commands, "; ")
	if isAlone {
		text += ". Then create pods without a controller again"
	}
	return text
}

// placement returns the condition of the pods that run where the strategy does not permit it.
func placement(nso *offloadingv1beta1.NamespaceOffloading, pods []corev1.Pod, reasons map[string]bool, more bool) metav1.Condition {
	c := metav1.Condition{
		Type: offloadingv1beta1.PodsFollowStrategyCondition, Status: metav1.ConditionTrue, Reason: reasonAsStrategy,
		ObservedGeneration: nso.Generation, Message: "No pod is known that runs where the strategy does not permit it.",
	}
	if len(pods) == 0 {
		return c
	}
	where, cause := "in this cluster", "they were created before the namespace was offloaded"
	c.Status, c.Reason = metav1.ConditionFalse, offloadingv1beta1.CreatedBeforeOffloadingReason
	switch {
	case nso.Spec.PodOffloadingStrategy == offloadingv1beta1.LocalPodOffloadingStrategyType:
		where = "on virtual nodes"
		fallthrough
	case !reasons[offloadingv1beta1.CreatedBeforeOffloadingReason]:
		c.Reason, cause = offloadingv1beta1.StrategyChangedReason, "they were created when the strategy was another"
	case reasons[offloadingv1beta1.StrategyChangedReason]:
		cause = "they were created before the namespace was offloaded, or when the strategy was another"
	}
	count := fmt.Sprint(len(pods))
	if more {
		count += " or more"
	}
	c.Message = fmt.Sprintf("Pods that run %s although the strategy is %s: %s; %s. Create them again: %s.",
		where, nso.Spec.PodOffloadingStrategy, count, cause, Repair(nso.Namespace, pods))
	return c
}

// countPods sets the condition, and returns when it is to be counted again, or zero. Pods that are
// created later are placed by the webhook, so pods are listed after a change of the strategy, and
// while some do not follow it; such pods only, at most maxCounted.
func (r *Reconciler) countPods(ctx context.Context, s *scope) (time.Duration, []corev1.Pod, error) {
	nso, status := s.nso, &s.nso.Status
	if !nso.DeletionTimestamp.IsZero() || nso.Spec.PodOffloadingStrategy == offloadingv1beta1.LocalAndRemotePodOffloadingStrategyType {
		meta.RemoveStatusCondition(&status.Conditions, offloadingv1beta1.PodsFollowStrategyCondition)
		return 0, nil, nil
	}
	now := r.Clock.Now()
	last := meta.FindStatusCondition(status.Conditions, offloadingv1beta1.PodsFollowStrategyCondition)
	if last != nil && last.ObservedGeneration != nso.Generation {
		meta.RemoveStatusCondition(&status.Conditions, offloadingv1beta1.PodsFollowStrategyCondition)
		last = nil
	}
	if last != nil && last.Status == metav1.ConditionTrue && now.Sub(last.LastTransitionTime.Time) > settling {
		return 0, nil, nil
	}
	pods, reasons, more, err := r.listContradictions(ctx, s)
	if err != nil {
		return 0, nil, err
	}
	c := placement(nso, pods, reasons, more)
	c.LastTransitionTime = metav1.NewTime(now)
	meta.SetStatusCondition(&status.Conditions, c)
	if len(pods) > 0 {
		return recount, pods, nil
	}
	return settling / 2, nil, nil
}

// listContradictions lists pods that run where the strategy does not permit it, and their reasons.
func (r *Reconciler) listContradictions(ctx context.Context, s *scope) (found []corev1.Pod, reasons map[string]bool, more bool, err error) {
	isLocal := s.nso.Spec.PodOffloadingStrategy == offloadingv1beta1.LocalPodOffloadingStrategyType
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	options := &client.ListOptions{Namespace: s.nso.Namespace, Limit: maxCounted}
	if isLocal {
		client.MatchingLabels{offloadingv1beta1.LocalPodLabel: "true"}.ApplyToList(options)
	} else {
		options.FieldSelector = outside(s.nodes)
		if err := r.APIReader.Get(ctx, client.ObjectKey{Name: s.nso.Namespace}, namespace); client.IgnoreNotFound(err) != nil {
			return nil, nil, false, fmt.Errorf("reading namespace %q: %w", s.nso.Namespace, err)
		}
	}
	offloadedAt := OffloadedAt(&corev1.Namespace{ObjectMeta: namespace.ObjectMeta}, s.nso)
	pods := &corev1.PodList{}
	if err := r.APIReader.List(ctx, pods, options); err != nil {
		return nil, nil, false, fmt.Errorf("listing the pods of namespace %q: %w", s.nso.Namespace, err)
	}
	reasons = map[string]bool{}
	for i := range pods.Items {
		if reason := Contradiction(s.nso.Spec.PodOffloadingStrategy, &pods.Items[i], s.nodes[pods.Items[i].Spec.NodeName] != nil, offloadedAt); reason != "" {
			found, reasons[reason] = append(found, pods.Items[i]), true
		}
	}
	return found, reasons, pods.Continue != "" && len(found) > 0, nil
}

// outside selects the pods that are on none of the nodes and have not ended.
func outside(nodes map[string]*corev1.Node) fields.Selector {
	all := []fields.Selector{
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)), fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)),
	}
	for name := range nodes {
		all = append(all, fields.OneTermNotEqualSelector("spec.nodeName", name))
	}
	return fields.AndSelectors(all...)
}

// reportPlacement records what changed: on the NamespaceOffloading, and on each pod that does not
// follow its strategy.
func (r *Reconciler) reportPlacement(before *offloadingv1beta1.NamespaceOffloadingStatus, nso *offloadingv1beta1.NamespaceOffloading, pods []corev1.Pod) {
	was := meta.FindStatusCondition(before.Conditions, offloadingv1beta1.PodsFollowStrategyCondition)
	is := meta.FindStatusCondition(nso.Status.Conditions, offloadingv1beta1.PodsFollowStrategyCondition)
	if is == nil || is.Status == metav1.ConditionTrue || was != nil && was.Message == is.Message {
		return
	}
	r.Events.Eventf(nso, nil, corev1.EventTypeWarning, is.Reason, actionCount, "%s", is.Message)
	for i := range pods {
		r.Events.Eventf(&pods[i], nil, corev1.EventTypeWarning, is.Reason, actionCount, "%s",
			fmt.Sprintf("The strategy of namespace %q is %s, which does not permit where the pod runs. Create it again: %s.",
				nso.Namespace, nso.Spec.PodOffloadingStrategy, Repair(nso.Namespace, pods[i:i+1])))
	}
}
