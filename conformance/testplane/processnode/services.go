package processnode

import (
	"cmp"
	"net"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// servicePort names one port of a Service.
type servicePort struct {
	namespace, name string
	port            int32
}

// route is the address of a port of a Service, and its backends; both are
// host:port.
type route struct {
	listen   string
	backends []string
}

// routes decides what the node serves for the Services: every TCP port of those that are
// played, with the endpoints among the pods.
func routes(services []*corev1.Service, pods []*corev1.Pod) map[servicePort]route {
	found := map[servicePort]route{}
	for _, service := range services {
		if !played(service) {
			continue
		}
		for i := range service.Spec.Ports {
			port := &service.Spec.Ports[i]
			if cmp.Or(port.Protocol, corev1.ProtocolTCP) != corev1.ProtocolTCP {
				continue
			}
			found[servicePort{service.Namespace, service.Name, port.Port}] = route{
				listen:   hostPort(service.Spec.ExternalName, port.Port),
				backends: endpoints(service, port, pods),
			}
		}
	}
	return found
}

// played reports whether the node plays the Service: one of type ExternalName that
// selects pods and whose name is a loopback address. A ClusterIP is out of reach on
// loopback, and the API server refuses loopback addresses in EndpointSlices.
func played(service *corev1.Service) bool {
	ip := net.ParseIP(service.Spec.ExternalName)
	return service.Spec.Type == corev1.ServiceTypeExternalName && len(service.Spec.Selector) > 0 && ip != nil && ip.IsLoopback()
}

// endpoints are those that kube-proxy would choose from: the pods that are ready; when
// there is none, those that are ready and on their way out, since they still serve.
func endpoints(service *corev1.Service, port *corev1.ServicePort, pods []*corev1.Pod) []string {
	selector := labels.SelectorFromSet(service.Spec.Selector)
	var ready, leaving []string
	for _, pod := range pods {
		if pod.Namespace != service.Namespace || !selector.Matches(labels.Set(pod.Labels)) || pod.Status.PodIP == "" || !podReady(pod) {
			continue
		}
		number, ok := targetPort(port, &pod.Spec)
		switch {
		case !ok:
		case pod.DeletionTimestamp.IsZero():
			ready = append(ready, hostPort(pod.Status.PodIP, number))
		default:
			leaving = append(leaving, hostPort(pod.Status.PodIP, number))
		}
	}
	if len(ready) == 0 {
		ready = leaving
	}
	slices.Sort(ready)
	return ready
}

func podReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// targetPort is the port of the pod's containers that a Service's port stands for; false
// when it is named and no container has one of the name.
func targetPort(port *corev1.ServicePort, spec *corev1.PodSpec) (int32, bool) {
	if port.TargetPort.Type == intstr.Int {
		return cmp.Or(port.TargetPort.IntVal, port.Port), true
	}
	for i := range spec.Containers {
		for _, candidate := range spec.Containers[i].Ports {
			if candidate.Name == port.TargetPort.StrVal && cmp.Or(candidate.Protocol, corev1.ProtocolTCP) == corev1.ProtocolTCP {
				return candidate.ContainerPort, true
			}
		}
	}
	return 0, false
}

func hostPort(host string, port int32) string {
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}
