package access

import (
	"slices"
	"strings"

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

// process is a virtual kubelet: a virtual node's own, or one that several virtual nodes of a tenant
// namespace share (ADR 69).
type process struct {
	// binding is the RoleBinding that permits the access.
	binding *rbacv1.RoleBinding
	// virtualNodes are those that it serves, or is to serve.
	virtualNodes []*offloadingv1beta1.VirtualNode
	// isUnused is true for the own process of a virtual node that another one serves: it keeps the
	// access that it has, and gets no other.
	isUnused bool
}

// processes returns the virtual kubelets of all virtual nodes.
func (s *scope) processes() []*process {
	var all []*process
	shared := map[string]*process{}
	for i := range s.virtualNodes {
		vn := &s.virtualNodes[i]
		all = append(all, &process{
			binding: ForgeBinding(vn, s.name), virtualNodes: []*offloadingv1beta1.VirtualNode{vn}, isUnused: !virtualnode.HasOwnProcess(vn),
		})
		for _, name := range virtualnode.SharedProcesses(vn) {
			binding := ForgeSharedBinding(vn, name, s.name)
			p := shared[binding.Name]
			if p == nil {
				p = &process{binding: binding}
				shared[binding.Name] = p
				all = append(all, p)
			}
			p.virtualNodes = append(p.virtualNodes, vn)
		}
	}
	return all
}

// step is the action for one process in one namespace.
type step int

const (
	nothing step = iota
	grant
	revoke
)

// decide returns the step for a process that has a RoleBinding, or none. hasPods reports whether the
// namespace has pods on a virtual node, or that is not known yet.
//
// Only a NamespaceOffloading grants access, because it is in the namespace itself. A NamespaceMap
// prolongs access but does not grant it: the peer can write NamespaceMaps in its tenant namespace.
func decide(s *scope, p *process, binding *rbacv1.RoleBinding, hasPods func(*offloadingv1beta1.VirtualNode) bool) step {
	isNeeded := slices.ContainsFunc(p.virtualNodes, func(vn *offloadingv1beta1.VirtualNode) bool { return isNeeded(s, vn) })
	if binding == nil {
		if !p.isUnused && (isNeeded || hasPodsToEnd(s, p, hasPods)) {
			return grant
		}
		return nothing
	}
	isDeleted := !binding.DeletionTimestamp.IsZero() && s.isActive()
	switch {
	case isNeeded && isDeleted:
		return revoke // Deleted by another writer. It is created again when it is gone.
	case isNeeded || isUsed(s, p, hasPods):
		return nothing
	default:
		return revoke
	}
}

// hasPodsToEnd reports whether a VirtualNode was deleted between the first pod and the RoleBinding: its
// drain waits for the pods, and only the virtual kubelet ends them.
func hasPodsToEnd(s *scope, p *process, hasPods func(*offloadingv1beta1.VirtualNode) bool) bool {
	return slices.ContainsFunc(p.virtualNodes, func(vn *offloadingv1beta1.VirtualNode) bool {
		return hasPods(vn) && isRequested(s, vn) && mayAccess(s, vn)
	})
}

// isUsed reports whether a process uses the access that it has: for pods, or while the remote namespace is
// requested.
func isUsed(s *scope, p *process, hasPods func(*offloadingv1beta1.VirtualNode) bool) bool {
	return slices.ContainsFunc(p.virtualNodes, func(vn *offloadingv1beta1.VirtualNode) bool {
		return hasPods(vn) || s.offloading != nil && isRequested(s, vn)
	})
}

// endsPods reports whether the pods on a virtual node are ended here, because no process that serves
// it has access.
func endsPods(s *scope, vn *offloadingv1beta1.VirtualNode) bool {
	return !isRequested(s, vn) && !isNeeded(s, vn)
}

// awaitsWithdrawal reports whether a RoleBinding is that of a VirtualNode which was deleted without its
// finalizer, and which the namespace is still mapped for: its own virtual kubelet runs until the
// VirtualNode is created again and withdrawn. A shared process serves no VirtualNode that is gone.
func (s *scope) awaitsWithdrawal(binding *rbacv1.RoleBinding) bool {
	if s.offloading == nil || !s.isActive() || binding.Labels[offloadingv1beta1.VirtualNodeLabel] == "" {
		return false
	}
	return slices.ContainsFunc(s.maps, func(nm offloadingv1beta1.NamespaceMap) bool {
		_, isMapped := nm.Spec.DesiredMapping[s.name]
		return isMapped && slices.ContainsFunc(nm.VirtualNodes(), func(user string) bool {
			namespace, name, _ := strings.Cut(user, "/")
			return namespace == nm.Namespace && binding.Name == bindingName(namespace, name)
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

const bindingPrefix = "longshore-virtual-kubelet."

// BindingName returns the name of the RoleBinding of a virtual node's own virtual kubelet in offloaded
// namespaces.
func BindingName(vn *offloadingv1beta1.VirtualNode) string {
	return bindingName(vn.Namespace, vn.Name)
}

// bindingName returns the name of the RoleBinding of a process in a tenant namespace, which has the name
// of its virtual node or is shared.
func bindingName(namespace, process string) string { return bindingPrefix + namespace + "." + process }

// ForgeBinding builds the RoleBinding of a virtual node's own virtual kubelet in a namespace.
func ForgeBinding(vn *offloadingv1beta1.VirtualNode, namespace string) *rbacv1.RoleBinding {
	return forgeBinding(BindingName(vn), namespace, virtualnode.Labels(vn), virtualnode.Account(vn))
}

// ForgeSharedBinding builds the RoleBinding of a shared virtual kubelet of a VirtualNode in a namespace.
func ForgeSharedBinding(vn *offloadingv1beta1.VirtualNode, process, namespace string) *rbacv1.RoleBinding {
	labels := virtualnode.Labels(vn)
	delete(labels, offloadingv1beta1.VirtualNodeLabel)
	labels[offloadingv1beta1.SharedProcessKey] = process
	account := virtualnode.Account(vn)
	account.Name = process
	return forgeBinding(bindingName(vn.Namespace, process), namespace, labels, account)
}

func forgeBinding(name, namespace string, labels map[string]string, account rbacv1.Subject) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: labels, Finalizers: []string{Finalizer}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: virtualnode.NamespaceRole},
		Subjects:   []rbacv1.Subject{account},
	}
}
