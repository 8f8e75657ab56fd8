package namespacemap

import (
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/provider"
)

// Consumer returns the cluster ID of the consumer of a tenant namespace. The labels of the
// namespace identify the consumer, and not those of its objects: the consumer can only change the
// latter.
func Consumer(tenant *corev1.Namespace) (string, error) {
	id := liqocorev1beta1.ClusterID(tenant.Labels[liqocorev1beta1.RemoteClusterIDLabel])
	if !liqocorev1beta1.HasTenantLabel(tenant.Labels) {
		return "", fmt.Errorf("namespace %q has no label %s=true: %w", tenant.Name, liqocorev1beta1.TenantNamespaceLabel, errNoTenant)
	}
	if err := id.Validate(); err != nil {
		return "", fmt.Errorf("label %s of namespace %q: %w: %w", liqocorev1beta1.RemoteClusterIDLabel, tenant.Name, err, errNoTenant)
	}
	return string(id), nil
}

// OwnedBy reports whether the metadata of an object identify this NamespaceMap and its consumer. A
// NamespaceMap with the same name that another consumer replicates later does not own it.
func OwnedBy(obj metav1.Object, nm *offloadingv1beta1.NamespaceMap, origin string) bool {
	return obj.GetAnnotations()[offloadingv1beta1.ManagedByNamespaceMapAnnotation] == provider.Owner(nm) &&
		obj.GetLabels()[liqocorev1beta1.RemoteClusterIDLabel] == origin
}

// isManaged reports whether a namespace is managed by this NamespaceMap, according to its metadata
// or, if they were changed, to the RoleBinding in it, which the consumer cannot write. binding may
// be nil.
func isManaged(namespace *corev1.Namespace, binding *rbacv1.RoleBinding, nm *offloadingv1beta1.NamespaceMap, origin string) bool {
	return OwnedBy(namespace, nm, origin) || binding != nil && OwnedBy(binding, nm, origin)
}

// isMappedFrom reports whether a managed namespace belongs to this local namespace, according
// to its annotation or, if it was changed, to an accepted mapping.
func isMappedFrom(namespace *corev1.Namespace, local string, current offloadingv1beta1.RemoteNamespaceStatus) bool {
	return namespace.Annotations[offloadingv1beta1.OriginalNameAnnotation] == local ||
		current.RemoteNamespace == namespace.Name && current.IsAccepted()
}

// restoreMetadata sets the desired labels and annotations and reports whether that changed the
// object. It keeps other keys.
func restoreMetadata(obj, desired metav1.Object) bool {
	labels, changedLabels := mergeDesired(obj.GetLabels(), desired.GetLabels())
	annotations, changedAnnotations := mergeDesired(obj.GetAnnotations(), desired.GetAnnotations())
	obj.SetLabels(labels)
	obj.SetAnnotations(annotations)
	return changedLabels || changedAnnotations
}

func mergeDesired(current, desired map[string]string) (map[string]string, bool) {
	result := maps.Clone(current)
	if result == nil {
		result = map[string]string{}
	}
	maps.Copy(result, desired)
	return result, !maps.Equal(current, result)
}

// restoreBinding sets the desired metadata and subjects and reports whether that changed the
// binding. It does not compare the role, which is immutable.
func restoreBinding(binding, desired *rbacv1.RoleBinding) bool {
	changed := restoreMetadata(binding, desired)
	if !equality.Semantic.DeepEqual(binding.Subjects, desired.Subjects) {
		binding.Subjects, changed = desired.Subjects, true
	}
	return changed
}

// Conflicts returns an error for each local namespace whose remote namespace belongs to another
// mapping: un-offloading one of the two would delete it for both. An accepted mapping keeps
// the remote namespace; otherwise the first in alphabetical order gets it.
func Conflicts(desired map[string]string, current map[string]offloadingv1beta1.RemoteNamespaceStatus) map[string]error {
	isAccepted := func(local string) bool {
		status := current[local]
		return status.RemoteNamespace == desired[local] && status.Phase == offloadingv1beta1.MappingAccepted
	}
	holder := map[string]string{}
	for local, remote := range desired {
		first, taken := holder[remote]
		if !taken || isAccepted(local) && !isAccepted(first) || isAccepted(local) == isAccepted(first) && local < first {
			holder[remote] = local
		}
	}
	conflicts := map[string]error{}
	for local, remote := range desired {
		if first := holder[remote]; first != local {
			conflicts[local] = fmt.Errorf("remote namespace %q is already mapped to local namespace %q: %w", remote, first, errShared)
		}
	}
	return conflicts
}

func splitOwner(owner string) (namespace, name string, ok bool) {
	namespace, name, ok = strings.Cut(owner, "/")
	return namespace, name, ok && namespace != "" && name != ""
}
