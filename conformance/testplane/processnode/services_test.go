package processnode

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// service is one that the node plays, unless it is changed.
func service(change func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "web"}, Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeExternalName, ExternalName: "127.9.0.1", Selector: map[string]string{"app": "web"},
		Ports: []corev1.ServicePort{{Name: "https", Port: 443, TargetPort: intstr.FromString("https")}},
	}}
	if change != nil {
		change(s)
	}
	return s
}

// backend is a pod of that Service that is ready, unless it is changed.
func backend(ip string, changes ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "web-" + ip, Labels: map[string]string{"app": "web", "more": "x"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Ports: []corev1.ContainerPort{{Name: "health", ContainerPort: 8081}, {Name: "https", ContainerPort: 9443}}}}},
		Status:     corev1.PodStatus{PodIP: ip, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
	for _, change := range changes {
		change(pod)
	}
	return pod
}

func unready(pod *corev1.Pod) { pod.Status.Conditions[0].Status = corev1.ConditionFalse }

func leaving(pod *corev1.Pod) { pod.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }

func TestRoutesOfAService(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*corev1.Service)
		pods   []*corev1.Pod
		want   map[int32]route
	}{
		"the pods that are ready": {
			pods: []*corev1.Pod{backend("127.1.0.2"), backend("127.1.0.1"), backend("127.1.0.3", unready)},
			want: map[int32]route{443: {"127.9.0.1:443", []string{"127.1.0.1:9443", "127.1.0.2:9443"}}},
		},
		"no pod": {want: map[int32]route{443: {listen: "127.9.0.1:443"}}},
		"a terminating pod is passed over": {
			pods: []*corev1.Pod{backend("127.1.0.1", leaving), backend("127.1.0.2")},
			want: map[int32]route{443: {"127.9.0.1:443", []string{"127.1.0.2:9443"}}},
		},
		"a terminating pod serves if no other pod does": {
			pods: []*corev1.Pod{backend("127.1.0.1", leaving), backend("127.1.0.2", unready), backend("127.1.0.3", unready, leaving)},
			want: map[int32]route{443: {"127.9.0.1:443", []string{"127.1.0.1:9443"}}},
		},
		"other pods": {
			pods: []*corev1.Pod{
				backend("127.1.0.1", func(p *corev1.Pod) { p.Namespace = "other" }), backend("127.1.0.2", func(p *corev1.Pod) { p.Labels = nil }),
				backend(""), backend("127.1.0.4", func(p *corev1.Pod) { p.Spec.Containers[0].Ports = nil }),
				backend("127.1.0.5", func(p *corev1.Pod) { p.Spec.Containers[0].Ports[1].Protocol = corev1.ProtocolUDP }),
			},
			want: map[int32]route{443: {listen: "127.9.0.1:443"}},
		},
		"ports by number, by default, and of UDP": {
			change: func(s *corev1.Service) {
				s.Spec.Ports = []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}, {Port: 81}, {Port: 53, Protocol: corev1.ProtocolUDP}}
			},
			pods: []*corev1.Pod{backend("127.1.0.1")},
			want: map[int32]route{80: {"127.9.0.1:80", []string{"127.1.0.1:8080"}}, 81: {"127.9.0.1:81", []string{"127.1.0.1:81"}}},
		},
		"a ClusterIP":                    {change: func(s *corev1.Service) { s.Spec.Type, s.Spec.ExternalName = corev1.ServiceTypeClusterIP, "" }},
		"a name of another domain":       {change: func(s *corev1.Service) { s.Spec.ExternalName = "web.example.com" }},
		"an address of a network":        {change: func(s *corev1.Service) { s.Spec.ExternalName = "10.0.0.1" }},
		"a Service that selects nothing": {change: func(s *corev1.Service) { s.Spec.Selector = nil }},
	} {
		t.Run(name, func(t *testing.T) {
			want := map[servicePort]route{}
			for port, r := range tc.want {
				want[servicePort{"apps", "web", port}] = r
			}
			assert.Equal(t, want, routes([]*corev1.Service{service(tc.change)}, tc.pods))
		})
	}
}
