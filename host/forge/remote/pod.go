package remote

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// PodDraft builds the ShadowPod of a local pod before any policy: the labels and
// annotations of reference 3.2, step 1, and the spec of 3.3, field by field. Which field
// does not travel, and why, says [DroppedPodFields].
func PodDraft(local *corev1.Pod, namespace string, origin Origin) *offloadingv1beta1.ShadowPod {
	labels := make(map[string]string, len(local.Labels)+1)
	maps.Copy(labels, local.Labels)
	delete(labels, offloadingv1beta1.LocalPodLabel)
	delete(labels, offloadingv1beta1.RemoteUnavailableLabel)
	labels[offloadingv1beta1.NodeNameLabel] = origin.NodeName
	return &offloadingv1beta1.ShadowPod{
		ObjectMeta: metav1.ObjectMeta{
			Name: local.Name, Namespace: namespace, Labels: labels, Annotations: maps.Clone(local.Annotations),
		},
		Spec: offloadingv1beta1.ShadowPodSpec{Pod: draftSpec(&local.Spec, origin)},
	}
}

// draftSpec carries the fields that are carried, and nothing else.
func draftSpec(spec *corev1.PodSpec, origin Origin) corev1.PodSpec {
	in := spec.DeepCopy()
	no := false
	out := corev1.PodSpec{
		Containers:                    in.Containers,
		InitContainers:                in.InitContainers,
		Volumes:                       draftVolumes(in.Volumes, origin),
		Tolerations:                   draftTolerations(in.Tolerations),
		ActiveDeadlineSeconds:         in.ActiveDeadlineSeconds,
		DNSConfig:                     in.DNSConfig,
		DNSPolicy:                     in.DNSPolicy,
		EnableServiceLinks:            in.EnableServiceLinks,
		HostAliases:                   in.HostAliases,
		Hostname:                      in.Hostname,
		HostnameOverride:              in.HostnameOverride,
		ImagePullSecrets:              in.ImagePullSecrets,
		OS:                            in.OS,
		ReadinessGates:                in.ReadinessGates,
		Resources:                     in.Resources,
		RestartPolicy:                 in.RestartPolicy,
		SecurityContext:               in.SecurityContext,
		SetHostnameAsFQDN:             in.SetHostnameAsFQDN,
		ShareProcessNamespace:         in.ShareProcessNamespace,
		Subdomain:                     in.Subdomain,
		TerminationGracePeriodSeconds: in.TerminationGracePeriodSeconds,
		TopologySpreadConstraints:     in.TopologySpreadConstraints,
		AutomountServiceAccountToken:  &no,
	}
	if in.HostUsers != nil && !*in.HostUsers {
		// Only the isolating value: "true" is the default and needs no word.
		out.HostUsers = &no
	}
	out.ResourceClaims = slices.DeleteFunc(in.ResourceClaims, func(c corev1.PodResourceClaim) bool {
		return c.ResourceClaimTemplateName == nil
	})
	return out
}

// DroppedPodFields are the fields of a pod spec that do not travel, and why (reference
// 3.3). A field that is neither here nor carried fails a test.
func DroppedPodFields() map[string]string {
	return map[string]string{
		"EphemeralContainers":      "they are added to a running pod only, through a subresource",
		"NodeSelector":             "it names the consumer's nodes; the offloadingPatch gives the provider's",
		"Affinity":                 "it names the consumer's nodes and pods; patch and preset give the provider's",
		"NodeName":                 "the virtual node is no node of the provider",
		"SchedulerName":            "the scheduler is the consumer's",
		"SchedulingGates":          "they were lifted when the pod was bound",
		"SchedulingGroup":          "groups are scheduled where the pod was bound, in the consumer",
		"Priority":                 "the class it comes from is the consumer's",
		"PriorityClassName":        "the class is the consumer's",
		"PreemptionPolicy":         "it belongs to the priority",
		"Overhead":                 "the provider computes it from its own runtime class",
		"RuntimeClassName":         "decided by the OffloadingPatch policy from annotation, pod and patch (reference 3.4)",
		"ServiceAccountName":       "the account is the consumer's; the provider's default runs the pod (T38)",
		"DeprecatedServiceAccount": "an old name of serviceAccountName",
		"HostNetwork":              "never: it would leave the pod's own network on the provider",
		"HostPID":                  "never: it would see the provider's processes",
		"HostIPC":                  "never: it would share the provider's memory",
		"EvictionResponders":       "they are controllers of the consumer",
	}
}

// draftTolerations drops the toleration that made the pod fit the virtual node: on the
// provider it would let the pod go on to the provider's own virtual nodes. A keyless
// toleration survives (T13).
func draftTolerations(tolerations []corev1.Toleration) []corev1.Toleration {
	return slices.DeleteFunc(tolerations, func(t corev1.Toleration) bool {
		return t.Key == offloadingv1beta1.VirtualNodeTaintKey
	})
}

// draftVolumes rewrites projected sources for API-server support "disabled" (reference
// 3.5): tokens of the consumer stay at home, the root CA map has another name.
func draftVolumes(volumes []corev1.Volume, origin Origin) []corev1.Volume {
	for i := range volumes {
		projected := volumes[i].Projected
		if projected == nil {
			continue
		}
		projected.Sources = slices.DeleteFunc(projected.Sources, func(s corev1.VolumeProjection) bool {
			return s.ServiceAccountToken != nil
		})
		for j := range projected.Sources {
			if source := projected.Sources[j].ConfigMap; source != nil {
				source.Name = ConfigMapName(source.Name, origin)
			}
		}
	}
	return volumes
}

// SealPod closes a ShadowPod after the policies: what marks it as ours and as this
// pod's is written last, so that no policy can take it away (ARCHITECTURE 4.2, host
// invariants; T40).
func SealPod(decided *offloadingv1beta1.ShadowPod, local *corev1.Pod, origin Origin, decisions string) *offloadingv1beta1.ShadowPod {
	sealed := decided.DeepCopy()
	sealed.Labels = ownedLabels(sealed.Labels, origin)
	sealed.Labels[offloadingv1beta1.NodeNameLabel] = origin.NodeName
	if sealed.Annotations == nil {
		sealed.Annotations = map[string]string{}
	}
	sealed.Annotations[LocalPodUIDAnnotation] = string(local.UID)
	delete(sealed.Annotations, DecisionsAnnotation)
	if decisions != "" {
		sealed.Annotations[DecisionsAnnotation] = decisions
	}
	return sealed
}
