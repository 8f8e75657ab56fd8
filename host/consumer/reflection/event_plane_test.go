package reflection_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// eventInterval is the least time between two writes of one event in these tests.
const eventInterval = time.Second

// reportsEvents records events of a remote pod as a kubelet does.
func (r *rig) reportsEvents(t *testing.T) {
	t.Helper()
	const updates = 40
	p, remotePod := &corev1.Pod{}, &corev1.Pod{}
	require.NoError(t, r.rome.Get(t.Context(), client.ObjectKey{Namespace: local, Name: "web-0"}, p))
	require.NoError(t, r.milan.Get(t.Context(), client.ObjectKey{Namespace: remoteNamespace, Name: "web-0"}, remotePod))
	backOff := func(name string) *corev1.Event {
		return &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: remoteNamespace, Name: name},
			InvolvedObject: corev1.ObjectReference{
				APIVersion: "v1", Kind: "Pod", Namespace: remoteNamespace, Name: "web-0", UID: remotePod.UID, FieldPath: "spec.containers{web}",
			},
			Type: corev1.EventTypeWarning, Reason: "BackOff", Message: "Back-off restarting failed container",
			Source: corev1.EventSource{Component: "kubelet", Host: "worker-1"}, Count: 1,
			FirstTimestamp: metav1.Now(), LastTimestamp: metav1.Now(),
		}
	}
	// A step of its start is copied, too.
	reported := &corev1.Event{}
	started := backOff("web-0.0")
	started.Type, started.Reason, started.Message = corev1.EventTypeNormal, "Started", "Started container web"
	require.NoError(t, r.milan.Create(t.Context(), started))
	require.Eventually(t, func() bool {
		return r.rome.Get(t.Context(), client.ObjectKey{Namespace: local, Name: "web-0.0"}, reported) == nil
	}, soon, tick)
	assert.Equal(t, "Started container web", reported.Message)

	begin, before := time.Now(), r.back.snapshot()["PATCH events"]
	remoteEvent := backOff("web-0.1")
	require.NoError(t, r.milan.Create(t.Context(), remoteEvent))
	count := func(want int32) func() bool {
		return func() bool {
			return r.rome.Get(t.Context(), client.ObjectKey{Namespace: local, Name: "web-0.1"}, reported) == nil && reported.Count == want
		}
	}
	require.Eventually(t, count(1), soon, tick)
	assert.Equal(t, corev1.ObjectReference{
		APIVersion: "v1", Kind: "Pod", Namespace: local, Name: "web-0", UID: p.UID, FieldPath: "spec.containers{web}",
	}, reported.InvolvedObject)
	assert.Equal(t, corev1.EventSource{Component: "kubelet (remote)", Host: "worker-1"}, reported.Source)
	assert.Equal(t, "Back-off restarting failed container", reported.Message)
	assert.Equal(t, home, reported.Labels[offloadingv1beta1.OriginLabel])

	// A count that rises quickly costs one request per interval, and its last value arrives.
	for n := int32(2); n <= updates; n++ {
		remoteEvent.Count, remoteEvent.LastTimestamp = n, metav1.Now()
		require.NoError(t, r.milan.Update(t.Context(), remoteEvent))
	}
	require.Eventually(t, count(updates), soon, tick)
	most := 1 + int(time.Since(begin)/eventInterval)
	assert.LessOrEqual(t, r.back.snapshot()["PATCH events"]-before, most)

	// After a restart, which forgets what was written, the event is read and not repeated.
	r.restart(t, func() {
		remoteEvent.Count, remoteEvent.LastTimestamp = updates+1, metav1.Now()
		require.NoError(t, r.milan.Update(t.Context(), remoteEvent))
	})
	require.Eventually(t, count(updates+1), soon, tick)

	// An event of the consumer that has the name of a remote one is not changed.
	taken := backOff("web-0.2")
	taken.Namespace, taken.InvolvedObject.Namespace, taken.Message = local, local, "local"
	require.NoError(t, r.rome.Create(t.Context(), taken))
	gets := r.back.snapshot()["GET events"]
	require.NoError(t, r.milan.Create(t.Context(), backOff("web-0.2")))
	require.Eventually(t, func() bool { return r.back.snapshot()["GET events"] > gets }, soon, tick)
	// Events are handled in any order: this one is the last to arrive.
	require.NoError(t, r.milan.Create(t.Context(), backOff("web-0.3")))
	require.Eventually(t, func() bool {
		return r.rome.Get(t.Context(), client.ObjectKey{Namespace: local, Name: "web-0.3"}, reported) == nil
	}, soon, tick)
	require.NoError(t, r.rome.Get(t.Context(), client.ObjectKeyFromObject(taken), taken))
	assert.Equal(t, "local", taken.Message)
}

// has reports whether an event begins with a text.
func (e *events) has(prefix string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.ContainsFunc(e.all, func(event string) bool { return strings.HasPrefix(event, prefix) })
}

// failures are the events but for those that tests provoked and the early pod's.
func (e *events) failures() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []string
	for _, event := range e.all {
		if !strings.HasPrefix(event, "other: ") && !strings.HasPrefix(event, "ledger: ") && !strings.HasPrefix(event, "early-0: ReflectionDisabled") &&
			!strings.Contains(event, ": RemoteNamespaceTerminating") && !strings.Contains(event, ": RemotePodReplaced") &&
			!strings.Contains(event, ": RemoteObjectReplaced") {
			out = append(out, event)
		}
	}
	return out
}
