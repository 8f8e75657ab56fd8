package tenantsecrets

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

func TestEventsOfAListAfterAnOutage(t *testing.T) {
	secret := func(name, uid string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid)}}
	}
	kept, deleted, replaced := secret("kept", "1"), secret("deleted", "2"), secret("replaced", "3")
	again, added := secret("replaced", "4"), secret("added", "5")
	observed := &tenant{
		watcher: &watcher{isListed: true},
		secrets: map[string]*corev1.Secret{"kept": kept, "deleted": deleted, "replaced": replaced},
	}
	current := map[string]*corev1.Secret{"kept": kept, "replaced": again, "added": added}

	events := observed.replace(current)

	assert.ElementsMatch(t, []watch.Event{
		{Type: watch.Deleted, Object: deleted},
		{Type: watch.Deleted, Object: replaced},
		{Type: watch.Modified, Object: kept},
		{Type: watch.Modified, Object: again},
		{Type: watch.Modified, Object: added},
	}, events)
	last := map[string]watch.EventType{}
	for _, event := range events {
		last[event.Object.(*corev1.Secret).Name] = event.Type
	}
	assert.Equal(t, watch.Modified, last["replaced"], "the deletion comes first")
	assert.Equal(t, current, observed.secrets)
}
