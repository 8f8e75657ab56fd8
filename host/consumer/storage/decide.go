package storage

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/remote"
)

const (
	selectedNodeAnnotation    = "volume.kubernetes.io/selected-node"
	alphaSelectedNode         = "volume.alpha.kubernetes.io/selected-node"
	provisionerAnnotation     = "volume.kubernetes.io/storage-provisioner"
	betaProvisionerAnnotation = "volume.beta.kubernetes.io/storage-provisioner"
	provisionedByAnnotation   = "pv.kubernetes.io/provisioned-by"
	defaultClassAnnotation    = "storageclass.kubernetes.io/is-default-class"
	claimProtectionFinalizer  = "kubernetes.io/pvc-protection"
)

// Reasons of events on claims.
const (
	reasonProvisioning = "Provisioning"
	reasonFailed       = "ProvisioningFailed"
	reasonReschedule   = "ReschedulingRequired"
)

// facts are everything that a decision about a claim depends on. Objects that do not exist are
// nil.
type facts struct {
	claim *corev1.PersistentVolumeClaim
	class *storagev1.StorageClass
	// node is the selected node, virtualNode that of the node.
	node        *corev1.Node
	virtualNode *offloadingv1beta1.VirtualNode
	// offloadedTo are the clusters that the namespace of the claim is offloaded to.
	offloadedTo []string
	// volume is the volume of the claim, read from the API server for a claim that is being
	// deleted.
	volume *corev1.PersistentVolume
	// realClaim and realVolume are those in the storage namespace.
	realClaim  *corev1.PersistentVolumeClaim
	realVolume *corev1.PersistentVolume
	// realClass is the class of real claims; realClassError is why there is none.
	realClass      string
	realClassError error
	// namespace is the storage namespace.
	namespace string
}

// event is an event on the claim.
type event struct{ kind, reason, message string }

// decision is what is done about a claim. Fields with the zero value do nothing.
type decision struct {
	// labels and annotations are set on the claim; nil removes a key.
	labels, annotations map[string]*string
	// addFinalizer and removeFinalizer change the claim's.
	addFinalizer, removeFinalizer bool
	event                         *event
	createVolume                  *corev1.PersistentVolume
	createRealClaim               *corev1.PersistentVolumeClaim
	deleteRealClaim               bool
}

// decide returns what is done about a claim. It is pure.
func decide(f *facts) decision {
	switch {
	case f.claim.DeletionTimestamp != nil:
		return f.release()
	case f.claim.Spec.VolumeName != "":
		return f.keepUp()
	case f.class == nil || f.class.Provisioner != offloadingv1beta1.StorageProvisioner || !f.isRequested():
		return decision{}
	case f.class.VolumeBindingMode == nil || *f.class.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer:
		return fail("StorageClass %q does not have volumeBindingMode WaitForFirstConsumer, and a volume of %s is in the cluster of its first pod. Create a claim with another class.",
			f.class.Name, offloadingv1beta1.StorageProvisioner)
	case f.claim.Annotations[selectedNodeAnnotation] == "" || f.node == nil || f.volume != nil:
		// Without Node, the volume controller of Kubernetes removes the annotation.
		return decision{}
	}
	if refusal := refusalOf(f.claim); refusal != "" {
		return fail("%s", refusal)
	}
	if f.cluster() != "" && f.cluster() != f.selectedCluster() {
		return f.leave()
	}
	if f.selectedCluster() == "" {
		return f.provisionLocal()
	}
	return f.provisionRemote()
}

// isRequested reports whether the volume controller of Kubernetes requests a volume: no existing
// one matches.
func (f *facts) isRequested() bool {
	return f.claim.Annotations[provisionerAnnotation] == offloadingv1beta1.StorageProvisioner ||
		f.claim.Annotations[betaProvisionerAnnotation] == offloadingv1beta1.StorageProvisioner
}

// cluster returns the provider that has a remote claim, or is asked for one.
func (f *facts) cluster() string {
	return f.claim.Labels[offloadingv1beta1.StorageClusterLabel]
}

func (f *facts) state() string { return f.claim.Labels[offloadingv1beta1.RemoteClaimLabel] }

// selectedCluster returns the provider of the selected node; empty for a node of this cluster.
func (f *facts) selectedCluster() string {
	if f.node.Labels[offloadingv1beta1.NodeTypeLabel] != offloadingv1beta1.NodeTypeVirtual {
		return ""
	}
	return f.node.Labels[liqocorev1beta1.RemoteClusterIDLabel]
}

// refusalOf returns why no cluster can provision a claim, or "".
func refusalOf(claim *corev1.PersistentVolumeClaim) string {
	switch {
	case claim.Spec.Selector != nil:
		return "A claim with a selector cannot be provisioned. Remove spec.selector, or use another class."
	case claim.Spec.DataSource != nil || claim.Spec.DataSourceRef != nil:
		return "A claim with a data source cannot be provisioned, because the source is not copied to the cluster of the pod. Use another class."
	}
	return ""
}

// provisionRemote requests a remote claim, and creates the volume when the remote claim exists.
func (f *facts) provisionRemote() decision {
	cluster := f.selectedCluster()
	if f.realClaim != nil {
		// The claim was scheduled to a node of this cluster before. No pod has used the volume.
		return decision{deleteRealClaim: true}
	}
	if f.state() == offloadingv1beta1.RemoteClaimCreated {
		return decision{createVolume: forgePlaceholder(f.claim, f.class, cluster)}
	}
	if d, refused := f.refuseRemote(cluster); refused {
		return d
	}
	switch f.state() {
	case offloadingv1beta1.RemoteClaimRequested, offloadingv1beta1.RemoteClaimDeleting:
		return decision{}
	}
	policy := string(reclaimPolicy(f.class))
	return decision{
		labels:       setLabels(cluster, offloadingv1beta1.RemoteClaimRequested),
		annotations:  map[string]*string{offloadingv1beta1.ReclaimPolicyAnnotation: &policy},
		addFinalizer: true,
		event:        &event{corev1.EventTypeNormal, reasonProvisioning, fmt.Sprintf("Waiting for virtual node %s to create the claim in cluster %s.", f.node.Name, cluster)},
	}
}

// refuseRemote returns the decision about a claim that the selected virtual node cannot provision.
func (f *facts) refuseRemote(cluster string) (decision, bool) {
	if f.claim.Spec.VolumeAttributesClassName != nil && *f.claim.Spec.VolumeAttributesClassName != "" {
		return fail("VolumeAttributesClass %q is one of this cluster and cannot be used on virtual node %s. Remove spec.volumeAttributesClassName.",
			*f.claim.Spec.VolumeAttributesClassName, f.node.Name), true
	}
	if _, err := remote.ClaimAccessModes(f.claim); err != nil {
		return fail("The claim cannot be created in cluster %s: %v.", cluster, err), true
	}
	if !slices.Contains(f.offloadedTo, cluster) {
		return fail("Namespace %s is not offloaded to cluster %s. Change its NamespaceOffloading, or the node affinity of the pod.", f.claim.Namespace, cluster), true
	}
	if f.virtualNode == nil || len(f.virtualNode.Spec.StorageClasses) == 0 {
		return f.reschedule("Virtual node %s offers no storage class. Another node is selected.", f.node.Name), true
	}
	class := remote.ClaimStorageClass(f.claim, "")
	offered := slices.ContainsFunc(f.virtualNode.Spec.StorageClasses, func(s authv1beta1.StorageType) bool { return s.StorageClassName == class })
	if class != "" && !offered {
		return f.reschedule("Virtual node %s does not offer the storage class %q of annotation %s. Another node is selected.",
			f.node.Name, class, offloadingv1beta1.RemoteStorageClassAnnotation), true
	}
	return decision{}, false
}

// provisionLocal requests a real claim, and creates the volume when the real claim is bound.
func (f *facts) provisionLocal() decision {
	switch {
	case f.realClassError != nil:
		return fail("The volume cannot be provisioned in this cluster: %v.", f.realClassError)
	case f.realClaim == nil:
		return decision{
			createRealClaim: forgeRealClaim(f.claim, f.namespace, f.realClass),
			event:           &event{corev1.EventTypeNormal, reasonProvisioning, fmt.Sprintf("Waiting for claim %s/%s with storage class %s.", f.namespace, f.claim.UID, f.realClass)},
		}
	case f.realClaim.DeletionTimestamp != nil:
		return decision{}
	case f.realClaim.Status.Phase == corev1.ClaimBound && f.realVolume != nil:
		return decision{createVolume: forgeCopy(f.claim, f.class, f.realVolume)}
	case f.realClaim.Status.Phase == corev1.ClaimPending && f.realClaim.Annotations[selectedNodeAnnotation] != f.claim.Annotations[selectedNodeAnnotation]:
		return decision{deleteRealClaim: true}
	}
	return decision{}
}

// leave withdraws the remote claim of a claim that has no volume yet, because its pod was
// scheduled to another cluster. It has no data.
func (f *facts) leave() decision {
	switch {
	case f.state() == offloadingv1beta1.RemoteClaimDeleted || !slices.Contains(f.offloadedTo, f.cluster()):
		return decision{labels: map[string]*string{offloadingv1beta1.StorageClusterLabel: nil, offloadingv1beta1.RemoteClaimLabel: nil}, removeFinalizer: true}
	case f.state() == offloadingv1beta1.RemoteClaimDeleting:
		return decision{}
	}
	return decision{labels: setLabels(f.cluster(), offloadingv1beta1.RemoteClaimDeleting)}
}

// keepUp keeps the keys of a bound claim whose data is in a provider. A claim that was bound to a
// retained volume gets them here.
func (f *facts) keepUp() decision {
	if !isOurs(f.volume) || f.volume.Labels[offloadingv1beta1.StorageClusterLabel] == "" || !isVolumeOf(f.volume, f.claim) {
		return decision{}
	}
	cluster, d := f.volume.Labels[offloadingv1beta1.StorageClusterLabel], decision{}
	// The virtual kubelet sees claims of offloaded namespaces only. In another one, the provider
	// deletes the remote namespace.
	isOffloaded, hasFinalizer := slices.Contains(f.offloadedTo, cluster), slices.Contains(f.claim.Finalizers, offloadingv1beta1.ClaimFinalizer)
	d.addFinalizer, d.removeFinalizer = isOffloaded && !hasFinalizer, !isOffloaded && hasFinalizer
	if f.cluster() != cluster || f.state() != offloadingv1beta1.RemoteClaimCreated && f.state() != offloadingv1beta1.RemoteClaimLost {
		d.labels = setLabels(cluster, offloadingv1beta1.RemoteClaimCreated)
	}
	if policy := string(f.volume.Spec.PersistentVolumeReclaimPolicy); f.claim.Annotations[offloadingv1beta1.ReclaimPolicyAnnotation] != policy {
		d.annotations = map[string]*string{offloadingv1beta1.ReclaimPolicyAnnotation: &policy}
	}
	return d
}

// release lets a claim go that is being deleted, after its remote claim if that is not retained.
func (f *facts) release() decision {
	switch {
	case !slices.Contains(f.claim.Finalizers, offloadingv1beta1.ClaimFinalizer):
		return decision{}
	case slices.Contains(f.claim.Finalizers, claimProtectionFinalizer):
		return decision{} // a pod uses it
	case f.state() == offloadingv1beta1.RemoteClaimDeleted, !slices.Contains(f.offloadedTo, f.cluster()), f.isRetained():
		return decision{removeFinalizer: true}
	case f.state() == offloadingv1beta1.RemoteClaimDeleting:
		return decision{}
	}
	return decision{labels: setLabels(f.cluster(), offloadingv1beta1.RemoteClaimDeleting)}
}

// isRetained reports whether the data of a claim outlives it. A volume that is missing, or is
// another's, does not say that the data may be deleted.
func (f *facts) isRetained() bool {
	if f.volume == nil {
		return f.claim.Spec.VolumeName != ""
	}
	return !isOurs(f.volume) || !isVolumeOf(f.volume, f.claim) || f.volume.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete
}

// reschedule asks the scheduler to select another node.
func (f *facts) reschedule(format string, args ...any) decision {
	return decision{
		annotations: map[string]*string{selectedNodeAnnotation: nil},
		event:       &event{corev1.EventTypeWarning, reasonReschedule, fmt.Sprintf(format, args...)},
	}
}

func fail(format string, args ...any) decision {
	return decision{event: &event{corev1.EventTypeWarning, reasonFailed, fmt.Sprintf(format, args...)}}
}

func setLabels(cluster, state string) map[string]*string {
	return map[string]*string{offloadingv1beta1.StorageClusterLabel: &cluster, offloadingv1beta1.RemoteClaimLabel: &state}
}

// realClassOf returns the class of real claims: the configured one, or the default of the
// cluster.
func realClassOf(configured string, classes []storagev1.StorageClass) (string, error) {
	var found *storagev1.StorageClass
	for i := range classes {
		class := &classes[i]
		switch {
		case configured != "" && class.Name == configured:
			found = class
		case configured == "" && class.Annotations[defaultClassAnnotation] == "true" && class.Provisioner != offloadingv1beta1.StorageProvisioner &&
			(found == nil || found.CreationTimestamp.Before(&class.CreationTimestamp)):
			found = class
		}
	}
	switch {
	case found == nil && configured != "":
		return "", fmt.Errorf("the storage class %q of --real-storage-class-name does not exist", configured)
	case found == nil:
		return "", fmt.Errorf("there is no default storage class of another provisioner than %s: set storage.realStorageClassName of the chart", offloadingv1beta1.StorageProvisioner)
	case found.Provisioner == offloadingv1beta1.StorageProvisioner:
		return "", fmt.Errorf("the storage class %q of --real-storage-class-name is a virtual one", configured)
	}
	return found.Name, nil
}
