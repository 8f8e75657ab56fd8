package remote

import (
	"bytes"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
)

// ConfigMap builds the remote ConfigMap. namespace is the remote namespace; labels
// and annotations are the filtered ones.
func ConfigMap(local *corev1.ConfigMap, namespace string, labels, annotations map[string]string, origin Origin) *applycorev1.ConfigMapApplyConfiguration {
	config := applycorev1.ConfigMap(ConfigMapName(local.Name, origin), namespace).
		WithLabels(ownedLabels(labels, origin)).
		WithAnnotations(annotations).
		WithData(local.Data).
		WithBinaryData(cloneBytes(local.BinaryData))
	if local.Immutable != nil {
		config.WithImmutable(*local.Immutable)
	}
	return config
}

// Secret builds the remote Secret. The arguments are those of [ConfigMap].
func Secret(local *corev1.Secret, namespace string, labels, annotations map[string]string, origin Origin) *applycorev1.SecretApplyConfiguration {
	owned := ownedLabels(labels, origin)
	if local.Type == corev1.SecretTypeServiceAccountToken {
		owned[corev1.ServiceAccountNameKey] = local.Annotations[corev1.ServiceAccountNameKey]
	}
	config := applycorev1.Secret(local.Name, namespace).
		WithLabels(owned).
		WithAnnotations(annotations).
		WithData(cloneBytes(local.Data)).
		WithType(SecretType(local))
	if local.Immutable != nil {
		config.WithImmutable(*local.Immutable)
	}
	return config
}

// WithheldSecretTypes returns the types of Secrets that are not reflected by default. A release of Helm
// contains the values of a chart, with their passwords, and Helm in the provider would list it as its own; a
// bootstrap token lets nodes join the consumer.
func WithheldSecretTypes() []string {
	return []string{helmReleaseType, string(corev1.SecretTypeBootstrapToken)}
}

const helmReleaseType = "helm.sh/release.v1"

// SecretTypeOfName returns the type of the Secrets with a name like this one, where Helm or Kubernetes give
// it to one type only; "" otherwise. It is for those who read no more than the metadata.
func SecretTypeOfName(name string) string {
	switch {
	case strings.HasPrefix(name, "sh.helm.release.v1."):
		return helmReleaseType
	case strings.HasPrefix(name, "bootstrap-token-"):
		return string(corev1.SecretTypeBootstrapToken)
	default:
		return ""
	}
}

// SecretType returns the type of the remote Secret. Service account tokens become Opaque,
// because the provider's token controller would delete them.
func SecretType(local *corev1.Secret) corev1.SecretType {
	if local.Type == corev1.SecretTypeServiceAccountToken {
		return corev1.SecretTypeOpaque
	}
	return local.Type
}

func cloneBytes(data map[string][]byte) map[string][]byte {
	if data == nil {
		return nil
	}
	clone := maps.Clone(data)
	for key, value := range clone {
		clone[key] = bytes.Clone(value)
	}
	return clone
}
