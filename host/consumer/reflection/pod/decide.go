package pod

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/forge/remote"
	"github.com/longshore-dev/longshore/host/kit/podend"
)

const (
	// staleRemotePodRetry is how soon a remote pod of an earlier local pod is looked at again.
	staleRemotePodRetry = 30 * time.Second
	// labelDelay is how long the label of an offloaded pod waits for a status patch that can
	// carry it.
	labelDelay = 30 * time.Second
	// mappingRetry is how soon a pod is decided again whose namespace the provider does not report.
	mappingRetry = 30 * time.Second
)

// Reasons of decisions that change nothing.
const (
	keepUnmanaged        = "UnmanagedRemoteObject"
	keepLocalPodGone     = "LocalPodGone"
	keepStaleShadowPod   = "StaleShadowPod"
	keepAborted          = "PodAborted"
	keepFinished         = "PodFinished"
	keepMappingStarts    = "MappingStarts"
	keepNoRemoteObject   = "NoRemoteObject"
	keepLastStatus       = "LastStatusKept"
	keepNoRemotePod      = "NoRemotePod"
	keepNothingReported  = "NothingReported"
	keepStatusUnchanged  = "StatusUnchanged"
	keepNotPod           = "NotAPod"
	keepMetadataUpToDate = "MetadataUpToDate"
	keepDeniedLater      = "DeniedAfterOffloading"
	keepUnavailable      = "RemoteUnavailable"
	keepTerminating      = "ShadowPodTerminating"
	keepWithdrawn        = "NamespaceWithdrawn"
)

// Reasons for which a pod is decided again later.
const (
	waitRemotePodCreation = "RemotePodCreation"
	waitLocalPodDeletion  = "LocalPodDeletion"
	waitRemotePodEnd      = "RemotePodEnd"
	waitStaleRemotePod    = "StaleRemotePod"
	waitStatusForLabel    = "StatusForLabel"
	waitPolicy            = "Policy"
	waitMetadataConflict  = "MetadataConflict"
	waitRefusedChange     = "RefusedChange"
	waitBackOff           = "RemotePodBackOff"
	waitMapping           = "Mapping"
)

// observation is one pod as observed in both clusters.
type observation struct {
	in     engine.Input
	local  *corev1.Pod
	shadow *offloadingv1beta1.ShadowPod
	// pod is the remote pod of this local pod, stalePod that of an earlier local pod of the
	// same name. At most one is set.
	pod, stalePod *corev1.Pod
	// memory belongs to this local pod, or to the last one when there is none. last is what was
	// stored by the previous decision, which may belong to an earlier local pod.
	memory, last memory
}

// memory is stored between decisions about one pod. When it is lost, the policies are
// evaluated once more, restarts are estimated, and a local pod that was deleted by force is
// not recognized as such.
type memory struct {
	// localUID is the local pod that everything else here belongs to.
	localUID types.UID
	// begunAt is when the ShadowPod was created by this process.
	begunAt time.Time
	// shadowDeletedAt is when the ShadowPod was deleted while its pod may have been created.
	shadowDeletedAt time.Time
	// localDeletedAt is when the local pod was deleted by this process.
	localDeletedAt time.Time
	// remoteUID is the remote pod whose status was mirrored last.
	remoteUID types.UID
	// restarts is the sum of the restart counts of earlier remote pods.
	restarts int32
	// sourceHash and metadataHash are hashes of what labels and annotations were built from,
	// and of the result.
	sourceHash, metadataHash uint64
	// contest counts the patches of labels and annotations.
	contest engine.Contest
	// refusedFields are the local pod's fields whose change was not sent or was refused at
	// refusedAt.
	refusedFields string
	refusedAt     time.Time
	// gates has the conditions of readiness gates that the local pod has from the remote pod, as
	// podupdate.EncodeGates returns them; knowsGates is set once they are known.
	gates      string
	knowsGates bool
	// lastGates and lastFields are what was sent last of the gates and of the fields of the spec.
	lastGates, lastFields engine.LastWrite
}

// forPod returns what is stored about a local pod: nothing when the pod is not the one of the
// previous decision. Without a local pod it is what was stored about the last one.
func (m memory) forPod(local *corev1.Pod) memory {
	if local != nil && m.localUID != local.UID {
		return memory{localUID: local.UID}
	}
	return m
}

func observe(in engine.Input) observation {
	o := observation{in: in}
	o.local, _ = in.Local.(*corev1.Pod)
	o.shadow, _ = in.Remote.(*offloadingv1beta1.ShadowPod)
	o.pod, _ = in.Dependent.(*corev1.Pod)
	o.last, _ = in.Memory.(memory)
	o.memory = o.last.forPod(o.local)
	if o.local != nil && o.pod != nil && !belongsTo(o.pod, o.local) {
		o.pod, o.stalePod = nil, o.pod
	}
	return o
}

// Decide implements engine.Definition. The engine handles a ShadowPod that was created and is not in
// the cache yet.
func (d *Definition) Decide(in engine.Input) ([]engine.Action, error) {
	o := observe(in)
	switch {
	case o.isUnmanaged():
		if o.local == nil {
			return keep(keepUnmanaged), nil
		}
		return []engine.Action{engine.NameConflict(in.Facts, "Pod or ShadowPod", in.Key.Name)}, nil
	case o.local == nil:
		return append(o.deleteOrphans(), keep(keepLocalPodGone)...), nil
	case o.shadow != nil && !belongsTo(o.shadow, o.local):
		return append(append(o.deleteOrphans(), keep(keepStaleShadowPod)...), o.reportHeld()...), nil
	case o.local.DeletionTimestamp != nil:
		return d.reconcileTerminating(o), nil
	case o.local.Status.Phase == corev1.PodFailed && o.local.Status.Reason == offloadingv1beta1.OffloadingAbortedReason:
		return endAborted(o), nil
	case isFinished(o.local) && (o.pod == nil || o.pod.Status.Phase == o.local.Status.Phase):
		return keep(keepFinished), nil
	case o.shadow == nil && o.stalePod != nil:
		return append(append(o.deleteOrphans(), engine.Requeue{After: staleRemotePodRetry, Reason: waitStaleRemotePod}), o.reportHeld()...), nil
	case o.shadow == nil:
		return d.begin(o)
	}
	gates := o.localGates()
	actions := o.addLabel(d.mirrorStatus(o))
	// After localGates: a condition that is mirrored now is not yet in the status of the local pod.
	o.takeMemory(actions)
	actions = append(actions, o.sendGates(gates)...)
	// Metadata come last: a policy that fails must not delay the status.
	return append(actions, d.syncMetadata(o)...), nil
}

// begin offloads a pod. It waits while the provider deletes the remote namespace. One whose namespace is no
// longer offloaded ends, once nothing of it runs in the provider.
func (d *Definition) begin(o observation) ([]engine.Action, error) {
	switch {
	case o.in.Facts.IsEnding:
		return d.mirrorStatus(o), nil
	case !o.in.Facts.IsWithdrawn:
		return query(func(ctx context.Context) ([]engine.Action, error) { return d.offload(ctx, o) }), nil
	case o.pod != nil || o.in.IsDependentLost || o.in.Facts.RemoteUnknown:
		return keep(keepWithdrawn), nil
	default:
		return d.Fallback(o.in)
	}
}

// endAborted removes what is left of a pod whose offloading was aborted.
func endAborted(o observation) []engine.Action {
	if o.shadow == nil && o.anyRemotePod() == nil && isReplaced(o.local) {
		return o.deleteLocal()
	}
	return append(o.deleteRemote(o.pod, nil), keep(keepAborted)...)
}

// isReplaced reports whether the controller of a failed pod creates another one and leaves this one
// behind. Kubernetes deletes such pods of a Node that is lost; those of a namespace whose mapping was
// lost, and is there again, would stay in their hundreds. A StatefulSet deletes its failed pods itself, and
// a Job counts them.
func isReplaced(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	return owner != nil && owner.APIVersion == appsv1.SchemeGroupVersion.String() && owner.Kind == "ReplicaSet"
}

// takeMemory sets the memory to what the actions of this decision will have stored.
func (o *observation) takeMemory(actions []engine.Action) {
	for _, action := range actions {
		if remember, ok := action.(engine.Remember); ok {
			o.memory, _ = remember.Value.(memory)
		}
	}
}

// isUnmanaged reports whether a remote object lost its ownership labels after it was read. The
// engine does not watch unmanaged objects, and finds them when a creation fails.
func (o *observation) isUnmanaged() bool {
	return o.shadow != nil && !engine.Owned(o.shadow, o.in.Facts) ||
		o.in.Dependent != nil && !engine.Owned(o.in.Dependent, o.in.Facts)
}

func (o *observation) hasLiveShadowPod() bool {
	return o.shadow != nil && o.shadow.DeletionTimestamp == nil
}

// anyRemotePod returns the remote pod, whichever local pod it was created for.
func (o *observation) anyRemotePod() *corev1.Pod {
	if o.pod != nil {
		return o.pod
	}
	return o.stalePod
}

// addLabel labels the local pod as offloaded once the ShadowPod exists. The label is sent with
// the first status patch, or alone when there is none for a while.
func (o *observation) addLabel(actions []engine.Action) []engine.Action {
	value := "true"
	if o.local.Labels[offloadingv1beta1.LocalPodLabel] == value {
		return actions
	}
	labels := map[string]*string{offloadingv1beta1.LocalPodLabel: &value}
	for i, action := range actions {
		if patch, ok := action.(engine.PatchLocalStatus); ok {
			patch.Labels = labels
			actions[i] = patch
			return actions
		}
	}
	if left := remaining(o.shadow.CreationTimestamp.Time, labelDelay, o.in.Facts.Now); left > 0 {
		return append(actions, engine.Requeue{After: left, Reason: waitStatusForLabel})
	}
	return append(actions, engine.PatchLocal{Labels: labels})
}

func isFinished(pod *corev1.Pod) bool {
	return podend.IsTerminal(pod.Status.Phase)
}

// belongsTo reports whether a remote object was created for this local pod, not for an earlier
// one of the same name. Objects of the reference system record no local pod; they belong.
func belongsTo(object client.Object, local *corev1.Pod) bool {
	uid, recorded := object.GetAnnotations()[remote.LocalPodUIDAnnotation]
	return !recorded || uid == string(local.UID)
}

func query(run func(context.Context) ([]engine.Action, error)) []engine.Action {
	return []engine.Action{engine.Query{Run: run}}
}

func keep(reason string) []engine.Action { return []engine.Action{engine.Keep{Reason: reason}} }
