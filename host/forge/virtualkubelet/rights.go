package virtualkubelet

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
)

// The rights of a virtual kubelet. The manager makes the bindings for each VirtualNode, those in
// offloaded namespaces while a namespace is offloaded:
//
//	LocalRole, cluster-wide               read ConfigMaps, Services, EndpointSlices, Ingresses, namespaces,
//	                                      Nodes, pods, Longshore's objects; report on policies; ask for
//	                                      certificates and reviews
//	NamespaceRole, offloaded namespaces   read Secrets, delete and patch pods, write their status, record
//	                                      and read events, request tokens of service accounts (with
//	                                      virtualKubelet.apiServerAccess); operators add custom resources
//	a ClusterRole with resourceNames      patch the Node and its status
//	a Role in kube-node-lease, by name    renew the lease of the Node
//	a Role in the tenant namespace, …     read the provider's kubeconfig, record events
//	LeaseRole, tenant namespace           hold leases
//
// The manager creates the Node, with labels, taints and no capacity until the virtual kubelet publishes
// its status.

const (
	// LocalRole is the ClusterRole of virtual kubelets in the consumer. It grants
	// read access; the roles below grant write access.
	LocalRole = "liqo-virtual-kubelet-local"
	// LeaseRole is the ClusterRole for leader election in the tenant namespace.
	LeaseRole = "longshore-virtual-kubelet-lease"
	// NamespaceRole is the ClusterRole of virtual kubelets in offloaded namespaces.
	NamespaceRole = "longshore-virtual-kubelet-namespace"
	// AccessFinalizer keeps a RoleBinding while a virtual kubelet needs it: the deletion of a namespace
	// deletes RoleBindings before pods have ended.
	AccessFinalizer = "longshore.dev/virtual-kubelet-access"
	// maxObjectName bounds the name of a role or binding, in bytes.
	maxObjectName = 253
)

// Object is an object of Kubernetes, as client.Object of controller-runtime, which knows clients.
type Object interface {
	metav1.Object
	runtime.Object
}

// BindingName returns the name of the virtual kubelet's ClusterRoleBinding to LocalRole.
func BindingName(vn *offloadingv1beta1.VirtualNode) string {
	return boundedName("liqo-node-" + vn.Name)
}

// OwnRoleName returns the name of the roles of this VirtualNode's virtual kubelet and of their
// bindings.
func OwnRoleName(vn *offloadingv1beta1.VirtualNode) string {
	return boundedName("longshore-node-" + vn.Name)
}

func boundedName(name string) string { return name[:min(len(name), maxObjectName)] }

// Labels returns the labels of all objects that are created for a VirtualNode.
func Labels(vn *offloadingv1beta1.VirtualNode) map[string]string {
	return map[string]string{
		liqocorev1beta1.ManagedByLabel:       liqocorev1beta1.ManagedByValue,
		liqocorev1beta1.RemoteClusterIDLabel: string(vn.Spec.ClusterID),
		offloadingv1beta1.VirtualNodeLabel:   vn.Name,
	}
}

// ServiceAccount builds the ServiceAccount of a virtual kubelet.
func ServiceAccount(vn *offloadingv1beta1.VirtualNode) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: vn.Name, Namespace: vn.Namespace, Labels: Labels(vn)}}
}

// Account returns the virtual kubelet's ServiceAccount as the subject of a binding.
func Account(vn *offloadingv1beta1.VirtualNode) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: vn.Name, Namespace: vn.Namespace}
}

// ClusterRoleBinding builds the binding of the virtual kubelet to LocalRole.
func ClusterRoleBinding(vn *offloadingv1beta1.VirtualNode) *rbacv1.ClusterRoleBinding {
	return forgeClusterRoleBinding(vn, BindingName(vn), LocalRole)
}

func forgeClusterRoleBinding(vn *offloadingv1beta1.VirtualNode, name, role string) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: Labels(vn)},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{Account(vn)},
	}
}

// RoleSelector selects the Roles and ClusterRoles of [Rights]: a cache needs no others.
func RoleSelector() labels.Selector {
	return labels.SelectorFromSet(labels.Set{liqocorev1beta1.ManagedByLabel: liqocorev1beta1.ManagedByValue})
}

// Rights builds all roles and bindings of a virtual kubelet outside of offloaded
// namespaces. The first is the ClusterRoleBinding to LocalRole, which decides between two
// VirtualNodes with the same name. Each role precedes its binding.
func Rights(vn *offloadingv1beta1.VirtualNode) []Object {
	rights := []Object{
		ClusterRoleBinding(vn),
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: OwnRoleName(vn), Labels: Labels(vn)}, Rules: nodeRules(vn)},
		forgeClusterRoleBinding(vn, OwnRoleName(vn), OwnRoleName(vn)),
		forgeLeaseBinding(vn, vn.Namespace),
	}
	for _, in := range []struct {
		namespace string
		rules     []rbacv1.PolicyRule
	}{
		{vn.Namespace, tenantRules(vn)},
		{corev1.NamespaceNodeLease, leaseRules(vn)},
		// Events of cluster-scoped objects (OffloadingPolicies) are in the default namespace.
		{metav1.NamespaceDefault, []rbacv1.PolicyRule{eventRule("create", "patch")}},
	} {
		meta := metav1.ObjectMeta{Name: OwnRoleName(vn), Namespace: in.namespace, Labels: Labels(vn)}
		rights = append(rights,
			&rbacv1.Role{ObjectMeta: meta, Rules: in.rules},
			&rbacv1.RoleBinding{
				ObjectMeta: *meta.DeepCopy(),
				RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: OwnRoleName(vn)},
				Subjects:   []rbacv1.Subject{Account(vn)},
			})
	}
	return rights
}

// nodeRules returns the rules for the virtual kubelet's own Node, without create: RBAC cannot restrict
// the names of created objects.
func nodeRules(vn *offloadingv1beta1.VirtualNode) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{
		APIGroups: []string{corev1.GroupName}, Resources: []string{"nodes", "nodes/status"},
		ResourceNames: []string{vn.Name}, Verbs: []string{"patch"},
	}}
}

// tenantRules returns the rules for the VirtualNode's namespace: events, the kubeconfig Secret
// of the provider, and the report on policies. An apply names the object that it creates, so
// RBAC restricts it by name.
func tenantRules(vn *offloadingv1beta1.VirtualNode) []rbacv1.PolicyRule {
	rules := []rbacv1.PolicyRule{eventRule("create", "get", "patch", "update"), {
		APIGroups: []string{policyv1alpha1.GroupVersion.Group}, Resources: []string{"policycomponents"},
		ResourceNames: []string{vn.Name}, Verbs: []string{"create", "patch"},
	}}
	if ref := vn.Spec.KubeconfigSecretRef; ref != nil && ref.Name != "" {
		rules = append(rules, rbacv1.PolicyRule{
			APIGroups: []string{corev1.GroupName}, Resources: []string{"secrets"},
			ResourceNames: []string{ref.Name}, Verbs: []string{"get", "list", "watch"},
		})
	}
	return rules
}

// leaseRules returns the rules for the lease of the virtual kubelet's Node. Leases with other
// names can be created, but neither read nor changed.
func leaseRules(vn *offloadingv1beta1.VirtualNode) []rbacv1.PolicyRule {
	leases := func(verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{coordinationv1.GroupName}, Resources: []string{"leases"}, Verbs: verbs}
	}
	own := leases("get", "update")
	own.ResourceNames = []string{vn.Name}
	return []rbacv1.PolicyRule{leases("create"), own}
}

func eventRule(verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{corev1.GroupName, "events.k8s.io"}, Resources: []string{"events"}, Verbs: verbs}
}

// forgeLeaseBinding builds the binding to LeaseRole in a namespace.
func forgeLeaseBinding(vn *offloadingv1beta1.VirtualNode, namespace string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: BindingName(vn), Namespace: namespace, Labels: Labels(vn)},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: LeaseRole},
		Subjects:   []rbacv1.Subject{Account(vn)},
	}
}

// SupersededBindings returns the bindings of earlier versions that grant more than Rights.
func SupersededBindings(vn *offloadingv1beta1.VirtualNode) []Object {
	return []Object{forgeLeaseBinding(vn, corev1.NamespaceNodeLease)}
}

// NamespaceBinding builds the RoleBinding of a virtual kubelet in an offloaded namespace.
func NamespaceBinding(vn *offloadingv1beta1.VirtualNode, namespace string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{
			Name: NamespaceBindingName(vn.Namespace, vn.Name), Namespace: namespace, Labels: Labels(vn), Finalizers: []string{AccessFinalizer},
		},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: NamespaceRole},
		Subjects: []rbacv1.Subject{Account(vn)},
	}
}

// NamespaceBindingName returns the name of the RoleBinding of a virtual kubelet in offloaded namespaces.
func NamespaceBindingName(namespace, virtualNode string) string {
	return "longshore-virtual-kubelet." + namespace + "." + virtualNode
}
