package remote

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// accessModes are the known access modes.
var accessModes = []corev1.PersistentVolumeAccessMode{
	corev1.ReadWriteOnce, corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOncePod,
}

// claimAnnotations matches annotations of Kubernetes' volume controllers, which are those of the consumer.
// A provider refuses them.
var claimAnnotations = regexp.MustCompile(`^(pv|volume(\.(alpha|beta))?)\.kubernetes\.io/`)

// PersistentVolumeClaim builds the remote claim. namespace is the remote namespace;
// labels and annotations are the filtered ones. class is the class that the virtual node offers;
// empty selects the provider's default class. An error is about an annotation of the claim.
//
// The data source, the selector, the volume and the volume attributes class are dropped: they
// name objects of the consumer.
func PersistentVolumeClaim(local *corev1.PersistentVolumeClaim, namespace string, labels, annotations map[string]string, origin Origin, class string) (*applycorev1.PersistentVolumeClaimApplyConfiguration, error) {
	modes, err := ClaimAccessModes(local)
	if err != nil {
		return nil, err
	}
	labels, annotations = maps.Clone(labels), maps.Clone(annotations)
	delete(labels, offloadingv1beta1.StorageClusterLabel)
	delete(labels, offloadingv1beta1.RemoteClaimLabel)
	maps.DeleteFunc(annotations, func(key, _ string) bool { return claimAnnotations.MatchString(key) })
	spec := applycorev1.PersistentVolumeClaimSpec().WithAccessModes(modes...).WithVolumeMode(corev1.PersistentVolumeFilesystem).
		WithResources(applycorev1.VolumeResourceRequirements())
	if local.Spec.VolumeMode != nil {
		spec.WithVolumeMode(*local.Spec.VolumeMode)
	}
	if requests := local.Spec.Resources.Requests; len(requests) > 0 {
		spec.Resources.WithRequests(requests)
	}
	if limits := local.Spec.Resources.Limits; len(limits) > 0 {
		spec.Resources.WithLimits(limits)
	}
	if class = ClaimStorageClass(local, class); class != "" {
		spec.WithStorageClassName(class)
	}
	return applycorev1.PersistentVolumeClaim(local.Name, namespace).
		WithLabels(ownedLabels(labels, origin)).
		WithAnnotations(annotations).
		WithAnnotations(map[string]string{offloadingv1beta1.ClaimUIDAnnotation: string(local.UID)}).
		WithSpec(spec), nil
}

// ClaimStorageClass returns the class of the remote claim: that of the claim's annotation, or
// the offered one.
func ClaimStorageClass(claim *corev1.PersistentVolumeClaim, offered string) string {
	if class := claim.Annotations[offloadingv1beta1.RemoteStorageClassAnnotation]; class != "" {
		return class
	}
	return offered
}

// ClaimAccessModes returns the access modes of the remote claim: those of the claim's annotation,
// or its own if there is none or it is empty.
func ClaimAccessModes(claim *corev1.PersistentVolumeClaim) ([]corev1.PersistentVolumeAccessMode, error) {
	list := claim.Annotations[offloadingv1beta1.RemoteAccessModesAnnotation]
	if list == "" {
		return claim.Spec.AccessModes, nil
	}
	var modes []corev1.PersistentVolumeAccessMode
	for _, name := range strings.Split(list, ",") {
		mode := corev1.PersistentVolumeAccessMode(strings.TrimSpace(name))
		if !slices.Contains(accessModes, mode) {
			return nil, fmt.Errorf("annotation %s: unknown access mode %q: want ReadWriteOnce, ReadOnlyMany, ReadWriteMany or ReadWriteOncePod",
				offloadingv1beta1.RemoteAccessModesAnnotation, mode)
		}
		modes = append(modes, mode)
	}
	return modes, nil
}
