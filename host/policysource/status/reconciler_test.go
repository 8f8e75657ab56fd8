package status_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
	"github.com/longshore-dev/longshore/host/policysource/status"
)

type rig struct {
	t          *testing.T
	client     client.Client
	clock      *clocktesting.FakePassiveClock
	events     *events.FakeRecorder
	reconciler *status.Reconciler
}

func newRig(t *testing.T, objects ...client.Object) *rig {
	t.Helper()
	r := &rig{t: t, clock: clocktesting.NewFakePassiveClock(time.Unix(1000, 0)), events: events.NewFakeRecorder(10)}
	r.client = fakeclient.Builder(objects...).Build()
	r.reconciler = &status.Reconciler{Client: r.client, APIReader: r.client, Clock: r.clock, Events: r.events}
	return r
}

func (r *rig) reconcile() ctrl.Result {
	r.t.Helper()
	result, err := r.reconciler.Reconcile(r.t.Context(), ctrl.Request{})
	require.NoError(r.t, err)
	return result
}

func (r *rig) ready() *metav1.Condition {
	r.t.Helper()
	p := &policyv1alpha1.OffloadingPolicy{}
	require.NoError(r.t, r.client.Get(r.t.Context(), client.ObjectKey{Name: "mine"}, p))
	return meta.FindStatusCondition(p.Status.Conditions, policyv1alpha1.ReadyCondition)
}

func ownedByPod(name string, uid types.UID, o *observation) *policyv1alpha1.PolicyComponent {
	c := component("webhook/"+name, o)
	c.Namespace, c.Name = "longshore", name
	c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: name, UID: uid}}
	return &c
}

func pod(name string, uid types.UID, phase corev1.PodPhase) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "longshore", Name: name, UID: uid}, Status: corev1.PodStatus{Phase: phase}}
}

func TestComponentsMayBeBehindForAMoment(t *testing.T) {
	behind := ownedByPod("a", "pod-a", &observation{Generation: 1, Digest: "sha256:aa", Enforced: true})
	r := newRig(t, policy("", ""), behind, pod("a", "pod-a", corev1.PodRunning))
	assert.Equal(t, time.Second, r.reconcile().RequeueAfter)
	assert.Nil(t, r.ready())
	r.clock.SetTime(r.clock.Now().Add(600 * time.Millisecond))
	assert.Equal(t, 400*time.Millisecond, r.reconcile().RequeueAfter)
	assert.Nil(t, r.ready())
	r.clock.SetTime(r.clock.Now().Add(400 * time.Millisecond))
	assert.Equal(t, 30*time.Second, r.reconcile().RequeueAfter)
	assert.Equal(t, "Behind", r.ready().Reason)
	assert.Empty(t, r.events.Events)

	behind.Status.Policies[0].Generation = 2
	require.NoError(t, r.client.Update(t.Context(), behind))
	assert.Zero(t, r.reconcile().RequeueAfter)
	assert.Equal(t, "Bound", r.ready().Reason)
	assert.Equal(t, int64(1001), r.ready().LastTransitionTime.Unix())
	assert.Len(t, r.events.Events, 1)
}

// A component that has not followed a new module under the same generation is behind as well.
func TestComponentsMayBeBehindWithAnotherModule(t *testing.T) {
	r := newRig(t, policy("", ""),
		ownedByPod("a", "pod-a", &observation{Generation: 2, Digest: "sha256:aa"}), ownedByPod("b", "pod-b", &observation{Generation: 2, Digest: "sha256:bb"}))
	assert.Equal(t, time.Second, r.reconcile().RequeueAfter)
	r.clock.SetTime(r.clock.Now().Add(time.Second))
	r.reconcile()
	assert.Equal(t, "Behind", r.ready().Reason)
}

// The garbage collector keeps the reports of Pods that have ended as long as the Pod exists.
func TestReportsOfEndedPodsAreDeleted(t *testing.T) {
	current, old := &observation{Generation: 2, Digest: "sha256:aa"}, &observation{Generation: 1, Digest: "sha256:aa"}
	for name, tc := range map[string]struct {
		pod      *corev1.Pod
		reported *observation
		want     bool
	}{
		"a Pod that runs and is behind":     {pod: pod("b", "pod-b", corev1.PodRunning), reported: old, want: true},
		"a Pod that was evicted":            {pod: pod("b", "pod-b", corev1.PodFailed), reported: old},
		"a Pod that has completed":          {pod: pod("b", "pod-b", corev1.PodSucceeded), reported: old},
		"a Pod that does not exist":         {reported: old},
		"another Pod of this name":          {pod: pod("b", "other", corev1.PodRunning), reported: old},
		"an evicted Pod without any effect": {pod: pod("b", "pod-b", corev1.PodFailed), reported: current, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, policy("", ""), ownedByPod("a", "pod-a", current), pod("a", "pod-a", corev1.PodRunning), ownedByPod("b", "pod-b", tc.reported), tc.pod)
			r.reconcile()
			err := r.client.Get(t.Context(), client.ObjectKey{Namespace: "longshore", Name: "b"}, &policyv1alpha1.PolicyComponent{})
			assert.Equal(t, tc.want, err == nil)
			if !tc.want {
				assert.Equal(t, metav1.ConditionTrue, r.ready().Status)
			}
		})
	}
}
