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
		dead          bool
		want          []step
	}{
		"nothing anywhere":                                 {},
		"a new object is finalized and copied":             {local: object(), want: []step{addFinalizer, createRemote}},
		"a copy that vanished is made again":               {local: object(finalized), want: []step{createRemote}},
		"equal ends need nothing":                          {local: object(finalized), remote: ownCopy()},
		"another spec is pushed":                           {local: object(finalized), remote: ownCopy(otherSpec), want: []step{updateRemote}},
		"another status is pulled":                         {local: object(finalized), remote: ownCopy(withStatus), want: []step{copyStatus}},
		"an equal status is left alone":                    {local: object(finalized, withStatus), remote: ownCopy(withStatus)},
		"a copy without status takes none away":            {local: object(finalized, withStatus), remote: ownCopy()},
		"a copy that is being deleted is waited for":       {local: object(finalized), remote: ownCopy(deleting)},
		"and its status is pulled meanwhile":               {local: object(finalized), remote: ownCopy(deleting, withStatus), want: []step{copyStatus}},
		"a deleted object takes its copy first":            {local: object(finalized, deleting), remote: ownCopy(), want: []step{deleteRemote}},
		"and waits while the copy is being deleted":        {local: object(finalized, deleting), remote: ownCopy(deleting)},
		"and pulls the status of its end":                  {local: object(finalized, deleting), remote: ownCopy(deleting, withStatus), want: []step{copyStatus}},
		"and is released when the copy is gone":            {local: object(finalized, deleting), want: []step{removeFinalizer}},
		"an object of a dead peer is released":             {local: object(finalized, deleting), remote: ownCopy(), dead: true, want: []step{removeFinalizer}},
		"nothing is copied to a dead peer":                 {local: object(), dead: true},
		"a copy whose original is gone is deleted":         {remote: ownCopy(), want: []step{deleteRemote}},
		"but not twice":                                    {remote: ownCopy(deleting)},
		"nor in a dead peer":                               {remote: ownCopy(), dead: true},
		"another namespace's copy stays":                   {remote: otherCopy()},
		"a copy of unknown origin stays":                   {remote: object()},
		"a copy of unknown origin is adopted":              {local: object(finalized), remote: object(), want: []step{updateRemote}},
		"and goes with the object that was replicated":     {local: object(finalized, deleting), remote: object(), want: []step{deleteRemote}},
		"but not with one that never was":                  {local: object(deleting), remote: object()},
		"another namespace's copy is taken over if free":   {local: object(finalized), remote: otherCopy(), want: []step{checkOrigin, updateRemote}},
		"and outlives an object that it was not made from": {local: object(finalized, deleting), remote: otherCopy(), want: []step{removeFinalizer}},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tc.want, plan(tc.local, tc.remote, own, tc.dead))
		})
	}
}

func TestForgeCopyRewritesLabelsAndLeavesTheStatusToTheProvider(t *testing.T) {
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
