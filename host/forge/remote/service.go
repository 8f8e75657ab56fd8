package remote

import (
	corev1 "k8s.io/api/core/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
)

// ForceRemoteNodePortAnnotation is "true" on a local Service that must have the same node
// ports in the provider.
const ForceRemoteNodePortAnnotation = "liqo.io/force-remote-node-port"

// Service builds the remote Service. namespace is the remote namespace; labels and
// annotations are the filtered ones. loadBalancerClass is set on load balancers unless it is
// empty.
func Service(local *corev1.Service, namespace string, labels, annotations map[string]string, origin Origin, loadBalancerClass string) *applycorev1.ServiceApplyConfiguration {
	return applycorev1.Service(local.Name, namespace).
		WithLabels(ownedLabels(labels, origin)).
		WithAnnotations(annotations).
		WithSpec(serviceSpec(local, loadBalancerClass))
}

// serviceSpec has the fields that Liqo sends. A test fails for fields that are neither here
// nor in DroppedServiceFields.
func serviceSpec(local *corev1.Service, loadBalancerClass string) *applycorev1.ServiceSpecApplyConfiguration {
	in := local.Spec.DeepCopy()
	spec := applycorev1.ServiceSpec().
		WithType(in.Type).
		WithSelector(in.Selector).
		WithPorts(servicePorts(local)...).
		WithPublishNotReadyAddresses(in.PublishNotReadyAddresses).
		WithLoadBalancerSourceRanges(in.LoadBalancerSourceRanges...)
	spec.AllocateLoadBalancerNodePorts = in.AllocateLoadBalancerNodePorts
	spec.InternalTrafficPolicy = in.InternalTrafficPolicy
	spec.IPFamilyPolicy = in.IPFamilyPolicy
	// Liqo leaves it out.
	spec.TrafficDistribution = in.TrafficDistribution
	if in.ExternalName != "" {
		spec.WithExternalName(in.ExternalName)
	}
	if in.ExternalTrafficPolicy != "" {
		spec.WithExternalTrafficPolicy(in.ExternalTrafficPolicy)
	}
	if in.SessionAffinity != "" {
		spec.WithSessionAffinity(in.SessionAffinity)
	}
	if config := in.SessionAffinityConfig; config != nil && config.ClientIP != nil {
		clientIP := applycorev1.ClientIPConfig()
		clientIP.TimeoutSeconds = config.ClientIP.TimeoutSeconds
		// Without it, the provider's default timeout would apply.
		spec.WithSessionAffinityConfig(applycorev1.SessionAffinityConfig().WithClientIP(clientIP))
	}
	if in.ClusterIP == corev1.ClusterIPNone {
		spec.WithClusterIP(corev1.ClusterIPNone)
	}
	if in.Type == corev1.ServiceTypeLoadBalancer && loadBalancerClass != "" {
		spec.WithLoadBalancerClass(loadBalancerClass)
	}
	return spec
}

// DroppedServiceFields returns the fields of a Service spec that are not sent, with the
// reasons.
func DroppedServiceFields() map[string]string {
	return map[string]string{
		"ClusterIPs":          "addresses of the consumer; clusterIP marks headless Services",
		"IPFamilies":          "the consumer's API server always sets them, and a provider with other families would reject the Service",
		"ExternalIPs":         "addresses of the consumer's network",
		"LoadBalancerIP":      "an address of the consumer's load balancer",
		"HealthCheckNodePort": "a port of the consumer's nodes",
	}
}

// servicePorts copies the ports. An absent nodePort keeps the port that the provider
// allocated; zero clears it if the Service no longer has one.
func servicePorts(local *corev1.Service) []*applycorev1.ServicePortApplyConfiguration {
	force := local.Annotations[ForceRemoteNodePortAnnotation] == "true"
	ports := make([]*applycorev1.ServicePortApplyConfiguration, 0, len(local.Spec.Ports))
	for i := range local.Spec.Ports {
		in := &local.Spec.Ports[i]
		port := applycorev1.ServicePort().WithPort(in.Port).WithTargetPort(in.TargetPort)
		if in.Protocol != "" {
			port.WithProtocol(in.Protocol)
		}
		if in.Name != "" {
			port.WithName(in.Name)
		}
		if in.AppProtocol != nil {
			port.WithAppProtocol(*in.AppProtocol)
		}
		if in.NodePort == 0 || force {
			port.WithNodePort(in.NodePort)
		}
		ports = append(ports, port)
	}
	return ports
}
