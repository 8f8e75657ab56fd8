package access

import (
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/virtualnode"
)

// scope is the state that the reconcile of one namespace works on.
type scope struct {
	name string
	// offloading is the namespace's, or nil. selected are the providers that it selects.
	offloading   *offloadingv1beta1.NamespaceOffloading
	selected     map[string]bool
	virtualNodes []offloadingv1beta1.VirtualNode
	maps         []offloadingv1beta1.NamespaceMap
	// bindings are the RoleBindings of this package in the namespace, by name.
	bindings map[string]*rbacv1.RoleBinding
	// namespaces are this namespace and those of the VirtualNodes, by name, if they exist.
	namespaces map[string]*corev1.Namespace
}

// step is the action for one virtual node in one namespace.
type step int

const (
	nothing step = iota
	grant
	revoke
	endPods
)

// decide returns the step for one virtual node. hasPods is true if the namespace has pods on the
// virtual node, or if that is not known yet.
//
// Only a NamespaceOffloading grants access, because it is in the namespace itself. A NamespaceMap
// prolongs access but does not grant it: the peer can write NamespaceMaps in its tenant namespace.
func decide(s *scope, vn *offloadingv1beta1.VirtualNode, binding *rbacv1.RoleBinding, hasPods bool) step {
	desired, current := mapping(s, vn)
	needed := isNeeded(s, vn)
	if binding == nil {
		switch {
		case needed:
			return grant
		case hasPods && !desired:
			return endPods
		case hasPods && mayAccess(s, vn):
			// The VirtualNode was deleted between the first pod and the RoleBinding: its drain waits
			// for the pods, and only the virtual kubelet ends them.
			return grant
		default:
			return nothing
		}
	}
	switch {
	case needed && !binding.DeletionTimestamp.IsZero() && s.isActive():
		return revoke // Deleted by another writer. It is created again when it is gone.
	case needed || hasPods || s.offloading != nil && (desired || current):
		return nothing
	default:
		return revoke
	}
}

// isActive reports whether the namespace exists and is not being deleted.
func (s *scope) isActive() bool {
	namespace := s.namespaces[s.name]
	return namespace != nil && namespace.DeletionTimestamp.IsZero()
}

// isNeeded reports whether the virtual kubelet needs access to the namespace.
func isNeeded(s *scope, vn *offloadingv1beta1.VirtualNode) bool {
	return vn.DeletionTimestamp.IsZero() && mayAccess(s, vn)
}

// mayAccess reports whether the namespace is offloaded to the virtual node's provider.
func mayAccess(s *scope, vn *offloadingv1beta1.VirtualNode) bool {
	return s.offloading != nil && s.offloading.DeletionTimestamp.IsZero() && s.isActive() &&
		s.selected[string(vn.Spec.ClusterID)] && virtualnode.IsTenantNamespace(s.namespaces[vn.Namespace], vn)
}

// mapping reports whether the namespace is mapped to the virtual node's provider, in the spec
// and in the status of the NamespaceMap.
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

// BindingName returns the name of a virtual kubelet's RoleBinding in offloaded namespaces.
func BindingName(vn *offloadingv1beta1.VirtualNode) string {
	return "longshore-virtual-kubelet." + vn.Namespace + "." + vn.Name
}

// ForgeBinding builds the RoleBinding of a virtual kubelet in a namespace.
func ForgeBinding(vn *offloadingv1beta1.VirtualNode, namespace string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{
			Name: BindingName(vn), Namespace: namespace, Labels: virtualnode.Labels(vn), Finalizers: []string{Finalizer},
		},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: virtualnode.NamespaceRole},
		Subjects: virtualnode.Subjects(vn),
	}
}
