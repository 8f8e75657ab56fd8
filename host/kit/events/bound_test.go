package events

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

func pod(name, uid string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(uid)}}
}

// TestWhatAnotherClusterWritesMakesFewEvents: with other names in each update of a NamespaceMap, a consumer had 283
// events a second written.
func TestWhatAnotherClusterWritesMakesFewEvents(t *testing.T) {
	now := time.Unix(1e9, 0)
	reference := func(version string) runtime.Object {
		return &corev1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: "web", ResourceVersion: version}
	}
	cases := map[string]struct {
		// event returns the nth event.
		event func(n int) (regarding, related runtime.Object, reason, note string)
		want  int
	}{
		"other notes": {func(n int) (runtime.Object, runtime.Object, string, string) {
			return pod("web", "1"), nil, "Failed", fmt.Sprint(n)
		}, burst},
		"two notes in turn": {func(n int) (runtime.Object, runtime.Object, string, string) {
			return pod("web", "1"), nil, "Failed", fmt.Sprint(n % 2)
		}, burst},
		"an object that is created again": {func(n int) (runtime.Object, runtime.Object, string, string) {
			return pod("web", fmt.Sprint(n)), nil, "Failed", "refused"
		}, burst},
		"a reference": {func(n int) (runtime.Object, runtime.Object, string, string) {
			return reference(fmt.Sprint(n)), nil, "Failed", fmt.Sprint(n)
		}, burst},
		"the same note": {func(int) (runtime.Object, runtime.Object, string, string) {
			return pod("web", "1"), nil, "Failed", "refused"
		}, 1},
		"other objects": {func(n int) (runtime.Object, runtime.Object, string, string) {
			return pod(fmt.Sprint("web", n), "1"), nil, "Failed", "refused"
		}, 1000},
		"other related objects": {func(n int) (runtime.Object, runtime.Object, string, string) {
			return pod("web", "1"), pod(fmt.Sprint("web", n), "1"), "Failed", fmt.Sprint(n)
		}, 1000},
		"other reasons": {func(n int) (runtime.Object, runtime.Object, string, string) {
			return pod("web", "1"), nil, fmt.Sprint("Failed", n), fmt.Sprint(n)
		}, 1000},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b, written, last := newBounds(), 0, ""
			for n := range 1000 {
				regarding, related, reason, note := c.event(n)
				// Repetitions are counted in the event that exists.
				if event := fmt.Sprint(regarding, related, reason, note); b.take(regarding, related, reason, note, now) && event != last {
					written, last = written+1, event
				}
			}
			assert.Equal(t, c.want, written)
			if c.want == burst {
				regarding, related, reason, _ := c.event(1000)
				assert.True(t, b.take(regarding, related, reason, "later", now.Add(interval)), "a later one is recorded")
			}
			assert.LessOrEqual(t, b.known.Len(), subjects)
		})
	}
}

func TestARepetitionIsCountedInItsEvent(t *testing.T) {
	b := newBounds()
	for range 1000 {
		assert.True(t, b.take(pod("web", "1"), nil, "Failed", "refused", time.Unix(1e9, 0)))
	}
}
