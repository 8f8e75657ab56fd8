package virtualnode

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// A VirtualNode's name is its own in its namespace only, and that of its Node and of its
// bindings is one of the cluster. Admission refuses the second one of a name, but two that
// are created at once both pass. So nothing that bears the name is used or deleted before
// it is known to be this VirtualNode's: a Node by its provider, a binding by whom it is
// for, and between two VirtualNodes of one name and provider by the ClusterRoleBinding,
// which only one of them can have made.

// maxNamed bounds how many objects a sentence names.
const maxNamed = 3

// forgeBindings are all bindings of a virtual kubelet, the one that decides first.
func forgeBindings(vn *offloadingv1beta1.VirtualNode) []client.Object {
	bindings := []client.Object{ForgeClusterRoleBinding(vn)}
	for _, binding := range ForgeLeaseBindings(vn) {
		bindings = append(bindings, binding)
	}
	return bindings
}

// bind makes the virtual kubelet's bindings, or returns why it cannot, in words for the
// person who can: one of that name may be somebody else's.
func (r *Reconciler) bind(ctx context.Context, vn *offloadingv1beta1.VirtualNode) (string, error) {
	for _, wanted := range forgeBindings(vn) {
		current := emptyLike(wanted)
		key := client.ObjectKeyFromObject(wanted)
		err := r.Client.Get(ctx, key, current)
		if apierrors.IsNotFound(err) {
			if err = r.Client.Create(ctx, wanted, client.FieldOwner(FieldManager)); err == nil {
				continue
			}
			if apierrors.IsAlreadyExists(err) { // Made a moment ago, by whomever.
				err = r.APIReader.Get(ctx, key, current)
			}
		}
		if err != nil {
			return "", fmt.Errorf("ensuring %s: %w", title(wanted), err)
		}
		if !sameBinding(current, wanted) {
			return r.taken(ctx, vn, current)
		}
	}
	return "", nil
}

// taken says whose a binding with the name of this VirtualNode's is, and who must act.
func (r *Reconciler) taken(ctx context.Context, vn *offloadingv1beta1.VirtualNode, binding client.Object) (string, error) {
	const another = "delete this VirtualNode, and create it with another name"
	_, subjects := contents(binding)
	for _, subject := range subjects {
		if subject.Kind != rbacv1.ServiceAccountKind || subject.Name != vn.Name || subject.Namespace == vn.Namespace {
			continue
		}
		key := client.ObjectKey{Namespace: subject.Namespace, Name: subject.Name}
		err := r.Client.Get(ctx, key, &offloadingv1beta1.VirtualNode{})
		if err == nil {
			return fmt.Sprintf("VirtualNode %s has the same name, and %s is for its virtual kubelet: %s", key, title(binding), another), nil
		}
		if !apierrors.IsNotFound(err) {
			return "", fmt.Errorf("reading VirtualNode %s: %w", key, err)
		}
	}
	return fmt.Sprintf("%s %s, and is not this VirtualNode's: delete it if nobody needs it, or %s", title(binding), grants(binding), another), nil
}

// unbind deletes the virtual kubelet's bindings and identity; what only has their name
// stays, and is told.
func (r *Reconciler) unbind(ctx context.Context, vn *offloadingv1beta1.VirtualNode) error {
	for _, wanted := range append(forgeBindings(vn), ForgeServiceAccount(vn)) {
		current := emptyLike(wanted)
		err := r.APIReader.Get(ctx, client.ObjectKeyFromObject(wanted), current)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("reading %s: %w", title(wanted), err)
		}
		if _, account := current.(*corev1.ServiceAccount); account {
			if current.GetLabels()[offloadingv1beta1.VirtualNodeLabel] != vn.Name {
				continue // There before the VirtualNode, which found it good enough.
			}
		} else if !sameBinding(current, wanted) {
			r.Events.Eventf(vn, current, corev1.EventTypeWarning, reasonNameTaken, actionStop, "%s stays: it %s", title(current), grants(current))
			continue
		}
		if err := client.IgnoreNotFound(r.Client.Delete(ctx, current, uidPrecondition(current))); err != nil {
			return fmt.Errorf("deleting %s: %w", title(current), err)
		}
	}
	return nil
}

// ownsNode reports whether a Node of the VirtualNode's provider and name is this one's, and
// not that of another VirtualNode of the same.
func (r *Reconciler) ownsNode(ctx context.Context, vn *offloadingv1beta1.VirtualNode) (bool, error) {
	// One that the cache has not seen has nothing yet: the same cache tells of its creation.
	list := &offloadingv1beta1.VirtualNodeList{}
	if err := r.Client.List(ctx, list); err != nil {
		return false, fmt.Errorf("listing VirtualNodes: %w", err)
	}
	namesake := func(other offloadingv1beta1.VirtualNode) bool {
		return other.Name == vn.Name && other.Namespace != vn.Namespace && other.Spec.ClusterID == vn.Spec.ClusterID
	}
	if !slices.ContainsFunc(list.Items, namesake) {
		return true, nil
	}
	wanted, current := ForgeClusterRoleBinding(vn), &rbacv1.ClusterRoleBinding{}
	err := r.APIReader.Get(ctx, client.ObjectKeyFromObject(wanted), current)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading %s: %w", title(wanted), err)
	}
	return err == nil && sameBinding(current, wanted), nil
}

func emptyLike(obj client.Object) client.Object {
	switch obj.(type) {
	case *rbacv1.ClusterRoleBinding:
		return &rbacv1.ClusterRoleBinding{}
	case *rbacv1.RoleBinding:
		return &rbacv1.RoleBinding{}
	default:
		return &corev1.ServiceAccount{}
	}
}

// contents are what a binding binds, and to whom.
func contents(binding client.Object) (rbacv1.RoleRef, []rbacv1.Subject) {
	switch b := binding.(type) {
	case *rbacv1.ClusterRoleBinding:
		return b.RoleRef, b.Subjects
	case *rbacv1.RoleBinding:
		return b.RoleRef, b.Subjects
	default:
		return rbacv1.RoleRef{}, nil
	}
}

// sameBinding reports whether a binding gives at least what is wanted: subjects may have
// been added by hand.
func sameBinding(current, wanted client.Object) bool {
	role, subjects := contents(current)
	wantedRole, wantedSubjects := contents(wanted)
	return role == wantedRole && !slices.ContainsFunc(wantedSubjects, func(s rbacv1.Subject) bool { return !slices.Contains(subjects, s) })
}

func title(obj client.Object) string {
	switch obj.(type) {
	case *rbacv1.ClusterRoleBinding:
		return "ClusterRoleBinding " + obj.GetName()
	case *rbacv1.RoleBinding:
		return fmt.Sprintf("RoleBinding %s/%s", obj.GetNamespace(), obj.GetName())
	default:
		return fmt.Sprintf("ServiceAccount %s/%s", obj.GetNamespace(), obj.GetName())
	}
}

// grants says in words what a binding binds, and to whom.
func grants(binding client.Object) string {
	role, subjects := contents(binding)
	to := make([]string, 0, len(subjects))
	for _, subject := range subjects {
		name := subject.Name
		if subject.Namespace != "" {
			name = subject.Namespace + "/" + name
		}
		to = append(to, subject.Kind+" "+name)
	}
	if len(to) == 0 {
		to = []string{"nobody"}
	}
	if more := len(to) - maxNamed; more > 0 { // An event's note holds a kilobyte.
		to = append(to[:maxNamed], fmt.Sprintf("%d more", more))
	}
	return fmt.Sprintf("binds %s %s to %s", role.Kind, role.Name, strings.Join(to, ", "))
}
