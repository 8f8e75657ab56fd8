// Package remote builds the objects that are sent to the provider. Pod flow, stage 4: the
// ShadowPod of a local pod, and its ConfigMaps, Secrets, Services and Ingresses.
//
// All functions are pure: they use no client, context, clock, environment, logger or package
// state, and do not alter their arguments. The results are drafts: policies change them,
// host/forge/invariants checks them, and [SealPod] sets the fields that no policy may change.
package remote

import (
	"maps"
	"strings"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/kit/podupdate"
)

const (
	// LocalPodUIDAnnotation on a ShadowPod is the UID of its local pod. It prevents a new pod
	// of the same name from adopting the ShadowPod.
	LocalPodUIDAnnotation = "longshore.dev/local-pod-uid"
	// DecisionsAnnotation on a ShadowPod records which policies changed which paths.
	DecisionsAnnotation = policyv1alpha1.DecisionsAnnotation
	// RootCAConfigMapName is the ConfigMap with the CA certificate of the API server, in every
	// namespace of every cluster.
	RootCAConfigMapName = "kube-root-ca.crt"

	// rootCASuffixLength is the number of characters of the home cluster ID in the remote name
	// of the root CA map. Two consumers with the same characters and the same
	// namespace collide; the length is part of the wire.
	rootCASuffixLength = 5
)

// Origin identifies the consumer, the provider and the virtual node of an object.
type Origin struct {
	HomeClusterID     string
	ProviderClusterID string
	NodeName          string
	// APIServer is the consumer's, for remote pods.
	APIServer APIServer
	// AudienceTokens sends tokens for other audiences than the API server also to pods that do not reach it.
	AudienceTokens bool
	// VirtualStorageClass is the consumer's class whose claims are reflected; empty if none are.
	VirtualStorageClass string
}

// ConfigMapName returns the remote name of a ConfigMap. It differs from the local name for the
// root CA map only, because the provider has one of its own.
func ConfigMapName(local string, origin Origin) string {
	if local != RootCAConfigMapName {
		return local
	}
	suffix := origin.HomeClusterID
	if len(suffix) > rootCASuffixLength {
		suffix = suffix[:rootCASuffixLength]
	}
	name := RootCAConfigMapName + "." + suffix
	if !alphanumeric(name[len(name)-1]) {
		// Names must end with a letter or a digit.
		name += "a"
	}
	return name
}

// LocalConfigMapName is the inverse of [ConfigMapName].
func LocalConfigMapName(remote string, origin Origin) string {
	if remote == ConfigMapName(RootCAConfigMapName, origin) {
		return RootCAConfigMapName
	}
	return remote
}

func alphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// ownedLabels returns the labels with the ownership labels, which override the user's (wire
// 4.1).
func ownedLabels(labels map[string]string, origin Origin) map[string]string {
	owned := make(map[string]string, len(labels)+3)
	maps.Copy(owned, labels)
	owned[offloadingv1beta1.OriginLabel] = origin.HomeClusterID
	owned[offloadingv1beta1.DestinationLabel] = origin.ProviderClusterID
	return owned
}

// ReservedKey reports whether a label or annotation key is reserved for reflection. Policies
// and users of the consumer cannot set it.
func ReservedKey(key string) bool {
	switch key {
	case offloadingv1beta1.ManagedByLabel, offloadingv1beta1.CreatorUserLabel, offloadingv1beta1.LocalPodLabel,
		endpointSliceManagedByLabel, LocalPodUIDAnnotation, DecisionsAnnotation, policyv1alpha1.LocalGenerationAnnotation,
		podupdate.SentAnnotation, podupdate.AppliedAnnotation, podupdate.GatesAnnotation:
		return true
	default:
		return strings.HasPrefix(key, reservedPrefix)
	}
}

const (
	reservedPrefix              = "offloading.liqo.io/"
	endpointSliceManagedByLabel = "endpointslice.kubernetes.io/managed-by"
)
