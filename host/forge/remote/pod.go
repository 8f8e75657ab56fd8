package remote

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// PodDraft builds the ShadowPod of a local pod before any policy has seen it: metadata
// as in wire 3.2, step 1, spec as in 3.3 with the API-server support of mode
// Disabled (3.5). The namespace is the remote one.
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
		Spec: offloadingv1beta1.ShadowPodSpec{Pod: podSpec(&local.Spec, origin)},
	}
}

func draftLabels(local map[string]string, origin Origin) map[string]string {
	labels := make(map[string]string, len(local)+1)
	maps.Copy(labels, local)
	// Both describe the local pod and its link, not the remote one.
	delete(labels, offloadingv1beta1.LocalPodLabel)
	delete(labels, offloadingv1beta1.RemoteUnavailableLabel)
	labels[offloadingv1beta1.NodeNameLabel] = origin.NodeName
	return labels
}

// SealPod returns the ShadowPod as it is sent: what came out of the policies, with the
// keys that are reflection's own as they must be (T40), the local pod's UID (T25), and
// which policies decided what; decisions may be empty. Call it after the invariants
// have been checked. The spec is shared with the argument.
func SealPod(after *offloadingv1beta1.ShadowPod, local *corev1.Pod, origin Origin, decisions string) *offloadingv1beta1.ShadowPod {
	sealed := *after
	sealed.Labels = ownedLabels(unreserved(after.Labels), origin)
	sealed.Labels[offloadingv1beta1.NodeNameLabel] = origin.NodeName
	sealed.Annotations = unreserved(after.Annotations)
	sealed.Annotations[LocalPodUIDAnnotation] = string(local.UID)
	if decisions != "" {
		sealed.Annotations[DecisionsAnnotation] = decisions
	}
	return &sealed
}

// unreserved returns the entries whose keys are not reflection's own.
func unreserved(all map[string]string) map[string]string {
	free := make(map[string]string, len(all)+3)
	for key, value := range all {
		if !ReservedKey(key) {
			free[key] = value
		}
	}
	return free
}

// podSpec is the table of wire 3.3, and what docs/reference/deviations.md adds
// to it. A field that is neither here nor in DroppedPodFields fails a test.
func podSpec(local *corev1.PodSpec, origin Origin) corev1.PodSpec {
	in := local.DeepCopy()
	return corev1.PodSpec{
		Containers:     in.Containers,
		InitContainers: in.InitContainers,
		Volumes:        draftVolumes(in.Volumes, origin),
		Tolerations:    draftTolerations(in.Tolerations),

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

		// The account is the consumer's, and the provider's own is not the pod's to hold.
		AutomountServiceAccountToken: ptr.To(false),

		// Beyond the reference: without these the pod would be less isolated, unbounded,
		// or invalid, since containers refer to the claims by name. The provider looks
		// claims and templates up in the remote namespace.
		HostUsers:        draftHostUsers(in.HostUsers),
		OS:               in.OS,
		Resources:        in.Resources,
		ResourceClaims:   in.ResourceClaims,
		HostnameOverride: in.HostnameOverride,
	}
}

// DroppedPodFields are the fields of a pod spec that do not travel, and why.
func DroppedPodFields() map[string]string {
	return map[string]string{
		"EphemeralContainers":      "a pod cannot be created with them (wire 3.12)",
		"NodeSelector":             "names labels of the consumer's nodes; the OffloadingPatch gives the provider's",
		"Affinity":                 "names topology and pods of the consumer; the OffloadingPatch and the presets give the provider's",
		"ServiceAccountName":       "the account lives in the consumer (3.5, mode Disabled; T38)",
		"DeprecatedServiceAccount": "as serviceAccountName",
		"NodeName":                 "is the virtual node; the provider schedules",
		"SchedulerName":            "names a scheduler of the consumer",
		"HostNetwork":              "would be the network of the provider's node",
		"HostPID":                  "would be the processes of the provider's node",
		"HostIPC":                  "would be the IPC namespace of the provider's node",
		"PriorityClassName":        "names a class of the consumer; the provider decides who preempts there",
		"Priority":                 "is computed from the class by the provider's admission",
		"PreemptionPolicy":         "is computed from the class by the provider's admission",
		"RuntimeClassName":         "names a class of the consumer; decided by policy (3.4)",
		"Overhead":                 "is computed from the runtime class by the provider's admission",
		"SchedulingGates":          "have all been lifted: the pod is bound",
		"SchedulingGroup":          "names a PodGroup of the consumer, for which the provider's scheduler would wait",
		"EvictionResponders":       "name controllers of the consumer, for which an eviction in the provider would wait",
	}
}

// draftHostUsers keeps a user namespace of the pod's own; that the host's is wanted is
// the default and says nothing.
func draftHostUsers(local *bool) *bool {
	if local != nil && !*local {
		return local
	}
	return nil
}

// draftTolerations drops what made the pod fit the virtual node: in the provider it
// would let the pod go on to the provider's own virtual nodes. A toleration without a
// key survives, as in the reference (T13).
func draftTolerations(local []corev1.Toleration) []corev1.Toleration {
	var kept []corev1.Toleration
	for _, toleration := range local {
		if toleration.Key != offloadingv1beta1.VirtualNodeTaintKey {
			kept = append(kept, toleration)
		}
	}
	return kept
}

// draftVolumes applies mode Disabled (3.5) to projected volumes; it owns its argument.
// Only these: a plain volume that names the root CA map stays as it is (T36).
func draftVolumes(volumes []corev1.Volume, origin Origin) []corev1.Volume {
	for i := range volumes {
		projected := volumes[i].Projected
		if projected == nil {
			continue
		}
		sources := projected.Sources[:0]
		for _, source := range projected.Sources {
			if source.ServiceAccountToken != nil {
				continue
			}
			if source.ConfigMap != nil {
				source.ConfigMap.Name = ConfigMapName(source.ConfigMap.Name, origin)
			}
			sources = append(sources, source)
		}
		projected.Sources = sources
	}
	return volumes
}
