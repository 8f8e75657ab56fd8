package virtualkubelet

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/vkflag"
)

const (
	// SharedPrefix begins the names of the Deployments of shared processes.
	SharedPrefix = "vk-shared-"
	// sharedHashLength is the number of characters of the hash in such a name.
	sharedHashLength = 10

	flagSharedProcess = "--shared-process"
	nodeVariable      = "VIRTUALNODE_NAME"
)

// Shared returns the Deployment of the process that a VirtualNode shares: its own template without
// the values of one node. VirtualNodes of a namespace whose templates differ in nothing else have
// the same Deployment; its name contains a hash of the rest. An error means that the template has no
// container.
func Shared(vn *offloadingv1beta1.VirtualNode) (*offloadingv1beta1.DeploymentTemplate, error) {
	if vn.Spec.Template == nil || len(vn.Spec.Template.Spec.Template.Spec.Containers) == 0 {
		return nil, fmt.Errorf("spec.template of VirtualNode %s/%s has no container and cannot be shared", vn.Namespace, vn.Name)
	}
	shared := vn.Spec.Template.DeepCopy()
	shared.Name, shared.Namespace = "", vn.Namespace
	pod := &shared.Spec.Template.Spec
	pod.ServiceAccountName = ""
	container := &pod.Containers[0]
	container.Args = slices.DeleteFunc(container.Args, func(argument string) bool { return isOfNode(argument) })
	container.Env = slices.DeleteFunc(container.Env, func(variable corev1.EnvVar) bool { return variable.Name == nodeVariable })
	labels := sharedLabels(shared)
	for _, of := range labels {
		delete(of, offloadingv1beta1.VirtualNodeLabel)
	}
	encoded, err := json.Marshal(shared)
	if err != nil {
		return nil, fmt.Errorf("encoding spec.template: %w", err)
	}
	sum := sha256.Sum256(encoded)
	shared.Name = SharedPrefix + hex.EncodeToString(sum[:])[:sharedHashLength]
	for _, of := range labels {
		of[offloadingv1beta1.SharedProcessKey] = shared.Name
	}
	pod.ServiceAccountName = shared.Name
	container.Args = append(container.Args, flagSharedProcess+"="+shared.Name)
	return shared, nil
}

func isOfNode(argument string) bool {
	name, _, _ := strings.Cut(argument, "=")
	return vkflag.IsOfNode(name)
}

// sharedLabels returns the labels of a Deployment, of its pods, and those that select its pods. Maps
// that are nil are created, except in constraints that select other pods.
func sharedLabels(deployment *offloadingv1beta1.DeploymentTemplate) []map[string]string {
	pods := &deployment.Spec.Template
	if deployment.Labels == nil {
		deployment.Labels = map[string]string{}
	}
	if pods.Labels == nil {
		pods.Labels = map[string]string{}
	}
	if deployment.Spec.Selector == nil {
		deployment.Spec.Selector = &metav1.LabelSelector{}
	}
	if deployment.Spec.Selector.MatchLabels == nil {
		deployment.Spec.Selector.MatchLabels = map[string]string{}
	}
	labels := []map[string]string{deployment.Labels, pods.Labels, deployment.Spec.Selector.MatchLabels}
	for _, constraint := range pods.Spec.TopologySpreadConstraints {
		if constraint.LabelSelector != nil && constraint.LabelSelector.MatchLabels[offloadingv1beta1.VirtualNodeLabel] != "" {
			labels = append(labels, constraint.LabelSelector.MatchLabels)
		}
	}
	return labels
}
