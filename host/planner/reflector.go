package planner

import (
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/forge/remote"
	"github.com/longshore-dev/longshore/host/forge/virtualkubelet"
)

// resourcePod is the resource of pods in the arguments of a virtual kubelet.
const resourcePod = "pod"

// reflectedResources are the resources of kinds in the arguments of a virtual kubelet.
var reflectedResources = map[string]string{
	kindConfigMap: "configmap", kindSecret: "secret", kindClaim: "persistentvolumeclaim", kindService: "service", "Pod": resourcePod,
}

// reflector is how a virtual kubelet reflects a resource.
type reflector struct {
	policy     offloadingv1beta1.ReflectionType
	isDisabled bool
}

// readReflectors returns the reflectors of the arguments of a virtual kubelet, by resource.
func readReflectors(vn *offloadingv1beta1.VirtualNode) map[string]reflector {
	arguments, reflectors := virtualkubelet.Arguments(vn), map[string]reflector{}
	for _, resource := range reflectedResources {
		r := reflector{policy: offloadingv1beta1.DenyList}
		if value := virtualkubelet.ValueOf(arguments, virtualkubelet.TypeFlag(resource)); value != "" {
			r.policy = offloadingv1beta1.ReflectionType(value)
		}
		workers, err := strconv.Atoi(virtualkubelet.ValueOf(arguments, virtualkubelet.WorkersFlag(resource)))
		r.isDisabled = err == nil && workers == 0
		reflectors[resource] = r
	}
	return reflectors
}

// reflector returns how a virtual node, which may be nil, reflects a resource.
func (n *virtualNode) reflector(resource string) reflector {
	if n == nil {
		return reflector{policy: offloadingv1beta1.DenyList}
	}
	return n.reflectors[resource]
}

// withholds reports whether a virtual node, which may be nil, reflects no Secrets of a type.
func (n *virtualNode) withholds(secretType string) bool {
	var arguments []string
	if n != nil {
		arguments = virtualkubelet.Arguments(n.VirtualNode)
	}
	return secretType != "" && slices.Contains(virtualkubelet.WithheldSecretTypes(arguments), secretType)
}

func (n *virtualNode) describeDisabled(resource string) string {
	return fmt.Sprintf("virtual node %q reflects no %s (%s=0)", n.Name, resource, virtualkubelet.WorkersFlag(resource))
}

// keepsHere returns why an object does not follow a pod to a virtual node, which may be nil, or ""; and
// who can correct it. The object is nil if it is the root CA, of which nothing else is known.
func (n *virtualNode) keepsHere(kind string, object *metav1.PartialObjectMetadata) (why, who string) {
	if kind == kindClaim {
		return "", "" // its class and its volume decide
	}
	resource := reflectedResources[kind]
	reflector := n.reflector(resource)
	switch {
	case reflector.isDisabled:
		return n.describeDisabled(resource), Operator
	case object == nil:
		return "", ""
	}
	policy := reflector.policy
	if kind == kindConfigMap && object.Name == remote.RootCAConfigMapName {
		policy = engine.Explicit
	}
	skipped, err := engine.IsSkipped(policy, object)
	switch {
	case err != nil:
		return err.Error(), Owner
	case skipped && policy == offloadingv1beta1.AllowList:
		return fmt.Sprintf("virtual node %q needs the annotation %s on it (%s=%s)", n.Name, offloadingv1beta1.AllowReflectionAnnotation,
			virtualkubelet.TypeFlag(resource), offloadingv1beta1.AllowList), Owner
	case skipped:
		return "it has the annotation " + offloadingv1beta1.SkipReflectionAnnotation, Owner
	case kind == kindSecret && object.Annotations[corev1.ServiceAccountNameKey] != "":
		return "it is the token of a service account of this cluster", Owner
	case kind == kindSecret && n.withholds(remote.SecretTypeOfName(object.Name)):
		return "Secrets of its type, " + remote.SecretTypeOfName(object.Name) + ", are not reflected (reflection.secretTypesNotReflected)", Operator
	default:
		return "", ""
	}
}
