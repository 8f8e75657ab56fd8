package access

import (
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/virtualnode"
)

// scope holds the facts of one pass over a namespace.
type scope struct {
	name string
	// offloading is the namespace's, or nil; selected are the providers that it selects.
	offloading   *offloadingv1beta1.NamespaceOffloading
	selected     map[string]bool
	virtualNodes []offloadingv1beta1.VirtualNode
	maps         []offloadingv1beta1.NamespaceMap
	// bindings are those of this package in the namespace, by name.
	bindings map[string]*rbacv1.RoleBinding
	// namespaces are this one and those of the VirtualNodes, by name, where they exist.
	namespaces map[string]*corev1.Namespace
}

// step is what is done for one virtual node in one namespace; the set is closed.
type step int

const (
	nothing step = iota
	grant
	revoke
	endPods
)

// decide returns the step for one virtual node. pods says whether pods on it are in the
// namespace, or not known yet.
//
// Only the NamespaceOffloading, which is the namespace's own, gives access. A NamespaceMap
// keeps what was given, and gives nothing: the peer may write NamespaceMaps in its tenant
// namespace.
func decide(s *scope, vn *offloadingv1beta1.VirtualNode, binding *rbacv1.RoleBinding, pods bool) step {
	desired, current := mapping(s, vn)
	wanted := isWanted(s, vn)
	if binding == nil {
		switch {
		case wanted:
			return grant
		case pods && !desired:
			return endPods
		default:
			return nothing
		}
	}
	switch {
	case wanted && !binding.DeletionTimestamp.IsZero() && s.isStaying():
		return revoke // Deleted by somebody else. It is created again when it is gone.
	case wanted || pods || s.offloading != nil && (desired || current):
		return nothing
	default:
		return revoke
	}
}

// isStaying reports whether the namespace exists and is not being deleted.
func (s *scope) isStaying() bool {
	namespace := s.namespaces[s.name]
	return namespace != nil && namespace.DeletionTimestamp.IsZero()
}

// isWanted reports whether the namespace is to be offloaded through the virtual node.
func isWanted(s *scope, vn *offloadingv1beta1.VirtualNode) bool {
	return s.offloading != nil && s.offloading.DeletionTimestamp.IsZero() && s.isStaying() &&
		vn.DeletionTimestamp.IsZero() && s.selected[string(vn.Spec.ClusterID)] && virtualnode.IsTenantNamespace(s.namespaces[vn.Namespace], vn)
}

// mapping reports whether the namespace is mapped to the virtual node's provider, as this
// cluster asks for and as the provider answers.
func mapping(s *scope, vn *offloadingv1beta1.VirtualNode) (desired, current bool) {
	for i := range s.maps {
		nm := &s.maps[i]
		if nm.Namespace != vn.Namespace || nm.Labels[liqocorev1beta1.RemoteIDLabel] != string(vn.Spec.ClusterID) {
			continue
		}
		_, isDesired := nm.Spec.DesiredMapping[s.name]
		_, isCurrent := nm.Status.CurrentMapping[s.name]
		desired, current = desired || isDesired, current || isCurrent
	}
	return desired, current
}

// BindingName is the name of a virtual kubelet's RoleBinding in offloaded namespaces.
func BindingName(vn *offloadingv1beta1.VirtualNode) string {
	return "longshore-virtual-kubelet." + vn.Namespace + "." + vn.Name
}

// ForgeBinding builds the RoleBinding that lets a virtual kubelet work in a namespace.
func ForgeBinding(vn *offloadingv1beta1.VirtualNode, namespace string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{
			Name: BindingName(vn), Namespace: namespace, Labels: virtualnode.Labels(vn), Finalizers: []string{Finalizer},
		},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: virtualnode.NamespaceRole},
		Subjects: []rbacv1.Subject{virtualnode.Account(vn)},
	}
}
