package mirror

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
)

func serviceOf(serviceType corev1.ServiceType, clusterIP string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metadata, Spec: corev1.ServiceSpec{Type: serviceType, ClusterIP: clusterIP}}
}

func TestServicesThatAreReplaced(t *testing.T) {
	withIP := serviceOf(corev1.ServiceTypeClusterIP, "10.0.0.1")
	headless := serviceOf(corev1.ServiceTypeClusterIP, corev1.ClusterIPNone)
	classified := func(class string, fields string) *corev1.Service {
		s := serviceOf(corev1.ServiceTypeLoadBalancer, "10.0.0.1")
		if class != "" {
			s.Spec.LoadBalancerClass = &class
		}
		s.ManagedFields = []metav1.ManagedFieldsEntry{{
			Manager: engine.FieldManager, Operation: metav1.ManagedFieldsOperationApply, FieldsV1: metav1.NewFieldsV1(fields),
		}}
		return s
	}
	const ours, theirs = `{"f:spec":{"f:type":{},"f:loadBalancerClass":{}}}`, `{"f:spec":{"f:type":{}}}`
	testReplacements(t, define(service, ""), map[string]replacement[*corev1.Service]{
		"another address":                      {withIP, serviceOf(corev1.ServiceTypeClusterIP, "10.5.0.1"), false},
		"a Service that became headless":       {headless, withIP, true},
		"a headless Service that got an IP":    {withIP, headless, true},
		"a headless Service":                   {headless, headless, false},
		"a headless one that is external now":  {serviceOf(corev1.ServiceTypeExternalName, ""), headless, false},
		"an external one that is headless now": {headless, serviceOf(corev1.ServiceTypeExternalName, ""), false},
		"the same load balancer class":         {classified("fast", ""), classified("fast", ours), false},
		"another load balancer class":          {classified("slow", ""), classified("fast", ours), true},
		"a load balancer class":                {classified("fast", ""), classified("", theirs), true},
		"no load balancer class any more":      {classified("", ""), classified("fast", ours), true},
		"the provider's own class":             {classified("", ""), classified("fast", theirs), false},
		"no load balancer any more":            {withIP, classified("fast", ours), false},
		"a load balancer now":                  {classified("fast", ""), withIP, false},
	})
}

func TestTheServiceOfTheAPIServerIsNotReflected(t *testing.T) {
	in := input(serviceOf(corev1.ServiceTypeClusterIP, "10.0.0.1"), nil)
	in.Key = engine.Key{Namespace: "default", Name: "kubernetes"}
	assert.Equal(t, []string{"keep: it is the Service of the API server"}, steps(t, define(service, ""), in))
}

func TestWhatIsAppliedOfAService(t *testing.T) {
	local := serviceOf(corev1.ServiceTypeLoadBalancer, "10.0.0.1")
	local.Spec.Selector = map[string]string{"app": "web"}
	local.Spec.Ports = []corev1.ServicePort{
		{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080), Protocol: corev1.ProtocolTCP},
		{Name: "admin", Port: 81, TargetPort: intstr.FromString("admin"), Protocol: corev1.ProtocolTCP, NodePort: 30081},
	}
	var got struct {
		Spec struct {
			ClusterIP, LoadBalancerClass string
			Selector                     map[string]string
			Ports                        []map[string]any
		}
	}
	applied(t, define(service, "fast"), input(local, nil), &got)
	assert.Empty(t, got.Spec.ClusterIP, "an address of the consumer has no meaning in the provider")
	assert.Equal(t, "fast", got.Spec.LoadBalancerClass)
	assert.Equal(t, local.Spec.Selector, got.Spec.Selector)
	require.Len(t, got.Spec.Ports, 2)
	assert.EqualValues(t, 0, got.Spec.Ports[0]["nodePort"], "an explicit zero (T46)")
	assert.NotContains(t, got.Spec.Ports[1], "nodePort", "the provider's allocation stays (T46)")
}
