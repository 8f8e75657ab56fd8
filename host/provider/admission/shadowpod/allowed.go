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
		Spec struct {
			Pod struct {
				PriorityClassName string `json:"priorityClassName"`
				SchedulerName     string `json:"schedulerName"`
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
	return admission.Allowed("")
}
