package quota

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// What the API server adds to a pod counts before the pod exists.
func TestCompleteWith(t *testing.T) {
	limitRange := func(items ...corev1.LimitRangeItem) corev1.LimitRange {
		return corev1.LimitRange{Spec: corev1.LimitRangeSpec{Limits: items}}
	}
	container := corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, DefaultRequest: cpu("1").Requests}
	for name, tc := range map[string]struct {
		container corev1.ResourceRequirements
		overhead  corev1.ResourceList
		ranges    []corev1.LimitRange
		want      string
	}{
		"nothing is added":                         {container: cpu("100m"), want: "100m"},
		"an overhead":                              {container: cpu("100m"), overhead: cpu("2").Requests, want: "2100m"},
		"a default":                                {ranges: []corev1.LimitRange{limitRange(container)}, want: "1"},
		"a request instead of the default":         {container: cpu("100m"), ranges: []corev1.LimitRange{limitRange(container)}, want: "100m"},
		"a limit instead of the default":           {container: resources(nil, map[corev1.ResourceName]string{"cpu": "4"}), ranges: []corev1.LimitRange{limitRange(container)}, want: "4"},
		"the first of two defaults":                {ranges: []corev1.LimitRange{limitRange(container), limitRange(corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, DefaultRequest: cpu("3").Requests})}, want: "1"},
		"no default of pods, which have none":      {container: cpu("100m"), ranges: []corev1.LimitRange{limitRange(corev1.LimitRangeItem{Type: corev1.LimitTypePod, DefaultRequest: cpu("3").Requests})}, want: "100m"},
		"a default of a container and an overhead": {overhead: cpu("2").Requests, ranges: []corev1.LimitRange{limitRange(container)}, want: "3"},
	} {
		t.Run(name, func(t *testing.T) {
			shadow := shadowPod("web", "1")
			shadow.Spec.Pod.Containers[0].Resources = tc.container
			before := shadow.DeepCopy()
			requests, err := Requests(&completeWith(shadow, tc.overhead, defaultRequests(tc.ranges)).Spec.Pod)
			require.NoError(t, err)
			assert.Equal(t, 0, requests.Cpu().Cmp(resource.MustParse(tc.want)), requests.Cpu())
			assert.Equal(t, before, shadow, "the ShadowPod of the caller is as it was")
		})
	}
}

// What a webhook of the provider adds is known when the pod exists.
func TestBeyond(t *testing.T) {
	spec := func(containers ...corev1.Container) *corev1.PodSpec { return &corev1.PodSpec{Containers: containers} }
	web, proxy := corev1.Container{Name: "web", Resources: cpu("1")}, corev1.Container{Name: "proxy", Resources: cpu("500m")}
	pod := func(containers ...corev1.Container) *corev1.Pod { return &corev1.Pod{Spec: *spec(containers...)} }
	assert.Empty(t, Beyond(spec(web), pod(web)))
	assert.Empty(t, Beyond(spec(web, proxy), pod(web)), "a pod whose resize is under way")
	held := pod(web)
	held.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "web", Resources: &corev1.ResourceRequirements{Requests: cpu("2").Requests}}}
	kept := Beyond(spec(web), held)
	assert.Equal(t, "2", kept.Cpu().String(), "a kubelet that does not make a pod smaller")
	assert.Len(t, kept, 1)
	held.Status.ContainerStatuses[0].Resources.Requests = cpu("1e30000000").Requests
	assert.Empty(t, Beyond(spec(web), held), "an amount that takes minutes to compute with")
	beyond := Beyond(spec(web), pod(web, proxy))
	assert.Len(t, beyond, 1, "the pod itself counts as before")
	assert.Equal(t, "1500m", beyond.Cpu().String())
}

// Finished ShadowPods use nothing of the grant, but storage of the API server.
func TestFinishedShadowPodsAreBounded(t *testing.T) {
	usage, now := newUsage(), time.Unix(1e9, 0)
	for i := range maxShadowPods {
		finished := observedAs(testUser, fmt.Sprintf("job-%d", i), "1")
		finished.Status.Phase = corev1.PodSucceeded
		usage.observe(finished)
	}
	quota := &offloadingv1beta1.Quota{Spec: offloadingv1beta1.QuotaSpec{Resources: list("10", 10)}}
	quota.Status.Used = corev1.ResourceList{}
	require.ErrorContains(t, reserve(quota, usage, nil, shadowPod("web", "1"), now), "delete pods that have finished")
	usage.remove(observedAs(testUser, "job-7", "2"), true, now)
	require.NoError(t, reserve(quota, usage, nil, shadowPod("web", "1"), now))
}

// A ShadowPod counts what its pod requests, and no less than its own spec.
func TestThePodOfAShadowPodCounts(t *testing.T) {
	usage := newUsage()
	shadow := observedAs(testUser, "web", "1")
	usage.observe(shadow)
	assert.Equal(t, "1", usage.sum.Cpu().String())
	shadow.ResourceVersion, shadow.Status.Requests = "2", cpu("1500m").Requests
	usage.observe(shadow)
	assert.Equal(t, "1500m", usage.sum.Cpu().String())
	shadow.ResourceVersion, shadow.Status.Requests = "3", cpu("10m").Requests
	usage.observe(shadow)
	assert.Equal(t, "1", usage.sum.Cpu().String())
	usage.remove(shadow, true, shadow.CreationTimestamp.Time)
	assert.Empty(t, usage.sum)
}

// What pods hold that have not ended is no more for others, and a replica that writes the status keeps it.
func TestWhatEndingPodsHoldIsTaken(t *testing.T) {
	usage, now := newUsage(), time.Unix(1e9, 0)
	quota := &offloadingv1beta1.Quota{Spec: offloadingv1beta1.QuotaSpec{Resources: list("10", 10)}}
	quota.Status.Used, quota.Status.Ending = corev1.ResourceList{}, list("9", 1)
	require.ErrorContains(t, reserve(quota, usage, nil, shadowPod("web", "2"), now), "used cpu=9")
	status, err := refresh(quota, usage, now)
	require.NoError(t, err)
	assert.Equal(t, list("9", 1), status.Ending)
	require.NoError(t, reserve(quota, usage, nil, shadowPod("web", "1"), now))
}
