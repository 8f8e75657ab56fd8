package feed

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/longshore-dev/longshore/host/kit/feed"
)

// BenchmarkEventOfAnotherConsumer measures what the feed does for each consumer with an event about
// another consumer's pod.
func BenchmarkEventOfAnotherConsumer(b *testing.B) {
	for _, encoding := range []feed.Encoding{feed.JSON, feed.Protobuf} {
		b.Run(string(encoding), func(b *testing.B) { benchmarkEvent(b, encoding) })
	}
}

func benchmarkEvent(b *testing.B, encoding feed.Encoding) {
	b.Helper()
	now := metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	object := &corev1.Event{
		TypeMeta:       metav1.TypeMeta{APIVersion: "v1", Kind: "Event"},
		ObjectMeta:     metav1.ObjectMeta{Namespace: "other", Name: "web-5c8f7d6b9c-abcde.17a1b2c3d4e5f607", UID: "0c6d2f5e-1111-2222-3333-444455556666", ResourceVersion: "123456", CreationTimestamp: now},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "other", Name: "web-5c8f7d6b9c-abcde", UID: "0c6d2f5e-7777-8888-9999-000011112222"},
		Reason:         "Pulled", Message: "Container image \"example.com/shop/web:1.27.3\" already present on machine", Type: corev1.EventTypeNormal,
		Source: corev1.EventSource{Component: "kubelet", Host: "milan-worker-1"}, FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
	line, err := feed.ProtobufEvent(watch.Added, object)
	if encoding == feed.JSON {
		line, err = json.Marshal(map[string]any{"type": "ADDED", "object": object})
		line = append(line, '\n')
	}
	require.NoError(b, err)
	events := make(chan event)
	body := strings.NewReader(strings.Repeat(string(line), b.N))
	b.SetBytes(int64(len(line)))
	b.ResetTimer()
	go func() {
		defer close(events)
		assert.NoError(b, receive(b.Context(), encoding, body, events))
	}()
	read := 0
	for e := range events {
		require.False(b, passes(e, func(namespace string) bool { return namespace == "mine" }))
		read++
	}
	require.Equal(b, b.N, read)
}
