package storage

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// placeholderPath is the path of volumes whose data is in a provider. No kubelet mounts
// it: the volume has node affinity to virtual nodes.
const placeholderPath = "/tmp/liqo-placeholder"

// claimAnnotation on a real claim is "namespace/name" of the claim that it has the volume of. The
// labels of the wire do not hold long names.
const claimAnnotation = "storage.longshore.dev/claim"

// volumeName returns the name of the volume of a claim.
func volumeName(claim types.UID) string { return "pvc-" + string(claim) }

// isOurs reports whether this package provisioned a volume, which may be nil.
func isOurs(volume *corev1.PersistentVolume) bool {
	return volume != nil && volume.Annotations[provisionedByAnnotation] == offloadingv1beta1.StorageProvisioner
}

// isVolumeOf reports whether a volume is reserved for a claim.
func isVolumeOf(volume *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) bool {
	ref := volume.Spec.ClaimRef
	return ref != nil && ref.UID == claim.UID && ref.Namespace == claim.Namespace && ref.Name == claim.Name
}

func reclaimPolicy(class *storagev1.StorageClass) corev1.PersistentVolumeReclaimPolicy {
	if class.ReclaimPolicy != nil {
		return *class.ReclaimPolicy
	}
	return corev1.PersistentVolumeReclaimDelete
}

// forgePlaceholder builds the volume of a claim whose data is in a provider.
func forgePlaceholder(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, cluster string) *corev1.PersistentVolume {
	volume := forgeVolume(claim, class)
	volume.Labels = map[string]string{offloadingv1beta1.StorageClusterLabel: cluster}
	volume.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: claim.Spec.Resources.Requests[corev1.ResourceStorage]}
	volume.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: placeholderPath}}
	volume.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: liqocorev1beta1.RemoteClusterIDLabel, Operator: corev1.NodeSelectorOpIn, Values: []string{cluster}}},
	}}}}
	return volume
}

// forgeCopy builds the volume of a claim whose data is in the volume of a real claim.
func forgeCopy(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, actual *corev1.PersistentVolume) *corev1.PersistentVolume {
	volume := forgeVolume(claim, class)
	spec := actual.Spec.DeepCopy()
	volume.Spec.Capacity, volume.Spec.PersistentVolumeSource = spec.Capacity, spec.PersistentVolumeSource
	volume.Spec.MountOptions, volume.Spec.VolumeAttributesClassName = spec.MountOptions, spec.VolumeAttributesClassName
	if spec.VolumeMode != nil {
		volume.Spec.VolumeMode = spec.VolumeMode
	}
	volume.Spec.NodeAffinity = withoutVirtualNodes(spec.NodeAffinity)
	return volume
}

func forgeVolume(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name:        volumeName(claim.UID),
			Annotations: map[string]string{provisionedByAnnotation: offloadingv1beta1.StorageProvisioner},
		},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: claim.Spec.AccessModes, VolumeMode: claim.Spec.VolumeMode, StorageClassName: class.Name,
			PersistentVolumeReclaimPolicy: reclaimPolicy(class),
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
			},
		},
	}
}

// withoutVirtualNodes restricts an affinity, which may be nil, to nodes of this cluster. Terms are
// alternatives, so that each gets the condition.
func withoutVirtualNodes(affinity *corev1.VolumeNodeAffinity) *corev1.VolumeNodeAffinity {
	isReal := corev1.NodeSelectorRequirement{Key: offloadingv1beta1.NodeTypeLabel, Operator: corev1.NodeSelectorOpDoesNotExist}
	var terms []corev1.NodeSelectorTerm
	if affinity != nil && affinity.Required != nil {
		terms = affinity.Required.NodeSelectorTerms
	}
	if len(terms) == 0 {
		terms = []corev1.NodeSelectorTerm{{}}
	}
	for i := range terms {
		terms[i].MatchExpressions = append(terms[i].MatchExpressions, isReal)
	}
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: terms}}
}

// forgeRealClaim builds the claim in the storage namespace. It has the same selected node, so that
// the provisioner of the class can act on it although no pod uses it.
func forgeRealClaim(claim *corev1.PersistentVolumeClaim, namespace, class string) *corev1.PersistentVolumeClaim {
	spec := claim.Spec.DeepCopy()
	spec.StorageClassName, spec.VolumeName = &class, ""
	node := claim.Annotations[selectedNodeAnnotation]
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: string(claim.UID),
			Labels: map[string]string{
				offloadingv1beta1.VirtualClaimNamespaceLabel: claim.Namespace, offloadingv1beta1.VirtualClaimNameLabel: labelValue(claim.Name),
			},
			Annotations: map[string]string{
				selectedNodeAnnotation: node, alphaSelectedNode: node, claimAnnotation: claim.Namespace + "/" + claim.Name,
			},
		},
		Spec: *spec,
	}
}

// labelValue returns a name as the value of a label, which is at most 63 characters long.
func labelValue(name string) string {
	const limit = 63
	if len(name) <= limit {
		return name
	}
	end := limit
	for !isAlphanumeric(name[end-1]) {
		end--
	}
	return name[:end]
}

func isAlphanumeric(c byte) bool { return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' }

// isRealClaimOf reports whether a claim of the storage namespace was made for the claim of a
// volume.
func isRealClaimOf(realClaim *corev1.PersistentVolumeClaim, claim *corev1.ObjectReference) bool {
	return realClaim.Annotations[claimAnnotation] == claim.Namespace+"/"+claim.Name
}
