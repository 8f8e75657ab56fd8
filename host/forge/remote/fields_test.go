package remote_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/ptr"

	"github.com/longshore-dev/longshore/host/forge/remote"
	"github.com/longshore-dev/longshore/host/internal/testkit"
)

var rome = remote.Origin{HomeClusterID: "rome", ProviderClusterID: "milan", NodeName: "milan-1"}

// A Kubernetes upgrade that adds a field fails here until it is decided what becomes
// of it. Carried fields are found by forging, not listed, so the list cannot lie.
func TestEveryFieldOfAPodSpecIsCarriedOrDroppedWithAReason(t *testing.T) {
	dropped := remote.DroppedPodFields()
	seen := map[string]bool{}
	spec := reflect.TypeFor[corev1.PodSpec]()
	for i := range spec.NumField() {
		name := spec.Field(i).Name
		seen[name] = true
		pod := &corev1.Pod{}
		testkit.Fill(reflect.ValueOf(&pod.Spec).Elem().Field(i), 5)
		if name == "HostUsers" {
			// Only the value that isolates travels.
			pod.Spec.HostUsers = ptr.To(false)
		}
		require.False(t, reflect.ValueOf(pod.Spec).Field(i).IsZero(), "%s: the test must set the field", name)
		base := remote.PodDraft(&corev1.Pod{}, "ns", rome)
		draft := remote.PodDraft(pod, "ns", rome)
		carried := !reflect.DeepEqual(reflect.ValueOf(base.Spec.Pod).Field(i).Interface(), reflect.ValueOf(draft.Spec.Pod).Field(i).Interface())
		reason, listed := dropped[name]
		if name == "AutomountServiceAccountToken" {
			assert.Equal(t, ptr.To(false), draft.Spec.Pod.AutomountServiceAccountToken, "forced, whatever the pod says")
			continue
		}
		if carried {
			assert.False(t, listed, "%s is carried and listed as dropped", name)
			continue
		}
		assert.NotEmpty(t, reason, "%s is neither carried nor listed in DroppedPodFields: decide, and record it in deviations.md", name)
	}
	for name := range dropped {
		assert.True(t, seen[name], "%s is listed as dropped and is not a field of a pod spec", name)
	}
}

func TestEveryFieldOfAServiceSpecIsCarriedOrDroppedWithAReason(t *testing.T) {
	// These travel only with the value that they need.
	values := map[string]any{"ClusterIP": corev1.ClusterIPNone, "LoadBalancerClass": ptr.To("x")}
	dropped := remote.DroppedServiceFields()
	seen := map[string]bool{}
	spec := reflect.TypeFor[corev1.ServiceSpec]()
	for i := range spec.NumField() {
		name := spec.Field(i).Name
		seen[name] = true
		service := &corev1.Service{}
		testkit.Fill(reflect.ValueOf(&service.Spec).Elem().Field(i), 5)
		if value, special := values[name]; special {
			reflect.ValueOf(&service.Spec).Elem().Field(i).Set(reflect.ValueOf(value))
		}
		class := ""
		if name == "LoadBalancerClass" {
			// The consumer's class is replaced by the provider's.
			service.Spec.Type, class = corev1.ServiceTypeLoadBalancer, "metal"
		}
		spec := remote.Service(service, "ns", nil, nil, rome, class).Spec
		field := reflect.ValueOf(*spec).FieldByName(name)
		empty := reflect.ValueOf(*remote.Service(&corev1.Service{}, "ns", nil, nil, rome, "").Spec).FieldByName(name)
		carried := field.IsValid() && !reflect.DeepEqual(field.Interface(), empty.Interface())
		_, listed := dropped[name]
		assert.NotEqual(t, carried, listed, "%s: exactly one of carried and listed in DroppedServiceFields", name)
	}
	for name, reason := range dropped {
		assert.True(t, seen[name], "%s is listed as dropped and is not a field of a Service spec", name)
		assert.NotEmpty(t, reason, name)
	}
	assert.True(t, slices.Contains(fieldNames(reflect.TypeFor[applycorev1.ServiceSpecApplyConfiguration]()), "Ports"), "the walk depends on equal names")
}

func TestEveryFieldOfAnIngressIsCarried(t *testing.T) {
	local := &networkingv1.Ingress{}
	testkit.Fill(reflect.ValueOf(&local.Spec).Elem(), 16)
	body, err := json.Marshal(remote.Ingress(local, "ns", nil, nil, rome, *local.Spec.IngressClassName).Spec)
	require.NoError(t, err)
	got := networkingv1.IngressSpec{}
	require.NoError(t, json.Unmarshal(body, &got))
	assert.Equal(t, local.Spec, got, "only the class is another one, which this test gives both")
}

func fieldNames(of reflect.Type) []string {
	names := make([]string, 0, of.NumField())
	for i := range of.NumField() {
		names = append(names, of.Field(i).Name)
	}
	return names
}
