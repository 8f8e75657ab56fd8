package shadowpod

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
)

const endingUser = "rome-1234"

// endingClient returns a client of a cluster with a Quota of a user.
func endingClient(t *testing.T, before corev1.ResourceList, objects ...client.Object) (client.Client, *offloadingv1beta1.Quota) {
	t.Helper()
	grant := &offloadingv1beta1.Quota{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "rome", UID: "quota-1"}}
	grant.Spec.User, grant.Status.Ending = endingUser, before
	grant.Spec.Resources = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
	c := fakeclient.Builder(append(objects, grant)...).Build()
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(grant), grant))
	return c, grant
}

// A consumer deletes ShadowPods whose pods ignore the signal to end: it has used its grant until they do.
func TestPodsThatDoNotEndCount(t *testing.T) {
	endingFor := func(since time.Duration, grace int64) *corev1.Pod {
		s := ownedShadowPod(func(s *offloadingv1beta1.ShadowPod) {
			s.UID, s.Labels[offloadingv1beta1.CreatorUserLabel] = "shadow-1", endingUser
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
	running := func(change func(*corev1.Pod)) *corev1.Pod {
		return aged(func(p *corev1.Pod) {
			p.DeletionTimestamp, p.DeletionGracePeriodSeconds, p.Finalizers = nil, nil, nil
			if change != nil {
				change(p)
			}
		})
	}
	owner := ownedShadowPod(func(s *offloadingv1beta1.ShadowPod) { s.UID = "shadow-1" })
	later := ownedShadowPod(func(s *offloadingv1beta1.ShadowPod) { s.UID = "shadow-2" })
	for name, tc := range map[string]struct {
		pod    *corev1.Pod
		shadow *offloadingv1beta1.ShadowPod
		before string
		want   string
	}{
		"one whose ShadowPod was deleted a moment ago": {pod: endingFor(0, 30), want: "4"},
		"one that takes its time":                      {pod: endingFor(time.Minute, 3600), want: "4"},
		"one whose kubelet does not answer":            {pod: endingFor(time.Minute, 0), want: "4"},
		"one that its ShadowPod counts":                {pod: endingFor(time.Minute, 3600), shadow: owner, want: "0"},
		"one of an earlier ShadowPod":                  {pod: endingFor(time.Minute, 3600), shadow: later, want: "4"},
		"one that has ended":                           {pod: aged(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), want: "0"},
		"one of another user":                          {pod: aged(func(p *corev1.Pod) { p.Labels[offloadingv1beta1.CreatorUserLabel] = "oslo" }), want: "0"},
		"one that the garbage collector has not found": {pod: running(nil), want: "4"},
		"one that runs":                                {pod: running(nil), shadow: owner, want: "0"},
		"one that an administrator has kept":           {pod: running(func(p *corev1.Pod) { p.OwnerReferences = nil }), want: "0"},
		"none any more":                                {pod: running(nil), shadow: owner, before: "4", want: "0"},
		"a grace period beyond what a duration holds":  {pod: aged(func(p *corev1.Pod) { p.DeletionGracePeriodSeconds = ptr.To[int64](1 << 62) }), want: "4"},
	} {
		t.Run(name, func(t *testing.T) {
			before := corev1.ResourceList{}
			if tc.before != "" {
				before[corev1.ResourceCPU] = resource.MustParse(tc.before)
			}
			c, grant := endingClient(t, before, tc.pod, tc.shadow)
			_, err := (&Ending{Client: c}).Reconcile(t.Context(), grant)
			require.NoError(t, err)
			require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(grant), grant))
			assert.Equal(t, tc.want, grant.Status.Ending.Cpu().String())
		})
	}
}

// What is written, or what a webhook of an earlier version has dropped, is decided again.
func TestChangesOfWhatCounts(t *testing.T) {
	cpus := func(amount string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(amount)}
	}
	shadow := func(phase corev1.PodPhase, requests corev1.ResourceList) client.Object {
		s := &offloadingv1beta1.ShadowPod{}
		s.Status.Phase, s.Status.Requests, s.Status.Reason = phase, requests, string(phase)
		return s
	}
	grant := func(abandoned corev1.ResourceList) client.Object {
		q := &offloadingv1beta1.Quota{}
		q.Status.Abandoned, q.Status.Used = abandoned, cpus("1")
		return q
	}
	for name, tc := range map[string]struct {
		before, after client.Object
		changed       func(event.UpdateEvent) bool
		want          bool
	}{
		"a ShadowPod finishes":           {shadow(corev1.PodRunning, nil), shadow(corev1.PodFailed, nil), statusChanged, true},
		"its pod has more":               {shadow(corev1.PodRunning, nil), shadow(corev1.PodRunning, cpus("2")), statusChanged, true},
		"a ShadowPod in another form":    {shadow(corev1.PodRunning, cpus("2")), shadow(corev1.PodRunning, cpus("2000m")), statusChanged, false},
		"abandoned pods are dropped":     {grant(cpus("2")), grant(nil), abandonedChanged, true},
		"what else the webhook writes":   {grant(cpus("2")), grant(cpus("2")), abandonedChanged, false},
		"abandoned pods in another form": {grant(cpus("2")), grant(cpus("2000m")), abandonedChanged, false},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tc.want, tc.changed(event.UpdateEvent{ObjectOld: tc.before, ObjectNew: tc.after}))
		})
	}
}

// The webhook counts a ShadowPod that it has seen deleted until the Quota says that the manager has, too.
func TestTheQuotaSaysWhichDeletionsWereSeen(t *testing.T) {
	c, grant := endingClient(t, nil)
	key := client.ObjectKeyFromObject(grant)
	writes := 0
	counting := interceptor.NewClient(c.(client.WithWatch), interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, subresource string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			writes++
			return c.SubResource(subresource).Patch(ctx, object, patch, options...)
		},
	})
	e := &Ending{Client: counting}
	for _, step := range []struct {
		why       string
		deletions []string
		want      string
		writes    int
	}{
		{why: "nothing was deleted", want: "", writes: 0},
		{why: "hundreds of pods end at once", deletions: []string{"7", "9", "8"}, want: "9", writes: 1},
		{why: "nothing changed", want: "9", writes: 1},
		{why: "a version that is not known", deletions: []string{""}, want: "9", writes: 1},
		{why: "an event that came late", deletions: []string{"5"}, want: "9", writes: 1},
		{why: "one more", deletions: []string{"10"}, want: "10", writes: 2},
	} {
		for _, deletion := range step.deletions {
			e.note(key, deletion)
		}
		require.NoError(t, c.Get(t.Context(), key, grant))
		_, err := e.Reconcile(t.Context(), grant)
		require.NoError(t, err)
		require.NoError(t, c.Get(t.Context(), key, grant))
		assert.Equal(t, step.want, grant.Status.EndingResourceVersion, step.why)
		assert.Equal(t, step.writes, writes, step.why)
		assert.Empty(t, e.deleted, step.why)
	}
}
