package events_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
	"github.com/longshore-dev/longshore/host/kit/events"
)

func TestWarnCountsUpOneEventPerMessage(t *testing.T) {
	c := fakeclient.Builder().Build()
	warning := events.Warning{
		Regarding: corev1.ObjectReference{Kind: "VirtualNode", Namespace: "liqo-tenant-milan", Name: "milan-1", UID: "u"},
		Reason:    "BrokenKubeconfig", Message: strings.Repeat("x", 2000), Component: "virtual-kubelet", ReportingInstance: "milan-1",
		Time: time.Now(),
	}
	other := warning
	other.Message = "another cause"
	for _, w := range []events.Warning{warning, warning, other} {
		require.NoError(t, events.Warn(t.Context(), c, w))
	}
	list := &corev1.EventList{}
	require.NoError(t, c.List(t.Context(), list))
	counts := map[int32]string{}
	for i := range list.Items {
		event := &list.Items[i]
		counts[event.Count] = event.Message
		assert.Equal(t, warning.Regarding, event.InvolvedObject)
		assert.Equal(t, warning.Reason, event.Reason)
	}
	require.Len(t, list.Items, 2)
	assert.Len(t, counts[2], 1024, "a long message is cut to what the API server accepts")
	assert.Equal(t, "another cause", counts[1])
}
