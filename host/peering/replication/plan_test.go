package replication

import (
	"testing"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
)

type change func(*unstructured.Unstructured)

func object(changes ...change) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "offloading.liqo.io/v1beta1", "kind": "NamespaceMap",
		"metadata": map[string]any{"name": "milan", "namespace": "liqo-tenant-milan"},
		"spec":     map[string]any{"desiredMapping": map[string]any{"shop": "shop-rome"}},
	}}
	for _, c := range changes {
		c(u)
	}
	return u
}

func finalized(u *unstructured.Unstructured) {
	u.SetFinalizers([]string{liqocorev1beta1.ReplicatorFinalizer})
}
func deleting(u *unstructured.Unstructured)  { now := metav1.Now(); u.SetDeletionTimestamp(&now) }
func otherSpec(u *unstructured.Unstructured) { u.Object["spec"] = map[string]any{} }
func withStatus(u *unstructured.Unstructured) {
	u.Object["status"] = map[string]any{"currentMapping": map[string]any{}}
}

func from(origin string) change {
	return func(u *unstructured.Unstructured) { u.SetAnnotations(map[string]string{OriginAnnotation: origin}) }
}

func TestPlan(t *testing.T) {
	const own = "liqo-tenant-milan"
	ownCopy := func(changes ...change) *unstructured.Unstructured { return object(append(changes, from(own))...) }
	otherCopy := func(changes ...change) *unstructured.Unstructured { return object(append(changes, from("backup"))...) }
	for name, tc := range map[string]struct {
		local, remote *unstructured.Unstructured
		unreachable   bool
		want          []step
	}{
		"no object":                 {},
		"a new object":              {local: object(), want: []step{addFinalizer, createRemote}},
		"the copy was deleted":      {local: object(finalized), want: []step{createRemote}},
		"no difference":             {local: object(finalized), remote: ownCopy()},
		"another spec":              {local: object(finalized), remote: ownCopy(otherSpec), want: []step{updateRemote}},
		"another status":            {local: object(finalized), remote: ownCopy(withStatus), want: []step{copyStatus}},
		"an equal status":           {local: object(finalized, withStatus), remote: ownCopy(withStatus)},
		"a copy without a status":   {local: object(finalized, withStatus), remote: ownCopy()},
		"the copy is being deleted": {local: object(finalized), remote: ownCopy(deleting)},
		"the copy is being deleted and has another status":                           {local: object(finalized), remote: ownCopy(deleting, withStatus), want: []step{copyStatus}},
		"the object is being deleted":                                                {local: object(finalized, deleting), remote: ownCopy(), want: []step{deleteRemote}},
		"object and copy are being deleted":                                          {local: object(finalized, deleting), remote: ownCopy(deleting)},
		"object and copy are being deleted, another status":                          {local: object(finalized, deleting), remote: ownCopy(deleting, withStatus), want: []step{copyStatus}},
		"the object is being deleted, the copy is gone":                              {local: object(finalized, deleting), want: []step{removeFinalizer}},
		"the object is being deleted, the peer is unreachable":                       {local: object(finalized, deleting), remote: ownCopy(), unreachable: true, want: []step{removeFinalizer}},
		"a new object, the peer is unreachable":                                      {local: object(), unreachable: true},
		"the object is gone":                                                         {remote: ownCopy(), want: []step{deleteRemote}},
		"the object is gone, the copy is being deleted":                              {remote: ownCopy(deleting)},
		"the object is gone, the peer is unreachable":                                {remote: ownCopy(), unreachable: true},
		"the copy of an object in another namespace":                                 {remote: otherCopy()},
		"a copy without an origin and without an object":                             {remote: object()},
		"a copy without an origin":                                                   {local: object(finalized), remote: object(), want: []step{updateRemote}},
		"a copy without an origin, the object is being deleted":                      {local: object(finalized, deleting), remote: object(), want: []step{deleteRemote}},
		"a copy without an origin, an object without a finalizer is being deleted":   {local: object(deleting), remote: object()},
		"an object and the copy of another namespace's object":                       {local: object(finalized), remote: otherCopy(), want: []step{checkOrigin, updateRemote}},
		"an object that is being deleted and the copy of another namespace's object": {local: object(finalized, deleting), remote: otherCopy(), want: []step{removeFinalizer}},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tc.want, plan(tc.local, tc.remote, own, tc.unreachable))
		})
	}
}

func TestForgeCopy(t *testing.T) {
	local := object(withStatus)
	local.SetLabels(map[string]string{
		liqocorev1beta1.ReplicationLabel: "true", liqocorev1beta1.RemoteIDLabel: "milan",
		liqocorev1beta1.RemoteClusterIDLabel: "milan", liqocorev1beta1.OwnershipLabel: "local", "mine": "kept",
	})
	local.SetUID("local-uid")
	local.SetFinalizers([]string{"any"})
	before := local.DeepCopy()
	got := forgeCopy(local, "rome", "liqo-tenant-rome")
	assert.Equal(t, before, local, "the input is not altered")
	assert.Equal(t, map[string]string{
		liqocorev1beta1.ReplicationLabel: "false", liqocorev1beta1.ReplicatedLabel: "true",
		liqocorev1beta1.OriginIDLabel: "rome", liqocorev1beta1.RemoteClusterIDLabel: "rome",
		liqocorev1beta1.RemoteIDLabel: "milan", "mine": "kept",
	}, got.GetLabels())
	assert.Equal(t, "liqo-tenant-rome", got.GetNamespace())
	assert.Equal(t, map[string]string{OriginAnnotation: "liqo-tenant-milan"}, got.GetAnnotations())
	assert.Equal(t, local.Object["spec"], got.Object["spec"])
	assert.NotContains(t, got.Object, "status")
	assert.Empty(t, got.GetUID())
	assert.Empty(t, got.GetFinalizers())
}

// A provider writes messages that people of the consumer read. What is plain already is not copied again.
func TestMessagesOfACopyArePlain(t *testing.T) {
	copied := func(message string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": []any{map[string]any{"message": message}}}}}
	}
	remote := copied("a\u202Eb\nc")
	status, ok := plainStatus(remote)
	assert.True(t, ok)
	assert.Equal(t, copied("a b c").Object["status"], status)
	assert.Equal(t, copied("a\u202Eb\nc"), remote, "the cached object is shared")
	assert.True(t, hasNewStatus(copied("other"), remote))
	assert.False(t, hasNewStatus(copied("a b c"), remote))
	assert.False(t, hasNewStatus(copied("other"), &unstructured.Unstructured{Object: map[string]any{}}))
}
