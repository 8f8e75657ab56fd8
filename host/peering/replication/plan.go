package replication

import (
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
)

// OriginAnnotation on a remote copy is the namespace of the local object that it was made
// from. Copies of earlier versions and of the reference have none.
const OriginAnnotation = "longshore.dev/replicated-from"

// step is one action on an object; the set is closed.
type step int

const (
	addFinalizer step = iota + 1
	checkOrigin
	createRemote
	updateRemote
	deleteRemote
	removeFinalizer
	copyStatus
)

// String names the step in logs and test failures.
func (s step) String() string {
	return map[step]string{
		addFinalizer: "add finalizer", checkOrigin: "check the origin of the copy", createRemote: "create remote", updateRemote: "update remote",
		deleteRemote: "delete remote", removeFinalizer: "remove finalizer", copyStatus: "copy status",
	}[s]
}

// plan returns the steps for one object of a local namespace, given both of its ends
// (wire P3, per-item logic). It is pure; nil means absent. Local has the labels of
// replication or this replicator's finalizer.
//
// A copy is deleted only for the object that it was made from: one in this namespace, whose
// finalizer says that it was replicated, or that is gone while the copy names the namespace.
func plan(local, remote *unstructured.Unstructured, namespace string, peerDead bool) []step {
	switch {
	case local == nil && (peerDead || remote == nil || remote.GetDeletionTimestamp() != nil || originOf(remote) != namespace):
		return nil
	case local == nil:
		return []step{deleteRemote}
	case local.GetDeletionTimestamp() != nil:
		return planWithdraw(local, madeFrom(local, remote, namespace), peerDead)
	case peerDead:
		return nil
	default:
		return planPush(local, remote, namespace)
	}
}

// madeFrom returns the copy if it was made from the local object, and nil otherwise. A copy
// that does not say is the object's if the object was replicated.
func madeFrom(local, remote *unstructured.Unstructured, namespace string) *unstructured.Unstructured {
	if origin := originOf(remote); origin == namespace || origin == "" && isFinalized(local) {
		return remote
	}
	return nil
}

// planPush returns the steps for a local object that stays.
func planPush(local, remote *unstructured.Unstructured, namespace string) []step {
	var steps []step
	if !isFinalized(local) {
		steps = append(steps, addFinalizer)
	}
	if remote == nil {
		return append(steps, createRemote)
	}
	origin := originOf(remote)
	if origin != "" && origin != namespace {
		steps = append(steps, checkOrigin)
	}
	if remote.GetDeletionTimestamp() == nil && (origin != namespace || !reflect.DeepEqual(local.Object["spec"], remote.Object["spec"])) {
		steps = append(steps, updateRemote)
	}
	if hasNewStatus(local, remote) {
		steps = append(steps, copyStatus)
	}
	return steps
}

// planWithdraw returns the steps for a local object that is being deleted: the copy is
// deleted first, the finalizer removed when the copy is gone or its cluster is declared dead.
func planWithdraw(local, remote *unstructured.Unstructured, peerDead bool) []step {
	if remote == nil || peerDead {
		if isFinalized(local) {
			return []step{removeFinalizer}
		}
		return nil
	}
	var steps []step
	if remote.GetDeletionTimestamp() == nil {
		steps = append(steps, deleteRemote)
	}
	if hasNewStatus(local, remote) {
		steps = append(steps, copyStatus)
	}
	return steps
}

// hasNewStatus reports whether the copy has a status, and the local object another one.
func hasNewStatus(local, remote *unstructured.Unstructured) bool {
	status, ok := remote.Object["status"]
	return ok && !reflect.DeepEqual(local.Object["status"], status)
}

func isFinalized(local *unstructured.Unstructured) bool {
	return slices.Contains(local.GetFinalizers(), liqocorev1beta1.ReplicatorFinalizer)
}

// isReplicatedTo reports whether a local object asks to be replicated to the peer.
func isReplicatedTo(local *unstructured.Unstructured, peer string) bool {
	labels := local.GetLabels()
	return labels[liqocorev1beta1.ReplicationLabel] == "true" && labels[liqocorev1beta1.RemoteIDLabel] == peer
}

// originOf returns the namespace of the local object that a copy was made from, or "" when
// the copy does not say.
func originOf(remote *unstructured.Unstructured) string {
	if remote == nil {
		return ""
	}
	return remote.GetAnnotations()[OriginAnnotation]
}

// setOrigin records on a copy the namespace of the local object that it is made from.
func setOrigin(remote *unstructured.Unstructured, namespace string) {
	annotations := maps.Clone(remote.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[OriginAnnotation] = namespace
	remote.SetAnnotations(annotations)
}

// forgeCopy builds the remote copy: same name, labels rewritten, same spec, same annotations
// and the origin. It has no status, which the provider writes.
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
	copied.SetAnnotations(local.GetAnnotations())
	setOrigin(copied, local.GetNamespace())
	if spec, ok := local.Object["spec"]; ok {
		copied.Object["spec"] = spec
	}
	return copied
}
