package access

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/virtualnode"
	"github.com/longshore-dev/longshore/host/forge/virtualkubelet"
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
	// endPods ends the pods here, because no virtual kubelet has access.
	endPods
)

// decide returns the step for a virtual node whose virtual kubelet has a RoleBinding, or none. hasPods
// reports whether the namespace has pods on the virtual node, or that is not known yet.
//
// Only a NamespaceOffloading grants access, because it is in the namespace itself. A NamespaceMap
// prolongs access but does not grant it: the peer can write NamespaceMaps in its tenant namespace.
func decide(s *scope, vn *offloadingv1beta1.VirtualNode, binding *rbacv1.RoleBinding, hasPods bool) step {
	needed := isNeeded(s, vn)
	if binding == nil {
		switch {
		case needed:
			return grant
		case !isRequested(s, vn):
			return endPods
		case hasPods && mayAccess(s, vn):
			// The VirtualNode was deleted between the first pod and the RoleBinding: its drain waits for
			// the pods, and only the virtual kubelet ends them.
			return grant
		default:
			return nothing
		}
	}
	switch {
	case needed && !binding.DeletionTimestamp.IsZero():
		return revoke // Deleted by another writer. It is created again when it is gone.
	case needed || hasPods || s.offloading != nil && isRequested(s, vn):
		return nothing
	default:
		return revoke
	}
}

// awaitsWithdrawal reports whether a RoleBinding is that of a VirtualNode which was deleted without its
// finalizer, and which the namespace is still mapped for: its virtual kubelet runs until the
// VirtualNode is created again and withdrawn.
func (s *scope) awaitsWithdrawal(binding *rbacv1.RoleBinding) bool {
	if s.offloading == nil || !s.isActive() {
		return false
	}
	return slices.ContainsFunc(s.maps, func(nm offloadingv1beta1.NamespaceMap) bool {
		_, isMapped := nm.Spec.DesiredMapping[s.name]
		return isMapped && slices.ContainsFunc(nm.VirtualNodes(), func(user string) bool {
			namespace, name, _ := strings.Cut(user, "/")
			return namespace == nm.Namespace && binding.Name == virtualkubelet.NamespaceBindingName(namespace, name)
		})
	})
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

// isRequested reports whether a remote namespace is requested of the virtual node's provider. What the
// provider reports prolongs nothing: it would keep the access of a namespace that is no longer offloaded.
func isRequested(s *scope, vn *offloadingv1beta1.VirtualNode) bool {
	for i := range s.maps {
		nm := &s.maps[i]
		if nm.Namespace != vn.Namespace || nm.Labels[liqocorev1beta1.RemoteIDLabel] != string(vn.Spec.ClusterID) {
			continue
		}
		if _, isRequested := nm.Spec.DesiredMapping[s.name]; isRequested {
			return true
		}
	}
	return false
}
