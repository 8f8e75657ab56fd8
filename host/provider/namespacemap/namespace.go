package namespacemap

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// RemoteRole is the ClusterRole that a consumer's identity gets in each namespace
// that was made for it (wire 6.5).
const RemoteRole = "liqo-virtual-kubelet-remote"

// Owner names the NamespaceMap in the annotation of what was made for it.
func Owner(nm *offloadingv1beta1.NamespaceMap) string { return nm.Namespace + "/" + nm.Name }

// Consumer returns the cluster ID of the consumer to which a tenant namespace belongs. A
// consumer writes only in its own tenant namespace, whose labels it cannot change: that is
// what its objects prove of its identity, whatever their own labels say.
func Consumer(tenant *corev1.Namespace) (string, error) {
	id := liqocorev1beta1.ClusterID(tenant.Labels[liqocorev1beta1.RemoteClusterIDLabel])
	if !isTenant(tenant) {
		return "", fmt.Errorf("namespace %q has no label %s=true: %w", tenant.Name, liqocorev1beta1.TenantNamespaceLabel, errNoTenant)
	}
	if err := id.Validate(); err != nil {
		return "", fmt.Errorf("label %s of namespace %q: %w: %w", liqocorev1beta1.RemoteClusterIDLabel, tenant.Name, err, errNoTenant)
	}
	return string(id), nil
}

func isTenant(namespace *corev1.Namespace) bool {
	value, ok := namespace.Labels[liqocorev1beta1.TenantNamespaceLabel]
	return ok && value != "false"
}

// OwnedBy reports whether the object was made for this NamespaceMap. The origin label
// is checked too: a NamespaceMap of the same name that another consumer replicates
// later must not inherit the namespace.
func OwnedBy(obj metav1.Object, nm *offloadingv1beta1.NamespaceMap, origin string) bool {
	return obj.GetAnnotations()[offloadingv1beta1.ManagedByNamespaceMapAnnotation] == Owner(nm) &&
		obj.GetLabels()[liqocorev1beta1.RemoteClusterIDLabel] == origin
}

// isManaged reports whether a namespace was made for this NamespaceMap: its own metadata
// says so or, when that was changed, the role binding in it, which only the provider can
// write. binding is nil when there is none.
func isManaged(namespace *corev1.Namespace, binding *rbacv1.RoleBinding, nm *offloadingv1beta1.NamespaceMap, origin string) bool {
	return OwnedBy(namespace, nm, origin) ||
		binding != nil && binding.Annotations[offloadingv1beta1.ManagedByNamespaceMapAnnotation] == Owner(nm) &&
			slices.Contains(binding.Subjects, subject(origin))
}

// isMadeFor reports whether a managed namespace was made for this local namespace and not
// for another one (T75). A mapping that was accepted before proves it when the annotation
// was changed.
func isMadeFor(namespace *corev1.Namespace, local string, current offloadingv1beta1.RemoteNamespaceStatus) bool {
	return namespace.Annotations[offloadingv1beta1.OriginalNameAnnotation] == local ||
		current == offloadingv1beta1.RemoteNamespaceStatus{RemoteNamespace: namespace.Name, Phase: offloadingv1beta1.MappingAccepted}
}

// ForgeNamespace builds the namespace for a consumer's namespace.
func ForgeNamespace(nm *offloadingv1beta1.NamespaceMap, origin, local, remote string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name:   remote,
		Labels: map[string]string{liqocorev1beta1.RemoteClusterIDLabel: origin},
		Annotations: map[string]string{
			offloadingv1beta1.ManagedByNamespaceMapAnnotation: Owner(nm),
			offloadingv1beta1.OriginalNameAnnotation:          local,
		},
	}}
}

// ForgeRoleBinding builds the binding that lets the consumer's identity, the group
// named like its cluster ID (T70), work in the namespace and nowhere else.
func ForgeRoleBinding(nm *offloadingv1beta1.NamespaceMap, origin, remote string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{
			Name:      nm.Namespace,
			Namespace: remote,
			Labels: map[string]string{
				liqocorev1beta1.ManagedByLabel:       liqocorev1beta1.ManagedByValue,
				liqocorev1beta1.RemoteClusterIDLabel: origin,
			},
			Annotations: map[string]string{offloadingv1beta1.ManagedByNamespaceMapAnnotation: Owner(nm)},
		},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: RemoteRole},
		Subjects: []rbacv1.Subject{subject(origin)},
	}
}

func subject(origin string) rbacv1.Subject {
	return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: origin}
}

// restoreMetadata sets the labels and annotations of want on obj and reports whether that
// changed it. Other keys stay.
func restoreMetadata(obj, want metav1.Object) bool {
	labels, changedLabels := restored(obj.GetLabels(), want.GetLabels())
	annotations, changedAnnotations := restored(obj.GetAnnotations(), want.GetAnnotations())
	obj.SetLabels(labels)
	obj.SetAnnotations(annotations)
	return changedLabels || changedAnnotations
}

func restored(have, want map[string]string) (map[string]string, bool) {
	result := maps.Clone(have)
	if result == nil {
		result = map[string]string{}
	}
	maps.Copy(result, want)
	return result, !maps.Equal(have, result)
}

// restoreBinding brings a binding in line with want and reports whether that changed it.
// The role of a binding cannot be changed: compare it before.
func restoreBinding(binding, want *rbacv1.RoleBinding) bool {
	changed := restoreMetadata(binding, want)
	if !equality.Semantic.DeepEqual(binding.Subjects, want.Subjects) {
		binding.Subjects, changed = want.Subjects, true
	}
	return changed
}

// Conflicts returns, per local namespace, why its desired mapping cannot be honored as it
// stands: two local namespaces that ask for one remote name would share it, and
// un-offloading either would delete it for both (T75). The one that has the remote namespace
// keeps it; among those that do not, the first in alphabetical order gets it.
func Conflicts(desired map[string]string, current map[string]offloadingv1beta1.RemoteNamespaceStatus) map[string]error {
	has := func(local string) bool {
		status := current[local]
		return status.RemoteNamespace == desired[local] && status.Phase == offloadingv1beta1.MappingAccepted
	}
	holder := map[string]string{}
	for local, remote := range desired {
		first, taken := holder[remote]
		if !taken || has(local) && !has(first) || has(local) == has(first) && local < first {
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
