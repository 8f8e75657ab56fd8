package shadowpod

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme"
)

// A consumer deletes ShadowPods whose pods ignore the signal to end: it has used its grant until they do.
func TestPodsThatDoNotEndCount(t *testing.T) {
	const user = "rome-1234"
	endingFor := func(since time.Duration, grace int64) *corev1.Pod {
		s := ownedShadowPod(func(s *offloadingv1beta1.ShadowPod) {
			s.UID, s.Labels[offloadingv1beta1.CreatorUserLabel] = "shadow-1", user
			s.Spec.Pod.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
		})
		pod := ownPod(s, corev1.PodRunning, time.Hour)
		pod.DeletionGracePeriodSeconds = ptr.To(grace)
		pod.DeletionTimestamp = &metav1.Time{Time: noon.Add(-since).Add(time.Duration(grace) * time.Second)}
		pod.Finalizers = []string{"example.com/test"} // The fake client keeps no other pod that is being deleted.
		return pod
	}
	aged := func(change func(*corev1.Pod)) *corev1.Pod {
		pod := endingFor(time.Minute, 3600)
		change(pod)
		return pod
	}
	owner := ownedShadowPod(func(s *offloadingv1beta1.ShadowPod) { s.UID = "shadow-1" })
	later := ownedShadowPod(func(s *offloadingv1beta1.ShadowPod) { s.UID = "shadow-2" })
	for name, tc := range map[string]struct {
		pod    *corev1.Pod
		shadow *offloadingv1beta1.ShadowPod
		before string
		want   string
		again  time.Duration
	}{
		"one that ends in its time":                   {pod: endingFor(10*time.Second, 30), want: "0", again: 20 * time.Second},
		"one that does not":                           {pod: endingFor(time.Minute, 3600), want: "4"},
		"one whose kubelet does not answer":           {pod: endingFor(time.Minute, 0), want: "4"},
		"one that its ShadowPod counts":               {pod: endingFor(time.Minute, 3600), shadow: owner, want: "0"},
		"one of an earlier ShadowPod":                 {pod: endingFor(time.Minute, 3600), shadow: later, want: "4"},
		"one that has ended":                          {pod: aged(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), want: "0"},
		"one of another user":                         {pod: aged(func(p *corev1.Pod) { p.Labels[offloadingv1beta1.CreatorUserLabel] = "oslo" }), want: "0"},
		"one that runs":                               {pod: aged(func(p *corev1.Pod) { p.DeletionTimestamp, p.Finalizers = nil, nil }), want: "0"},
		"none any more":                               {pod: aged(func(p *corev1.Pod) { p.DeletionTimestamp, p.Finalizers = nil, nil }), before: "4", want: "0"},
		"a grace period beyond what a duration holds": {pod: aged(func(p *corev1.Pod) { p.DeletionGracePeriodSeconds = ptr.To[int64](1 << 62) }), want: "4"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := scheme.New()
			require.NoError(t, err)
			grant := &offloadingv1beta1.Quota{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "rome", UID: "quota-1"}}
			grant.Spec.User = user
			if tc.before != "" {
				grant.Status.Ending = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(tc.before)}
			}
			objects := []client.Object{grant, tc.pod}
			if tc.shadow != nil {
				objects = append(objects, tc.shadow)
			}
			c := fake.NewClientBuilder().WithScheme(s).WithObjects(objects...).WithStatusSubresource(grant).Build()
			require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(grant), grant))
			result, err := (&Ending{Client: c, Clock: testclock.NewFakePassiveClock(noon)}).Reconcile(t.Context(), grant)
			require.NoError(t, err)
			assert.Equal(t, tc.again, result.RequeueAfter)
			require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(grant), grant))
			assert.Equal(t, tc.want, grant.Status.Ending.Cpu().String())
		})
	}
}
