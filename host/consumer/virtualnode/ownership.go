package virtualnode

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
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

// ensureRights makes the virtual kubelet's roles and bindings, or returns why it cannot, in
// words for the person who can: a binding of that name may be somebody else's.
func (r *Reconciler) ensureRights(ctx context.Context, vn *offloadingv1beta1.VirtualNode) (string, error) {
	for _, desired := range ForgeRights(vn) {
		current := emptyLike(desired)
		key := client.ObjectKeyFromObject(desired)
		err := r.Client.Get(ctx, key, current)
		if apierrors.IsNotFound(err) {
			if err = r.Client.Create(ctx, desired, client.FieldOwner(FieldManager)); err == nil {
				continue
			}
			if apierrors.IsAlreadyExists(err) { // The cache is stale, or selects by label.
				err = r.APIReader.Get(ctx, key, current)
			}
		}
		if err != nil {
			return "", fmt.Errorf("ensuring %s: %w", title(desired), err)
		}
		if problem, err := r.adjust(ctx, vn, current, desired); problem != "" || err != nil {
			return problem, err
		}
	}
	return "", r.deleteSuperseded(ctx, vn)
}

// adjust brings an existing role to the desired rules. A binding cannot be changed.
func (r *Reconciler) adjust(ctx context.Context, vn *offloadingv1beta1.VirtualNode, current, desired client.Object) (problem string, err error) {
	rules, isRole := rulesOf(current)
	if !isRole {
		if isSameBinding(current, desired) {
			return "", nil
		}
		return r.taken(ctx, vn, current)
	}
	desiredRules, _ := rulesOf(desired)
	if equality.Semantic.DeepEqual(*rules, *desiredRules) {
		return "", nil
	}
	before, ok := current.DeepCopyObject().(client.Object)
	if !ok {
		return "", fmt.Errorf("copying %s", title(current))
	}
	*rules = *desiredRules
	if err := r.Client.Patch(ctx, current, client.MergeFrom(before), client.FieldOwner(FieldManager)); err != nil {
		return "", fmt.Errorf("updating %s: %w", title(current), err)
	}
	return "", nil
}

// deleteSuperseded deletes the bindings of an earlier version.
func (r *Reconciler) deleteSuperseded(ctx context.Context, vn *offloadingv1beta1.VirtualNode) error {
	for _, superseded := range supersededBindings(vn) {
		current := emptyLike(superseded)
		err := r.Client.Get(ctx, client.ObjectKeyFromObject(superseded), current)
		if err == nil && isSameBinding(current, superseded) {
			err = r.Client.Delete(ctx, current, uidPrecondition(current))
		}
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting %s of an earlier version: %w", title(superseded), err)
		}
	}
	return nil
}

// taken says whose a binding with the name of this VirtualNode's is, and who must act.
func (r *Reconciler) taken(ctx context.Context, vn *offloadingv1beta1.VirtualNode, binding client.Object) (string, error) {
	const another = "delete this VirtualNode, and create it with another name"
	subjects, _ := subjectsOf(binding)
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

// deleteRights deletes the virtual kubelet's identity, roles and bindings, the one that
// decides last: roles bear the name of the VirtualNode and not its namespace, so they are
// this one's while it has that binding. A binding that only has the name stays, and an event
// says so.
func (r *Reconciler) deleteRights(ctx context.Context, vn *offloadingv1beta1.VirtualNode) error {
	if err := r.deleteSuperseded(ctx, vn); err != nil {
		return err
	}
	owns, err := r.isBound(ctx, vn)
	if err != nil {
		return err
	}
	rights := append(ForgeRights(vn), ForgeServiceAccount(vn))
	for _, desired := range slices.Backward(rights) {
		current := emptyLike(desired)
		err := r.APIReader.Get(ctx, client.ObjectKeyFromObject(desired), current)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("reading %s: %w", title(desired), err)
		}
		if _, isBinding := subjectsOf(current); isBinding && !isSameBinding(current, desired) {
			r.Events.Eventf(vn, current, corev1.EventTypeWarning, reasonNameTaken, actionStop, "%s stays: it %s", title(current), grants(current))
			continue
		} else if !isBinding && (current.GetLabels()[offloadingv1beta1.VirtualNodeLabel] != vn.Name || !owns && current.GetNamespace() != vn.Namespace) {
			continue // Made before the VirtualNode, or for another one of its name.
		}
		if err := client.IgnoreNotFound(r.Client.Delete(ctx, current, uidPrecondition(current))); err != nil {
			return fmt.Errorf("deleting %s: %w", title(current), err)
		}
	}
	return nil
}

// isBound reports whether the ClusterRoleBinding with the VirtualNode's name is this one's.
func (r *Reconciler) isBound(ctx context.Context, vn *offloadingv1beta1.VirtualNode) (bool, error) {
	desired, current := ForgeClusterRoleBinding(vn), &rbacv1.ClusterRoleBinding{}
	err := r.APIReader.Get(ctx, client.ObjectKeyFromObject(desired), current)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading %s: %w", title(desired), err)
	}
	return err == nil && isSameBinding(current, desired), nil
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
	return r.isBound(ctx, vn)
}

func emptyLike(obj client.Object) client.Object {
	switch obj.(type) {
	case *rbacv1.ClusterRoleBinding:
		return &rbacv1.ClusterRoleBinding{}
	case *rbacv1.RoleBinding:
		return &rbacv1.RoleBinding{}
	case *rbacv1.ClusterRole:
		return &rbacv1.ClusterRole{}
	case *rbacv1.Role:
		return &rbacv1.Role{}
	default:
		return &corev1.ServiceAccount{}
	}
}

// rulesOf returns the rules of a role, and whether the object is one.
func rulesOf(obj client.Object) (*[]rbacv1.PolicyRule, bool) {
	switch role := obj.(type) {
	case *rbacv1.ClusterRole:
		return &role.Rules, true
	case *rbacv1.Role:
		return &role.Rules, true
	default:
		return nil, false
	}
}

// subjectsOf returns the subjects of a binding, and whether the object is one.
func subjectsOf(obj client.Object) ([]rbacv1.Subject, bool) {
	switch binding := obj.(type) {
	case *rbacv1.ClusterRoleBinding:
		return binding.Subjects, true
	case *rbacv1.RoleBinding:
		return binding.Subjects, true
	default:
		return nil, false
	}
}

func roleOf(obj client.Object) rbacv1.RoleRef {
	switch binding := obj.(type) {
	case *rbacv1.ClusterRoleBinding:
		return binding.RoleRef
	case *rbacv1.RoleBinding:
		return binding.RoleRef
	default:
		return rbacv1.RoleRef{}
	}
}

// isSameBinding reports whether a binding gives at least what is desired: subjects may have
// been added by hand.
func isSameBinding(current, desired client.Object) bool {
	subjects, _ := subjectsOf(current)
	desiredSubjects, _ := subjectsOf(desired)
	return roleOf(current) == roleOf(desired) &&
		!slices.ContainsFunc(desiredSubjects, func(s rbacv1.Subject) bool { return !slices.Contains(subjects, s) })
}

// title names an object in a message: kind, namespace and name.
func title(obj client.Object) string {
	kind := strings.TrimPrefix(fmt.Sprintf("%T", obj), "*v1.")
	if obj.GetNamespace() == "" {
		return kind + " " + obj.GetName()
	}
	return fmt.Sprintf("%s %s/%s", kind, obj.GetNamespace(), obj.GetName())
}

// grants says in words what a binding binds, and to which subjects.
func grants(binding client.Object) string {
	role := roleOf(binding)
	subjects, _ := subjectsOf(binding)
	to := make([]string, 0, len(subjects))
	for _, subject := range subjects {
		name := subject.Name
		if subject.Namespace != "" {
			name = subject.Namespace + "/" + name
		}
		to = append(to, subject.Kind+" "+name)
	}
	if len(to) == 0 {
		to = []string{"no subject"}
	}
	if more := len(to) - maxNamed; more > 0 { // An event's note holds a kilobyte.
		to = append(to[:maxNamed], fmt.Sprintf("%d more", more))
	}
	return fmt.Sprintf("binds %s %s to %s", role.Kind, role.Name, strings.Join(to, ", "))
}
