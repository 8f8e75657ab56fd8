package mirror

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
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

// A name of a Service of this cluster is not that of one of the provider.
func TestAnExternalNameOfAnOffloadedNamespaceIsTranslated(t *testing.T) {
	for name, tc := range map[string]struct {
		name, want string
		steps      []string
	}{
		"an offloaded namespace": {"db.data.svc.cluster.local", "db.data-rome.svc.cluster.local", []string{"apply"}},
		"another namespace":      {"db.other.svc", "db.other.svc", []string{"apply", engine.ReasonFailedReflection}},
		"a name of the Internet": {"db.example.com", "db.example.com", []string{"apply"}},
	} {
		t.Run(name, func(t *testing.T) {
			local := serviceOf(corev1.ServiceTypeExternalName, "")
			local.Spec.ExternalName = tc.name
			in := input(local, nil)
			in.RemoteNamespaceOf = func(namespace string) (string, bool) { return namespace + "-rome", namespace == "data" }
			d := define(service, "")
			assert.Equal(t, tc.steps, steps(t, d, in))
			actions, err := d.Decide(in)
			require.NoError(t, err)
			config, isService := actions[0].(engine.Apply).Config.(*applycorev1.ServiceApplyConfiguration)
			require.True(t, isService)
			assert.Equal(t, tc.want, *config.Spec.ExternalName)
		})
	}
}

// lookups are those of the Services with these names, one list for each related kind.
func lookups(related ...[]string) []func(string) client.Object {
	var all []func(string) client.Object
	for _, names := range related {
		all = append(all, func(name string) client.Object {
			if !slices.Contains(names, name) {
				return nil
			}
			return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}}
		})
	}
	return all
}

// A Service of the provider gets nothing of the consumer.
func TestWhatNeedsAServiceIsThereWithItOnly(t *testing.T) {
	begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	named := func(annotations ...string) metav1.ObjectMeta {
		meta := annotated(annotations...)
		meta.Labels = map[string]string{discoveryv1.LabelServiceName: "ledger"}
		return meta
	}
	backend := networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "ledger"}}
	rule := networkingv1.IngressRule{IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
		Paths: []networkingv1.HTTPIngressPath{{Backend: networkingv1.IngressBackend{Resource: &corev1.TypedLocalObjectReference{}}}, {Backend: backend}},
	}}}
	slice := func(annotations ...string) client.Object {
		return &discoveryv1.EndpointSlice{ObjectMeta: named(annotations...)}
	}
	ofIngress := func(spec networkingv1.IngressSpec, annotations ...string) client.Object {
		return &networkingv1.Ingress{ObjectMeta: named(annotations...), Spec: spec}
	}
	const allow = offloadingv1beta1.AllowReflectionAnnotation
	slices, ingresses := define(endpointSlice, ""), define(ingress, "")
	ledger := []string{"ledger"}
	for name, tc := range map[string]struct {
		d             engine.Definition
		object        client.Object
		here, sent    []string
		first, second []string
	}{
		"endpoints":                               {slices, slice(), ledger, ledger, []string{"apply"}, nil},
		"endpoints without Service":               {slices, &discoveryv1.EndpointSlice{ObjectMeta: annotated()}, nil, nil, []string{"apply"}, nil},
		"endpoints that the user wants":           {slices, slice(allow), ledger, nil, []string{"apply"}, nil},
		"endpoints whose Service is not sent":     {slices, slice(), ledger, nil, nil, []string{engine.ReasonReflectionDisabled, "delete"}},
		"endpoints whose Service does not exist":  {slices, slice(), nil, nil, nil, []string{engine.ReasonReflectionDisabled, "delete"}},
		"an Ingress":                              {ingresses, ofIngress(networkingv1.IngressSpec{DefaultBackend: &backend}), ledger, ledger, []string{"apply"}, nil},
		"an Ingress whose Service does not exist": {ingresses, ofIngress(networkingv1.IngressSpec{DefaultBackend: &backend}), nil, nil, []string{"apply"}, nil},
		"an Ingress whose Service is not sent":    {ingresses, ofIngress(networkingv1.IngressSpec{DefaultBackend: &backend}), ledger, nil, nil, []string{engine.ReasonReflectionDisabled, "delete"}},
		"a path whose Service is not sent":        {ingresses, ofIngress(networkingv1.IngressSpec{Rules: []networkingv1.IngressRule{{}, rule}}), ledger, nil, nil, []string{engine.ReasonReflectionDisabled, "delete"}},
		"an Ingress that the user wants":          {ingresses, ofIngress(networkingv1.IngressSpec{DefaultBackend: &backend}, allow), ledger, nil, []string{"apply"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			in := input(tc.object, managed(tc.d.Resource().Remote.New()))
			in.Facts.Now = begin
			in.Related = lookups(tc.here, tc.sent)
			if tc.d == engine.Definition(slices) {
				in.Related = lookups(tc.here, nil, nil, tc.sent)
			}
			assert.Equal(t, tc.first, steps(t, tc.d, in), "at first")
			if tc.second == nil {
				return
			}
			in.Memory = waiting{begin}
			in.Facts.Now = begin.Add(parentGrace - time.Second)
			assert.Empty(t, steps(t, tc.d, in))
			in.Facts.Now = begin.Add(parentGrace)
			assert.Equal(t, tc.second, steps(t, tc.d, in))
			in.Related = lookups(ledger, ledger, nil, ledger)
			actions, err := tc.d.Decide(in)
			require.NoError(t, err)
			require.Len(t, actions, 2)
			assert.Equal(t, engine.Remember{}, actions[1], "the next wait begins anew")
		})
	}
	related := ingresses.Resource().Related
	assert.Equal(t, []string{"web"}, related[ingressSentService].Keys(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "ledger"}},
		[]client.Object{ofIngress(networkingv1.IngressSpec{DefaultBackend: &backend}), ofIngress(networkingv1.IngressSpec{})}))
}
