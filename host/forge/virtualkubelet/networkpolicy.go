package virtualkubelet

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

const (
	flagListenPort = "--listen-port"
	// defaultListenPort is the port of the kubelet API.
	defaultListenPort = 10250
)

// NetworkAccess is what NetworkPolicies of virtual kubelets allow beside the kubelet API.
type NetworkAccess struct {
	// MetricsFrom may read the metrics; empty means all.
	MetricsFrom []networkingv1.NetworkPolicyPeer `json:"metricsFrom,omitempty"`
	// Egress is not restricted if it is empty.
	Egress []networkingv1.NetworkPolicyEgressRule `json:"egress,omitempty"`
}

// ParseNetworkAccess parses JSON with the fields of NetworkAccess. It returns nil for an empty text.
func ParseNetworkAccess(text string) (*NetworkAccess, error) {
	if text == "" {
		return nil, nil
	}
	access := &NetworkAccess{}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(access); err != nil {
		return nil, fmt.Errorf("parsing %q: %w", text, err)
	}
	return access, nil
}

// NetworkPolicy builds the NetworkPolicy of a virtual kubelet, which has the name of its
// Deployment. API servers call the kubelet API from addresses that no selector knows, so that it is
// open to all: it authenticates its clients itself. Probes of kubelets are not affected.
func NetworkPolicy(deployment *appsv1.Deployment, access *NetworkAccess) *networkingv1.NetworkPolicy {
	policy := &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{
			Name: deployment.Name, Namespace: deployment.Namespace, Labels: deployment.Labels,
			// The garbage collector deletes it with the Deployment.
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(deployment, appsv1.SchemeGroupVersion.WithKind("Deployment"))},
		},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: *deployment.Spec.Selector,
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
			Egress:      access.Egress,
		},
	}
	if len(access.Egress) > 0 {
		policy.Spec.PolicyTypes = append(policy.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
	}
	for i := range deployment.Spec.Template.Spec.Containers {
		container := &deployment.Spec.Template.Spec.Containers[i]
		if container.Name == containerName {
			policy.Spec.Ingress = append(policy.Spec.Ingress, networkingv1.NetworkPolicyIngressRule{
				Ports: []networkingv1.NetworkPolicyPort{kubeletAPI(container.Args)},
			})
		}
		if slices.ContainsFunc(container.Ports, func(port corev1.ContainerPort) bool { return port.Name == metricsPortName }) {
			policy.Spec.Ingress = append(policy.Spec.Ingress, networkingv1.NetworkPolicyIngressRule{
				Ports: []networkingv1.NetworkPolicyPort{{Protocol: ptr.To(corev1.ProtocolTCP), Port: ptr.To(intstr.FromString(metricsPortName))}},
				From:  access.MetricsFrom,
			})
		}
	}
	return policy
}

// kubeletAPI returns the port of the kubelet API.
func kubeletAPI(args []string) networkingv1.NetworkPolicyPort {
	port, err := strconv.ParseUint(flagValue(args, flagListenPort), 10, 16)
	if err != nil || port == 0 {
		port = defaultListenPort
	}
	return networkingv1.NetworkPolicyPort{Protocol: ptr.To(corev1.ProtocolTCP), Port: ptr.To(intstr.FromInt32(int32(port)))}
}
