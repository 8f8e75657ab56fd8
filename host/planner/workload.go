package planner

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// WorkloadsOf returns the objects of which a pod may be a replica: the pod itself, its controller, and
// what the name of that says about its own controller: that of a ReplicaSet ends with the hash of the
// Deployment's template, and that of a Job of a CronJob with a time.
func WorkloadsOf(pod *corev1.Pod) []Workload {
	workloads := []Workload{{"Pod", pod.Namespace, pod.Name}}
	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		return workloads
	}
	workloads = append(workloads, Workload{owner.Kind, pod.Namespace, owner.Name})
	switch cut := strings.LastIndexByte(owner.Name, '-'); {
	case cut <= 0:
	case owner.Kind == "ReplicaSet" && owner.Name[cut+1:] == pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey]:
		workloads = append(workloads, Workload{"Deployment", pod.Namespace, owner.Name[:cut]})
	case owner.Kind == "Job" && strings.Trim(owner.Name[cut+1:], "0123456789") == "":
		workloads = append(workloads, Workload{"CronJob", pod.Namespace, owner.Name[:cut]})
	}
	return workloads
}
