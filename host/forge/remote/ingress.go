package remote

import (
	"maps"

	networkingv1 "k8s.io/api/networking/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	applynetworkingv1 "k8s.io/client-go/applyconfigurations/networking/v1"
)

// ingressClassAnnotation is the older form of spec.ingressClassName. The API server rejects an
// Ingress with both.
const ingressClassAnnotation = "kubernetes.io/ingress.class"

// Ingress builds the remote Ingress. namespace is the remote namespace; labels and
// annotations are the filtered ones. ingressClass is the provider's; empty selects the
// provider's default class. The class of the local Ingress is dropped, as a field and as an
// annotation.
func Ingress(local *networkingv1.Ingress, namespace string, labels, annotations map[string]string, origin Origin, ingressClass string) *applynetworkingv1.IngressApplyConfiguration {
	return applynetworkingv1.Ingress(local.Name, namespace).
		WithLabels(ownedLabels(labels, origin)).
		WithAnnotations(withoutKey(annotations, ingressClassAnnotation)).
		WithSpec(ingressSpec(&local.Spec, ingressClass))
}

func ingressSpec(in *networkingv1.IngressSpec, ingressClass string) *applynetworkingv1.IngressSpecApplyConfiguration {
	spec := applynetworkingv1.IngressSpec()
	if ingressClass != "" {
		spec.WithIngressClassName(ingressClass)
	}
	if in.DefaultBackend != nil {
		spec.WithDefaultBackend(ingressBackend(in.DefaultBackend))
	}
	for i := range in.TLS {
		tls := applynetworkingv1.IngressTLS().WithHosts(in.TLS[i].Hosts...)
		if in.TLS[i].SecretName != "" {
			tls.WithSecretName(in.TLS[i].SecretName)
		}
		spec.WithTLS(tls)
	}
	for i := range in.Rules {
		spec.WithRules(ingressRule(&in.Rules[i]))
	}
	return spec
}

func ingressRule(in *networkingv1.IngressRule) *applynetworkingv1.IngressRuleApplyConfiguration {
	rule := applynetworkingv1.IngressRule()
	if in.Host != "" {
		rule.WithHost(in.Host)
	}
	if in.HTTP == nil {
		return rule
	}
	http := applynetworkingv1.HTTPIngressRuleValue()
	for i := range in.HTTP.Paths {
		path := applynetworkingv1.HTTPIngressPath().WithBackend(ingressBackend(&in.HTTP.Paths[i].Backend))
		path.PathType = in.HTTP.Paths[i].PathType
		if in.HTTP.Paths[i].Path != "" {
			path.WithPath(in.HTTP.Paths[i].Path)
		}
		http.WithPaths(path)
	}
	return rule.WithHTTP(http)
}

func ingressBackend(in *networkingv1.IngressBackend) *applynetworkingv1.IngressBackendApplyConfiguration {
	backend := applynetworkingv1.IngressBackend()
	if in.Service != nil {
		port := applynetworkingv1.ServiceBackendPort()
		if in.Service.Port.Name != "" {
			port.WithName(in.Service.Port.Name)
		}
		if in.Service.Port.Number != 0 {
			port.WithNumber(in.Service.Port.Number)
		}
		backend.WithService(applynetworkingv1.IngressServiceBackend().WithName(in.Service.Name).WithPort(port))
	}
	if in.Resource != nil {
		resource := applycorev1.TypedLocalObjectReference().WithKind(in.Resource.Kind).WithName(in.Resource.Name)
		resource.APIGroup = in.Resource.APIGroup
		backend.WithResource(resource)
	}
	return backend
}

func withoutKey(in map[string]string, key string) map[string]string {
	if _, found := in[key]; !found {
		return in
	}
	out := maps.Clone(in)
	delete(out, key)
	return out
}
