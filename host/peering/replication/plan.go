package replication

import (
	"maps"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
)

// step is one thing to do for an object; the set is closed.
type step int

const (
	addFinalizer step = iota + 1
	createRemote
	updateRemote
	deleteRemote
	removeFinalizer
	copyStatus
)

// String names the step in logs and test failures.
func (s step) String() string {
	return map[step]string{
		addFinalizer: "add finalizer", createRemote: "create remote", updateRemote: "update remote",
		deleteRemote: "delete remote", removeFinalizer: "remove finalizer", copyStatus: "copy status",
	}[s]
}

// plan decides what to do about one object, given both of its ends (peering 3, per-item
// logic). It is pure; nil means absent.
func plan(local, remote *unstructured.Unstructured, peerDead bool) []step {
	if local == nil {
		if remote == nil || remote.GetDeletionTimestamp() != nil || peerDead {
			return nil
		}
		return []step{deleteRemote}
	}
	finalized := slices.Contains(local.GetFinalizers(), liqocorev1beta1.ReplicatorFinalizer)
	if local.GetDeletionTimestamp() != nil {
		return planWithdraw(finalized, remote, peerDead)
	}
	if peerDead {
		return nil
	}
	var steps []step
	if !finalized {
		steps = append(steps, addFinalizer)
	}
	if remote == nil {
		return append(steps, createRemote)
	}
	if remote.GetDeletionTimestamp() != nil {
		return steps
	}
	if !reflect.DeepEqual(local.Object["spec"], remote.Object["spec"]) {
		steps = append(steps, updateRemote)
	}
	if status, ok := remote.Object["status"]; ok && !reflect.DeepEqual(local.Object["status"], status) {
		steps = append(steps, copyStatus)
	}
	return steps
}

// planWithdraw lets go of a local object in the order that loses nothing: the copy
// first, the finalizer when the copy is gone or its cluster is declared dead.
func planWithdraw(finalized bool, remote *unstructured.Unstructured, peerDead bool) []step {
	switch {
	case remote == nil || peerDead:
		if finalized {
			return []step{removeFinalizer}
		}
		return nil
	case remote.GetDeletionTimestamp() != nil:
		return nil
	default:
		return []step{deleteRemote}
	}
}

// forgeCopy builds the remote copy: name kept, labels rewritten, annotations and spec
// as they are, no status (it is the provider's to write).
func forgeCopy(local *unstructured.Unstructured, own, namespace string) *unstructured.Unstructured {
	copied := &unstructured.Unstructured{Object: map[string]any{}}
	copied.SetGroupVersionKind(local.GroupVersionKind())
	copied.SetName(local.GetName())
	copied.SetNamespace(namespace)
	labels := maps.Clone(local.GetLabels())
	if labels == nil {
		labels = map[string]string{}
	}
	delete(labels, liqocorev1beta1.OwnershipLabel)
	labels[liqocorev1beta1.ReplicationLabel] = "false"
	labels[liqocorev1beta1.ReplicatedLabel] = "true"
	labels[liqocorev1beta1.OriginIDLabel] = own
	labels[liqocorev1beta1.RemoteClusterIDLabel] = own
	copied.SetLabels(labels)
	copied.SetAnnotations(maps.Clone(local.GetAnnotations()))
	if spec, ok := local.Object["spec"]; ok {
		copied.Object["spec"] = spec
	}
	return copied
}

// replicatedTo selects the local objects that go to a peer.
func replicatedTo(peer string) metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: labels.SelectorFromSet(map[string]string{
		liqocorev1beta1.ReplicationLabel: "true", liqocorev1beta1.RemoteIDLabel: peer,
	}).String()}
}
