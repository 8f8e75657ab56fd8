package remote_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/longshore-dev/longshore/host/forge/remote"
)

var owned = map[string]string{"app": "web", "offloading.liqo.io/origin": "rome", "offloading.liqo.io/destination": "milan"}

func TestConfigMap(t *testing.T) {
	local := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "kube-root-ca.crt", Namespace: "shop", Labels: map[string]string{"secret": "stays"}},
		Data:       map[string]string{"a": "1"}, BinaryData: map[string][]byte{"b": {1}}, Immutable: ptr.To(true),
	}
	config := remote.ConfigMap(local, "shop-rome", map[string]string{"app": "web", "offloading.liqo.io/origin": "user"}, map[string]string{"note": "n"}, rome)
	assert.Equal(t, "kube-root-ca.crt.rome", *config.Name)
	assert.Equal(t, "shop-rome", *config.Namespace)
	assert.Equal(t, owned, config.Labels, "ownership wins over the user's labels, and only what was let through goes")
	assert.Equal(t, map[string]string{"note": "n"}, config.Annotations)
	assert.Equal(t, local.Data, config.Data)
	assert.Equal(t, local.BinaryData, config.BinaryData)
	assert.True(t, *config.Immutable)
}

func TestSecret(t *testing.T) {
	for name, tc := range map[string]struct {
		local      corev1.Secret
		wantType   corev1.SecretType
		wantLabels map[string]string
	}{
		"a secret keeps its type": {
			corev1.Secret{Type: corev1.SecretTypeTLS, Data: map[string][]byte{"tls.crt": {1}}},
			corev1.SecretTypeTLS, owned,
		},
		"a token is opaque to the provider and names its account": {
			corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{corev1.ServiceAccountNameKey: "builder"}},
				Type:       corev1.SecretTypeServiceAccountToken,
			},
			corev1.SecretTypeOpaque,
			map[string]string{
				"app": "web", "offloading.liqo.io/origin": "rome", "offloading.liqo.io/destination": "milan",
				"kubernetes.io/service-account.name": "builder",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			config := remote.Secret(&tc.local, "ns", map[string]string{"app": "web"}, nil, rome)
			assert.Equal(t, tc.wantType, *config.Type)
			assert.Equal(t, tc.wantLabels, config.Labels)
			assert.Equal(t, tc.local.Data, config.Data)
			assert.Nil(t, config.Immutable)
		})
	}
}

func TestNodePorts(t *testing.T) {
	for name, tc := range map[string]struct {
		nodePort   int32
		annotation string
		want       *int32
	}{
		"zero without a node port clears one (T46)":              {0, "", ptr.To[int32](0)},
		"the consumer's is left out, the provider's stays (T46)": {30080, "", nil},
		"the consumer's is forced":                               {30080, "true", ptr.To[int32](30080)},
		"only the exact word forces":                             {30080, "True", nil},
	} {
		t.Run(name, func(t *testing.T) {
			service := &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80, NodePort: tc.nodePort}}}}
			if tc.annotation != "" {
				service.Annotations = map[string]string{remote.ForceRemoteNodePortAnnotation: tc.annotation}
			}
			assert.Equal(t, tc.want, remote.Service(service, "ns", nil, nil, rome, "").Spec.Ports[0].NodePort)
		})
	}
}

func TestLoadBalancerClass(t *testing.T) {
	for name, tc := range map[string]struct {
		serviceType corev1.ServiceType
		class       string
		want        *string
	}{
		"the provider's class on a load balancer": {corev1.ServiceTypeLoadBalancer, "metal", ptr.To("metal")},
		"none when none is configured":            {corev1.ServiceTypeLoadBalancer, "", nil},
		"none on other types":                     {corev1.ServiceTypeClusterIP, "metal", nil},
	} {
		t.Run(name, func(t *testing.T) {
			service := &corev1.Service{Spec: corev1.ServiceSpec{Type: tc.serviceType, LoadBalancerClass: ptr.To("local")}}
			assert.Equal(t, tc.want, remote.Service(service, "ns", nil, nil, rome, tc.class).Spec.LoadBalancerClass)
		})
	}
}

func TestServiceGolden(t *testing.T) {
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop"},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, Selector: map[string]string{"app": "web"},
			ClusterIP: "10.0.0.9", ClusterIPs: []string{"10.0.0.9"}, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			IPFamilyPolicy: ptr.To(corev1.IPFamilyPolicySingleStack), ExternalIPs: []string{"192.0.2.1"},
			SessionAffinity:       corev1.ServiceAffinityClientIP,
			SessionAffinityConfig: &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: ptr.To[int32](60)}},
			TrafficDistribution:   ptr.To(corev1.ServiceTrafficDistributionPreferSameZone),
			ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal, HealthCheckNodePort: 31000,
			InternalTrafficPolicy:         ptr.To(corev1.ServiceInternalTrafficPolicyCluster),
			AllocateLoadBalancerNodePorts: ptr.To(true), LoadBalancerSourceRanges: []string{"192.0.2.0/24"},
			Ports: []corev1.ServicePort{
				{Name: "http", Port: 80, TargetPort: intstr.FromString("web"), Protocol: corev1.ProtocolTCP, AppProtocol: ptr.To("http"), NodePort: 30080},
				{Name: "dns", Port: 53, TargetPort: intstr.FromInt32(5353), Protocol: corev1.ProtocolUDP},
			},
		},
	}
	before := service.DeepCopy()
	golden(t, "loadbalancer.service.yaml", remote.Service(service, "shop-rome", map[string]string{"app": "web"}, nil, rome, "metal"))
	assert.Equal(t, before, service)
}
