// Package persistentvolumeclaim is Pod flow, stage 5: the definition with which the reflection
// engine creates and deletes the claims of remote pods.
//
// The manager decides which claims have a remote claim, and when it is deleted (host/consumer/storage).
// The definition does what the labels of the local claim say, and reports there that it is done. A
// remote claim is deleted on request only, never because the local claim is missing: the
// reclaim policy of the local volume may retain the data.
package persistentvolumeclaim

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/forge/remote"
)

const (
	// reasonRemoteClaimLost is the reason of an event on a claim whose remote claim was deleted in
	// the provider.
	reasonRemoteClaimLost = "RemoteClaimLost"
	// selectedNodeAnnotation is the node that the scheduler selected for the first pod of a claim.
	selectedNodeAnnotation = "volume.kubernetes.io/selected-node"
	// minWait and maxWait bound how soon a claim is decided again after its remote claim was
	// sent: the answer is not an event.
	minWait, maxWait = 50 * time.Millisecond, time.Minute
)

// Options configure the definition.
type Options struct {
	// Origin identifies the consumer, the provider and the virtual node.
	Origin remote.Origin
	// Class is the provider's storage class of remote claims; empty is the provider's default
	// (--remote-real-storage-class-name).
	Class string
	// Workers is the number of claims handled at once (--persistentvolumeclaim-reflection-workers).
	Workers int
}

// Definition reflects claims.
type Definition struct{ options Options }

var _ engine.Definition = (*Definition)(nil)

// New returns the definition.
func New(options Options) *Definition { return &Definition{options: options} }

// Resource implements engine.Definition. Each virtual kubelet creates the claims of its own
// node, whose class it knows; any of the provider deletes them.
func (d *Definition) Resource() engine.Resource {
	claims := engine.Kind{
		New:     func() client.Object { return &corev1.PersistentVolumeClaim{} },
		NewList: func() client.ObjectList { return &corev1.PersistentVolumeClaimList{} },
	}
	return engine.Resource{
		Name: "persistentvolumeclaim", Local: claims, Remote: claims,
		Policy: offloadingv1beta1.CustomLiqo, Filter: true, Workers: max(d.options.Workers, 1),
	}
}

// Decide implements engine.Definition.
func (d *Definition) Decide(in engine.Input) ([]engine.Action, error) {
	local, _ := in.Local.(*corev1.PersistentVolumeClaim)
	existing, _ := in.Remote.(*corev1.PersistentVolumeClaim)
	if local == nil {
		return keep("the remote claim is retained"), nil
	}
	if local.Labels[offloadingv1beta1.StorageClusterLabel] != d.options.Origin.ProviderClusterID {
		return keep("the claim has no data in the provider"), nil
	}
	if existing != nil && !engine.Owned(existing, in.Facts) {
		return []engine.Action{engine.NameConflict(in.Facts, "PersistentVolumeClaim", existing.Name)}, nil
	}
	switch local.Labels[offloadingv1beta1.RemoteClaimLabel] {
	case offloadingv1beta1.RemoteClaimRequested:
		return d.create(in, local, existing)
	case offloadingv1beta1.RemoteClaimCreated, offloadingv1beta1.RemoteClaimLost:
		return maintain(in, local, existing), nil
	case offloadingv1beta1.RemoteClaimDeleting:
		return remove(local, existing), nil
	default:
		return keep("nothing is requested"), nil
	}
}

// create sends the remote claim of a claim whose first pod is on this virtual node.
func (d *Definition) create(in engine.Input, local, existing *corev1.PersistentVolumeClaim) ([]engine.Action, error) {
	switch {
	case existing != nil && existing.DeletionTimestamp != nil:
		return keep("the remote claim of an earlier claim is being deleted"), nil
	case existing != nil && !isOf(existing, local):
		return []engine.Action{engine.RecordEvent{
			Type: engine.EventWarning, Reason: engine.ReasonFailedReflection,
			Message: fmt.Sprintf("PersistentVolumeClaim %s in namespace %s of cluster %s retains the data of an earlier claim of this name. "+
				"Set spec.volumeName to the volume of that claim to use the data, or delete the remote claim.", existing.Name, existing.Namespace, in.Facts.ProviderClusterID),
		}}, nil
	case existing != nil:
		return report(offloadingv1beta1.RemoteClaimCreated), nil
	case local.Annotations[selectedNodeAnnotation] != d.options.Origin.NodeName:
		return keep("another virtual node creates the remote claim"), nil
	}
	config, err := remote.PersistentVolumeClaim(local, in.Facts.RemoteNamespace, in.Labels, in.Annotations, d.options.Origin, d.options.Class)
	if err != nil {
		return nil, fmt.Errorf("building the remote claim: %w", err)
	}
	wait := min(max(in.Facts.Now.Sub(local.CreationTimestamp.Time)/4, minWait), maxWait)
	return []engine.Action{engine.Apply{Config: config}, engine.Requeue{After: wait, Reason: "the remote claim is reported when it exists"}}, nil
}

// maintain keeps the metadata of a remote claim that decides about its data. The other fields are
// sent once: most are immutable. Another writer is slowed down, not fought.
func maintain(in engine.Input, local, existing *corev1.PersistentVolumeClaim) []engine.Action {
	if existing == nil || existing.DeletionTimestamp != nil {
		happened := "was deleted there, and its data is lost"
		if existing != nil {
			happened = "is being deleted there: its data is lost once no pod uses it"
		}
		return append(reportOnce(local, offloadingv1beta1.RemoteClaimLost), engine.RecordEvent{
			Type: engine.EventWarning, Reason: reasonRemoteClaimLost,
			Message: fmt.Sprintf("PersistentVolumeClaim %[1]s in namespace %[2]s of cluster %[3]s %[5]s. It is not created again, because an empty volume "+
				"must not take the place of data: pods that use this claim stay Pending. To go on with an empty volume, delete the claim and the pods that use it. "+
				"For a StatefulSet, which makes both again: kubectl delete -n %[4]s persistentvolumeclaim/%[1]s pod/<name of the pod>",
				local.Name, in.Facts.RemoteNamespace, in.Facts.ProviderClusterID, local.Namespace, happened),
		})
	}
	// A provider that was restored from a backup has it again.
	found := reportOnce(local, offloadingv1beta1.RemoteClaimCreated)
	policy, uid := local.Annotations[offloadingv1beta1.ReclaimPolicyAnnotation], string(local.UID)
	changed := map[string]*string{}
	for key, want := range map[string]string{offloadingv1beta1.ReclaimPolicyAnnotation: policy, offloadingv1beta1.ClaimUIDAnnotation: uid} {
		if existing.Annotations[key] != want {
			changed[key] = &want
		}
	}
	if len(changed) == 0 {
		return append(found, keep("the remote claim is complete")...)
	}
	last, _ := in.Memory.(engine.LastWrite)
	actions := found
	pause, isDue := last.Pause(policy+uid, in.Facts.Now)
	if isDue {
		actions = append(actions, engine.Contested(in.Facts, "annotations of the claim"))
	}
	if pause > 0 {
		return append(actions, engine.Requeue{After: pause, Reason: "another writer changes the annotations"})
	}
	return append(actions, engine.PatchRemote{Annotations: changed}, engine.Remember{Value: last.Wrote(policy+uid, in.Facts.Now)})
}

// remove deletes the remote claim, and reports when it is gone.
func remove(local, existing *corev1.PersistentVolumeClaim) []engine.Action {
	switch {
	case existing == nil || !isOf(existing, local):
		return report(offloadingv1beta1.RemoteClaimDeleted)
	case existing.DeletionTimestamp != nil:
		return keep("the remote claim is being deleted")
	default:
		return []engine.Action{engine.DeleteRemote{}}
	}
}

// isOf reports whether a remote claim is that of a local claim, and not of an earlier one of the
// same name.
func isOf(existing, local *corev1.PersistentVolumeClaim) bool {
	return existing.Annotations[offloadingv1beta1.ClaimUIDAnnotation] == string(local.UID)
}

// reportOnce reports a state unless the claim has it.
func reportOnce(local *corev1.PersistentVolumeClaim, state string) []engine.Action {
	if local.Labels[offloadingv1beta1.RemoteClaimLabel] == state {
		return nil
	}
	return report(state)
}

func report(state string) []engine.Action {
	return []engine.Action{engine.PatchLocal{Labels: map[string]*string{offloadingv1beta1.RemoteClaimLabel: &state}}}
}

func keep(reason string) []engine.Action { return []engine.Action{engine.Keep{Reason: reason}} }
