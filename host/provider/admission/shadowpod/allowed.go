package shadowpod

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// Allowed holds what consumers may choose for their pods. A name "*" allows all names. Both lists are
// empty by default: consumers of the wire send neither. Policies of the provider, which are called
// afterwards, choose without these lists.
type Allowed struct {
	// PriorityClasses are names of PriorityClasses: a pod of any class with a higher value preempts
	// pods of the provider.
	PriorityClasses []string
	// Schedulers are names of schedulers beside the default one: a pod with the name of one that does
	// not exist stays Pending, and another scheduler may have other rules.
	Schedulers []string
}

// check denies a ShadowPod that chooses more than is allowed. It is pure.
func (a *Allowed) check(raw []byte) admission.Response {
	var shadow struct {
		Metadata struct {
			Namespace string `json:"namespace"`
		} `json:"metadata"`
		Spec struct {
			Pod struct {
				PriorityClassName string           `json:"priorityClassName"`
				SchedulerName     string           `json:"schedulerName"`
				Affinity          *corev1.Affinity `json:"affinity"`
			} `json:"pod"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(raw, &shadow); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("decoding the ShadowPod: %w", err))
	}
	isAllowed := func(names []string, name string) bool {
		return name == "" || slices.Contains(names, name) || slices.Contains(names, "*")
	}
	pod := &shadow.Spec.Pod
	if !isAllowed(a.PriorityClasses, pod.PriorityClassName) {
		return admission.Denied(fmt.Sprintf("the provider allows no consumer the PriorityClass %q: its administrator can add the class to --consumer-priority-classes", pod.PriorityClassName))
	}
	if pod.SchedulerName != corev1.DefaultSchedulerName && !isAllowed(a.Schedulers, pod.SchedulerName) {
		return admission.Denied(fmt.Sprintf("the provider allows no consumer the scheduler %q: its administrator can add the name to --consumer-schedulers", pod.SchedulerName))
	}
	if keepsOthersAway(pod.Affinity, shadow.Metadata.Namespace) {
		return admission.Denied("required podAntiAffinity with namespaceSelector, or with other namespaces, is not allowed: " +
			"it would keep pods of others from nodes of the provider. Remove these fields: without them, the term is about the pod's own namespace")
	}
	return admission.Allowed("")
}

// keepsOthersAway reports whether an affinity keeps pods of other namespaces from nodes: the scheduler
// respects required anti-affinity of the pods that run for all pods that come.
func keepsOthersAway(affinity *corev1.Affinity, namespace string) bool {
	if affinity == nil || affinity.PodAntiAffinity == nil {
		return false
	}
	return slices.ContainsFunc(affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, func(term corev1.PodAffinityTerm) bool {
		return term.NamespaceSelector != nil || slices.ContainsFunc(term.Namespaces, func(name string) bool { return name != namespace })
	})
}
