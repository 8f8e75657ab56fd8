// Package remote: Pod flow, stage 4: builds what is sent to the provider: the ShadowPod
// of a local pod, and the ConfigMaps, Secrets and Services that go with it.
//
// Everything here is a pure function of its arguments: no client, context, clock,
// environment, logger or package state, and arguments are never altered. What is built
// are drafts: the policies change them, host/forge/invariants checks the outcome, and
// [SealPod] writes what no policy may touch.
package remote

import (
	"maps"
	"strings"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
)

const (
	// LocalPodUIDAnnotation on a ShadowPod is the UID of the local pod that it was made
	// for, so that a new pod of the same name does not adopt it (T25).
	LocalPodUIDAnnotation = "longshore.dev/local-pod-uid"
	// DecisionsAnnotation on a ShadowPod tells which policies wrote or dropped which paths.
	DecisionsAnnotation = policyv1alpha1.DecisionsAnnotation
	// RootCAConfigMapName is the ConfigMap that holds the API server's authority in every
	// namespace of every cluster.
	RootCAConfigMapName = "kube-root-ca.crt"

	// rootCASuffixLength is how many characters of the home ID tell our root CA map from
	// the provider's own (wire 4.6). Two consumers that share them and a
	// namespace collide (T36); the length is wire.
	rootCASuffixLength = 5
)

// Origin says which virtual node of which consumer forges, and for which provider.
type Origin struct {
	HomeClusterID     string
	ProviderClusterID string
	NodeName          string
}

// ConfigMapName returns the remote name of a ConfigMap: its own, but for the root CA map,
// which the provider has too (wire 4.6).
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
		// An object's name ends with a letter or a digit.
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

// ownedLabels returns the labels with those that say whose object it is; they win over
// the user's (wire 4.1).
func ownedLabels(labels map[string]string, origin Origin) map[string]string {
	owned := make(map[string]string, len(labels)+3)
	maps.Copy(owned, labels)
	owned[offloadingv1beta1.OriginLabel] = origin.HomeClusterID
	owned[offloadingv1beta1.DestinationLabel] = origin.ProviderClusterID
	return owned
}

// ReservedKey reports whether a label or annotation key is reflection's own: policies
// and users of the consumer have no say in it (T40).
func ReservedKey(key string) bool {
	switch key {
	case offloadingv1beta1.ManagedByLabel, offloadingv1beta1.CreatorUserLabel, offloadingv1beta1.LocalPodLabel,
		endpointSliceManagedByLabel, LocalPodUIDAnnotation, DecisionsAnnotation:
		return true
	default:
		return strings.HasPrefix(key, reservedPrefix)
	}
}

const (
	reservedPrefix              = "offloading.liqo.io/"
	endpointSliceManagedByLabel = "endpointslice.kubernetes.io/managed-by"
)
