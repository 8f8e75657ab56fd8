package replication

import (
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/plaintext"
)

// OriginAnnotation on a remote copy is the namespace of its local object. Copies of earlier
// versions and of the reference do not have it.
const OriginAnnotation = "longshore.dev/replicated-from"

// step is one action on an object.
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
		addFinalizer: "add finalizer", checkOrigin: "check the origin", createRemote: "create remote", updateRemote: "update remote",
		deleteRemote: "delete remote", removeFinalizer: "remove finalizer", copyStatus: "copy status",
	}[s]
}

// plan returns the steps for one object, given the local object and its remote copy. It is
// pure; nil means that the object does not exist. Local has the labels of replication or this
// replicator's finalizer.
//
// A copy is deleted only for its own local object: it has the finalizer, or it is gone and the
// annotation of the copy has the local namespace.
func plan(local, remote *unstructured.Unstructured, namespace string, peerUnreachable bool) []step {
	switch {
	case local == nil && (peerUnreachable || remote == nil || remote.GetDeletionTimestamp() != nil || originOf(remote) != namespace):
		return nil
	case local == nil:
		return []step{deleteRemote}
	case local.GetDeletionTimestamp() != nil:
		return planWithdraw(local, copyOf(local, remote, namespace), peerUnreachable)
	case peerUnreachable:
		return nil
	default:
		return planPush(local, remote, namespace)
	}
}

// copyOf returns the remote object if it is a copy of the local one, or nil. A copy without an
// annotation belongs to the local object if that has the finalizer.
func copyOf(local, remote *unstructured.Unstructured, namespace string) *unstructured.Unstructured {
	if origin := originOf(remote); origin == namespace || origin == "" && isFinalized(local) {
		return remote
	}
	return nil
}

// planPush returns the steps for a local object that is not being deleted.
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

// planWithdraw returns the steps for a local object that is being deleted: delete the copy, then
// remove the finalizer when the copy is gone or its cluster is permanently unreachable.
func planWithdraw(local, remote *unstructured.Unstructured, peerUnreachable bool) []step {
	if remote == nil || peerUnreachable {
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

// hasNewStatus reports whether the copy has a status that differs from the local one.
func hasNewStatus(local, remote *unstructured.Unstructured) bool {
	status, ok := plainStatus(remote)
	return ok && !reflect.DeepEqual(local.Object["status"], status)
}

// plainStatus returns a copy of the status of a copy, whose messages its cluster writes and people of this one read.
func plainStatus(remote *unstructured.Unstructured) (status any, ok bool) {
	if status, ok = remote.Object["status"]; !ok {
		return nil, false
	}
	status = runtime.DeepCopyJSONValue(status)
	plaintext.Messages(status)
	return status, true
}

func isFinalized(local *unstructured.Unstructured) bool {
	return slices.Contains(local.GetFinalizers(), liqocorev1beta1.ReplicatorFinalizer)
}

// isReplicatedTo reports whether a local object has the labels of replication to the peer.
func isReplicatedTo(local *unstructured.Unstructured, peer string) bool {
	labels := local.GetLabels()
	return labels[liqocorev1beta1.ReplicationLabel] == "true" && labels[liqocorev1beta1.RemoteIDLabel] == peer
}

// originOf returns the namespace of the local object of a copy, or "" without the annotation.
func originOf(remote *unstructured.Unstructured) string {
	if remote == nil {
		return ""
	}
	return remote.GetAnnotations()[OriginAnnotation]
}

// setOrigin records the namespace of the local object on a copy.
func setOrigin(remote *unstructured.Unstructured, namespace string) {
	annotations := maps.Clone(remote.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[OriginAnnotation] = namespace
	remote.SetAnnotations(annotations)
}

// forgeCopy builds the remote copy: the same name, spec and annotations, replication labels, and
// the origin. The provider writes the status.
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
