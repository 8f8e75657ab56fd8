package remote

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Fields of a pod that containers read, and that differ in the provider.
const (
	serviceAccountField = "spec.serviceAccountName"
	namespaceField      = "metadata.namespace"
)

// namespaceKey is the key of the local namespace in the Secret with the tokens of a pod.
const namespaceKey = "namespace"

func isField(from *corev1.ObjectFieldSelector, field string) bool {
	return from != nil && from.FieldPath == field
}

// namespaceSources returns a downward API source of a projected volume, in which the local namespace comes
// from the Secret with the tokens: clients ask the API server for which these are about that namespace.
func namespaceSources(source corev1.VolumeProjection, local *corev1.Pod) []corev1.VolumeProjection {
	var kept []corev1.DownwardAPIVolumeFile
	secret := &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: TokenSecretName(local.Name)}}
	for _, item := range source.DownwardAPI.Items {
		if isField(item.FieldRef, namespaceField) {
			secret.Items = append(secret.Items, corev1.KeyToPath{Key: namespaceKey, Path: item.Path, Mode: item.Mode})
		} else {
			kept = append(kept, item)
		}
	}
	var sources []corev1.VolumeProjection
	if len(kept) > 0 || len(secret.Items) == 0 {
		sources = append(sources, corev1.VolumeProjection{DownwardAPI: &corev1.DownwardAPIProjection{Items: kept}})
	}
	if len(secret.Items) > 0 {
		sources = append(sources, corev1.VolumeProjection{Secret: secret})
	}
	return sources
}

// NamespaceReferences lists where the containers of a remote pod read the name of its namespace, which is
// not that of the local pod. There are none if both have one name, or if the pod uses the API server of the
// provider. The file beside the token of a service account is for the API server.
func NamespaceReferences(spec *corev1.PodSpec, local *corev1.Pod, remoteNamespace string, origin Origin) []string {
	if local.Namespace == remoteNamespace || accessOf(local, origin) == accessRemote {
		return nil
	}
	var found []string
	visitContainers(spec, func(env *[]corev1.EnvVar, _ []corev1.EnvFromSource) {
		for _, variable := range *env {
			if variable.ValueFrom != nil && isField(variable.ValueFrom.FieldRef, namespaceField) {
				found = append(found, fmt.Sprintf("variable %q", variable.Name))
			}
		}
	})
	for i := range spec.Volumes {
		volume := &spec.Volumes[i]
		var files []corev1.DownwardAPIVolumeFile
		if volume.DownwardAPI != nil {
			files = volume.DownwardAPI.Items
		}
		if volume.Projected != nil && !hasToken(volume.Name, local) {
			for _, source := range volume.Projected.Sources {
				if source.DownwardAPI != nil {
					files = append(slices.Clip(files), source.DownwardAPI.Items...)
				}
			}
		}
		if slices.ContainsFunc(files, func(file corev1.DownwardAPIVolumeFile) bool { return isField(file.FieldRef, namespaceField) }) {
			found = append(found, fmt.Sprintf("volume %q", volume.Name))
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func hasToken(volume string, local *corev1.Pod) bool {
	for name := range projectedTokens(local) {
		if name == volume {
			return true
		}
	}
	return false
}

// TranslateExternalName returns the name of a Service of another namespace as the provider's DNS knows it.
// remoteOf returns the remote name of an offloaded namespace. left is the namespace if it is not offloaded;
// names that are not those of Services stay as they are.
func TranslateExternalName(name string, remoteOf func(namespace string) (string, bool)) (translated, left string) {
	labels := strings.Split(name, ".")
	at := slices.Index(labels, "svc")
	if rest := strings.TrimSuffix(strings.Join(labels[at+1:], "."), "."); at < 2 || rest != "" && rest != "cluster.local" {
		return name, ""
	}
	namespace, isMapped := remoteOf(labels[at-1])
	if !isMapped {
		return name, labels[at-1]
	}
	labels[at-1] = namespace
	return strings.Join(labels, "."), ""
}
