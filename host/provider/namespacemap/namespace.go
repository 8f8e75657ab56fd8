package namespacemap

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// RemoteRole is the ClusterRole that a consumer's identity gets in each namespace
// that was made for it (reference 6.5).
const RemoteRole = "liqo-virtual-kubelet-remote"

// Owner names the NamespaceMap in the annotation of what was made for it.
func Owner(nm *offloadingv1beta1.NamespaceMap) string { return nm.Namespace + "/" + nm.Name }

// OwnedBy reports whether the object was made for this NamespaceMap. The origin label
// is checked too: a NamespaceMap of the same name that another consumer replicates
// later must not inherit the namespace.
func OwnedBy(obj metav1.Object, nm *offloadingv1beta1.NamespaceMap, origin string) bool {
	return obj.GetAnnotations()[offloadingv1beta1.ManagedByNamespaceMapAnnotation] == Owner(nm) &&
		obj.GetLabels()[liqocorev1beta1.RemoteClusterIDLabel] == origin
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
				"app.kubernetes.io/managed-by":       "liqo",
				liqocorev1beta1.RemoteClusterIDLabel: origin,
			},
			Annotations: map[string]string{offloadingv1beta1.ManagedByNamespaceMapAnnotation: Owner(nm)},
		},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: RemoteRole},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: origin}},
	}
}

// Conflicts returns, per local namespace, why its desired mapping cannot be honored as it
// stands: two local namespaces that ask for one remote name would share it, and
// un-offloading either would delete it for both (T75). Whoever has the remote namespace
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
