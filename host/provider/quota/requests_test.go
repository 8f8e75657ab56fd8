package quota

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

func resources(requests, limits map[corev1.ResourceName]string) corev1.ResourceRequirements {
	parse := func(values map[corev1.ResourceName]string) corev1.ResourceList {
		parsed := corev1.ResourceList{}
		for name, value := range values {
			parsed[name] = resource.MustParse(value)
		}
		return parsed
	}
	return corev1.ResourceRequirements{Requests: parse(requests), Limits: parse(limits)}
}

func cpu(value string) corev1.ResourceRequirements {
	return resources(map[corev1.ResourceName]string{"cpu": value}, nil)
}

// TestRequests has what Kubernetes counts of a pod, and cases by which a consumer would get more than it was
// granted.
func TestRequests(t *testing.T) {
	always := ptr.To(corev1.ContainerRestartPolicyAlways)
	for name, tc := range map[string]struct {
		spec   corev1.PodSpec
		want   corev1.ResourceList
		denial string
	}{
		"containers run side by side": {
			spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: cpu("100m")}, {Resources: cpu("250m")}}}, want: list("350m", 1),
		},
		"init containers run one after the other": {
			spec: corev1.PodSpec{
				InitContainers: []corev1.Container{{Resources: cpu("100m")}, {Resources: cpu("900m")}}, Containers: []corev1.Container{{Resources: cpu("100m")}},
			},
			want: list("900m", 1),
		},
		"a sidecar runs beside the containers": {
			spec: corev1.PodSpec{
				InitContainers: []corev1.Container{{Resources: cpu("900m"), RestartPolicy: always}}, Containers: []corev1.Container{{Resources: cpu("200m")}},
			},
			want: list("1100m", 1),
		},
		"the overhead counts": {
			spec: corev1.PodSpec{Overhead: cpu("50m").Requests, Containers: []corev1.Container{{Resources: cpu("100m")}}}, want: list("150m", 1),
		},
		"a limit without a request is a request": {
			spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: resources(nil, map[corev1.ResourceName]string{"cpu": "8"})}}}, want: list("8", 1),
		},
		"nothing is requested": {
			spec: corev1.PodSpec{Containers: []corev1.Container{{}}}, want: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")},
		},
		"negative requests": {
			spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: cpu("4")}, {Resources: cpu("-4")}}}, denial: "spec.containers[1].resources.requests: cpu=-4: amounts cannot be negative",
		},
		"a negative overhead": {
			spec: corev1.PodSpec{Overhead: cpu("-1").Requests, Containers: []corev1.Container{{}}}, denial: "spec.overhead: cpu=-1: amounts cannot be negative",
		},
		"negative requests of the pod": {
			spec: corev1.PodSpec{Resources: ptr.To(cpu("-1")), Containers: []corev1.Container{{}}}, denial: "spec.resources.requests: cpu=-1: amounts cannot be negative",
		},
		"requests of the pod": {
			spec: corev1.PodSpec{Resources: ptr.To(cpu("1")), Containers: []corev1.Container{{Resources: cpu("100m")}}}, want: list("1", 1),
		},
		"requests of the pod below those of its containers": {
			spec: corev1.PodSpec{Resources: ptr.To(cpu("1m")), Containers: []corev1.Container{{Resources: cpu("64")}}}, want: list("64", 1),
		},
		"nothing of many resources": {
			spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: resources(map[corev1.ResourceName]string{"cpu": "1", "example.com/a": "0", "example.com/b": "0"}, nil)}}},
			want: list("1", 1),
		},
		"a limit that nothing may compute with, and requests": {
			spec:   corev1.PodSpec{Containers: []corev1.Container{{Resources: resources(map[corev1.ResourceName]string{"cpu": "1"}, map[corev1.ResourceName]string{"cpu": "1e30000000"})}}},
			denial: "spec.containers[0].resources.limits: cpu=1e30000000: amounts can be at most",
		},
		"no containers": {denial: "pod has no containers"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Requests(&tc.spec)
			if tc.denial != "" {
				require.ErrorContains(t, err, tc.denial)
				return
			}
			require.NoError(t, err)
			assert.True(t, equal(tc.want, got), "%v", got)
		})
	}
}

func TestCheckLimits(t *testing.T) {
	both := map[corev1.ResourceName]string{"cpu": "1", "memory": "1Gi"}
	for name, tc := range map[string]struct {
		init, container  corev1.ResourceRequirements
		none, soft, hard string
	}{
		"nothing":                     {init: resources(both, both), soft: "does not request cpu", hard: "does not request cpu"},
		"only cpu":                    {init: resources(both, both), container: cpu("1"), soft: "does not request memory", hard: "does not request memory"},
		"requests":                    {init: resources(both, both), container: resources(both, nil), hard: "does not have the same limit"},
		"requests and equal limits":   {init: resources(both, both), container: resources(both, both)},
		"limits only":                 {init: resources(both, both), container: resources(nil, both)},
		"an init container without":   {container: resources(both, both), soft: `"init" does not request cpu`, hard: `"init" does not request cpu`},
		"a limit above the request":   {init: resources(both, both), container: resources(both, map[corev1.ResourceName]string{"cpu": "2", "memory": "1Gi"}), hard: `"main" requests cpu=1`},
		"a limit of another resource": {init: resources(both, both), container: resources(both, map[corev1.ResourceName]string{"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"})},
	} {
		t.Run(name, func(t *testing.T) {
			spec := &corev1.PodSpec{
				InitContainers: []corev1.Container{{Name: "init", Resources: tc.init}}, Containers: []corev1.Container{{Name: "main", Resources: tc.container}},
			}
			for enforcement, want := range map[offloadingv1beta1.LimitsEnforcement]string{
				offloadingv1beta1.NoLimitsEnforcement: tc.none, offloadingv1beta1.SoftLimitsEnforcement: tc.soft, offloadingv1beta1.HardLimitsEnforcement: tc.hard,
			} {
				err := checkLimits(spec, enforcement)
				if want == "" {
					require.NoErrorf(t, err, "%s", enforcement)
				} else {
					require.ErrorContains(t, err, want)
				}
			}
		})
	}
}
