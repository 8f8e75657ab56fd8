package remote

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/podupdate"
)

// PodDraft builds the ShadowPod of a local pod before the policies: its metadata, and its spec with
// the access to an API server. namespace is the remote namespace.
func PodDraft(local *corev1.Pod, namespace string, origin Origin) *offloadingv1beta1.ShadowPod {
	return &offloadingv1beta1.ShadowPod{
		TypeMeta: metav1.TypeMeta{
			APIVersion: offloadingv1beta1.GroupVersion.String(), Kind: offloadingv1beta1.ShadowPodGVK.Kind,
		},
		ObjectMeta: metav1.ObjectMeta{
			Name:        local.Name,
			Namespace:   namespace,
			Labels:      draftLabels(local.Labels, origin),
			Annotations: maps.Clone(local.Annotations),
		},
		Spec: offloadingv1beta1.ShadowPodSpec{Pod: podSpec(local, origin)},
	}
}

func draftLabels(local map[string]string, origin Origin) map[string]string {
	labels := make(map[string]string, len(local)+1)
	maps.Copy(labels, local)
	// Both describe the local pod, not the remote pod.
	delete(labels, offloadingv1beta1.LocalPodLabel)
	delete(labels, offloadingv1beta1.RemoteUnavailableLabel)
	labels[offloadingv1beta1.NodeNameLabel] = origin.NodeName
	return labels
}

// SealPod returns the ShadowPod to send: the result of the policies with the reserved keys,
// the local pod's UID, the digests of its fields (unless it opts out of live
// updates) and the decisions annotation, which may be empty. Call it after checking the
// invariants. The spec is shared with the argument.
func SealPod(after *offloadingv1beta1.ShadowPod, local *corev1.Pod, origin Origin, decisions string) *offloadingv1beta1.ShadowPod {
	sealed := *after
	sealed.Labels = ownedLabels(unreserved(after.Labels), origin)
	sealed.Labels[offloadingv1beta1.NodeNameLabel] = origin.NodeName
	sealed.Annotations = unreserved(after.Annotations)
	sealed.Annotations[LocalPodUIDAnnotation] = string(local.UID)
	if FollowsLocalPod(local) {
		sealed.Annotations[podupdate.SentAnnotation] = podupdate.FieldsOf(&local.Spec).AtCreation().Encode()
	}
	if decisions != "" {
		sealed.Annotations[DecisionsAnnotation] = decisions
	}
	return &sealed
}

// FollowsLocalPod reports whether changes of the local pod's spec are sent.
func FollowsLocalPod(local *corev1.Pod) bool {
	return local.Annotations[podupdate.OptOutAnnotation] != "false"
}

// unreserved returns the entries without reserved keys.
func unreserved(all map[string]string) map[string]string {
	free := make(map[string]string, len(all)+3)
	for key, value := range all {
		if !ReservedKey(key) {
			free[key] = value
		}
	}
	return free
}

// podSpec has the fields that Liqo sends, and those of docs/reference/deviations.md. A test fails for fields that are neither here nor in
// DroppedPodFields.
func podSpec(local *corev1.Pod, origin Origin) corev1.PodSpec {
	in := local.Spec.DeepCopy()
	spec := corev1.PodSpec{
		Containers:     in.Containers,
		InitContainers: in.InitContainers,
		// A pod is created without them: they follow.
		EphemeralContainers: in.EphemeralContainers,
		Volumes:             draftVolumes(local.Name, in.Volumes, origin),
		Tolerations:         draftTolerations(in.Tolerations),

		ActiveDeadlineSeconds:         in.ActiveDeadlineSeconds,
		DNSConfig:                     in.DNSConfig,
		DNSPolicy:                     in.DNSPolicy,
		EnableServiceLinks:            in.EnableServiceLinks,
		HostAliases:                   in.HostAliases,
		Hostname:                      in.Hostname,
		ImagePullSecrets:              in.ImagePullSecrets,
		ReadinessGates:                in.ReadinessGates,
		RestartPolicy:                 in.RestartPolicy,
		SecurityContext:               in.SecurityContext,
		SetHostnameAsFQDN:             in.SetHostnameAsFQDN,
		ShareProcessNamespace:         in.ShareProcessNamespace,
		Subdomain:                     in.Subdomain,
		TerminationGracePeriodSeconds: in.TerminationGracePeriodSeconds,
		TopologySpreadConstraints:     in.TopologySpreadConstraints,

		// In addition to the reference: without these fields the pod would be less isolated,
		// without limits, or invalid, since containers refer to claims by name. Claims and
		// templates are looked up in the remote namespace.
		HostUsers:        draftHostUsers(in.HostUsers),
		OS:               in.OS,
		Resources:        in.Resources,
		ResourceClaims:   in.ResourceClaims,
		HostnameOverride: in.HostnameOverride,
	}
	setAccess(&spec, local, origin)
	return spec
}

// DroppedPodFields returns the fields of a pod spec that are not sent, with the reasons.
func DroppedPodFields() map[string]string {
	return map[string]string{
		"NodeSelector":             "has labels of the consumer's nodes; the OffloadingPatch has those of the provider",
		"Affinity":                 "has topology and pods of the consumer; the OffloadingPatch and the presets have those of the provider",
		"ServiceAccountName":       "the service account exists in the consumer only, except in mode Remote",
		"DeprecatedServiceAccount": "as serviceAccountName",
		"NodeName":                 "is the virtual node; the provider schedules the pod",
		"SchedulerName":            "names a scheduler of the consumer",
		"HostNetwork":              "would be the network of the provider's node",
		"HostPID":                  "would be the processes of the provider's node",
		"HostIPC":                  "would be the IPC namespace of the provider's node",
		"PriorityClassName":        "names a class of the consumer; the provider decides about preemption",
		"Priority":                 "is computed from the class by the provider's admission",
		"PreemptionPolicy":         "is computed from the class by the provider's admission",
		"RuntimeClassName":         "names a class of the consumer; decided by policy",
		"Overhead":                 "is computed from the runtime class by the provider's admission",
		"SchedulingGates":          "are all removed: the pod is bound",
		"SchedulingGroup":          "names a PodGroup of the consumer, for which the provider's scheduler would wait",
		"EvictionResponders":       "name controllers of the consumer, for which an eviction in the provider would wait",
	}
}

// ChangedPodFields returns the fields of a pod spec that may be sent with another value, with
// the reasons.
func ChangedPodFields() map[string]string {
	return map[string]string{
		"Tolerations":                  "tolerations of the virtual node's taint would allow the pod on the provider's own virtual nodes",
		"Volumes":                      "tokens of service accounts are not sent in mode Disabled, the root CA ConfigMap has another name there, and an ephemeral volume of the virtual storage class becomes a claim",
		"AutomountServiceAccountToken": "the service account is one of the consumer",
		"HostUsers":                    "true is the default",
	}
}

// draftVolumes replaces ephemeral volumes of the virtual storage class by the claims that the
// consumer's controllers create for them and that are reflected: in the provider, a pod cannot use
// such a claim as an ephemeral volume, because the pod does not own it. volumes is altered.
func draftVolumes(pod string, volumes []corev1.Volume, origin Origin) []corev1.Volume {
	for i := range volumes {
		volume := &volumes[i]
		if volume.Ephemeral == nil || volume.Ephemeral.VolumeClaimTemplate == nil || origin.VirtualStorageClass == "" {
			continue
		}
		class := volume.Ephemeral.VolumeClaimTemplate.Spec.StorageClassName
		if class != nil && *class == origin.VirtualStorageClass {
			volume.VolumeSource = corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: EphemeralClaimName(pod, volume.Name)}}
		}
	}
	return volumes
}

// EphemeralClaimName returns the name of the claim that Kubernetes creates for an ephemeral volume
// (KEP-1698).
func EphemeralClaimName(pod, volume string) string { return pod + "-" + volume }

// draftHostUsers keeps false only. True is the default.
func draftHostUsers(local *bool) *bool {
	if local != nil && !*local {
		return local
	}
	return nil
}

// draftTolerations drops tolerations of the virtual node's taint. In the provider they would
// allow the pod on the provider's own virtual nodes. A toleration without a key is kept, as in
// the reference.
func draftTolerations(local []corev1.Toleration) []corev1.Toleration {
	var kept []corev1.Toleration
	for _, toleration := range local {
		if toleration.Key != offloadingv1beta1.VirtualNodeTaintKey {
			kept = append(kept, toleration)
		}
	}
	return kept
}
