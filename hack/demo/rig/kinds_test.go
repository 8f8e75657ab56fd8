package rig_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	"github.com/longshore-dev/longshore/hack/demo/application"
	"github.com/longshore-dev/longshore/hack/demo/rig"
)

// eventsArrive counts an event of a remote pod up, as a kubelet does, and waits until the
// local pod has the event. It is called before and after a restart of the virtual kubelet.
func eventsArrive(t *testing.T, r *rig.Rig) {
	event := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", Name: "database-0.backoff"}}
	err := r.Milan.Get(t.Context(), client.ObjectKeyFromObject(event), event)
	if !apierrors.IsNotFound(err) {
		require.NoError(t, err)
	}
	event.Count++
	event.LastTimestamp = metav1.Now()
	event.InvolvedObject = corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "shop-rome", Name: "database-0"}
	event.Type, event.Reason, event.Message = corev1.EventTypeWarning, "BackOff", "Back-off restarting failed container"
	if event.Count == 1 {
		require.NoError(t, r.Milan.Create(t.Context(), event))
	} else {
		require.NoError(t, r.Milan.Update(t.Context(), event))
	}
	eventually(t, "the local pod has the event", func(t planetest.T) bool {
		local := &corev1.Event{}
		return r.Rome.Get(t.Context(), client.ObjectKey{Namespace: application.Namespace, Name: event.Name}, local) == nil &&
			local.InvolvedObject.Name == "database-0" && local.Count == event.Count
	})
}
