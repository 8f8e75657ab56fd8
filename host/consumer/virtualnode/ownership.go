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
	"github.com/longshore-dev/longshore/host/forge/virtualkubelet"
)

// The name of a VirtualNode is unique in its namespace, but its Node and its bindings are
// cluster-scoped. Admission denies a second VirtualNode with the same name, but two that are
// created concurrently both pass. Therefore ownership is checked before an object with the name
// is used or deleted: that of a Node by its provider, that of a binding by its subjects. Between
// two VirtualNodes with the same name and provider the ClusterRoleBinding decides, which only
// one of them can have created.

// maxNamed is the maximum number of objects in a message.
const maxNamed = 3

// ensureRights creates and updates the virtual kubelet's roles and bindings. It returns a message
// if a binding with one of the names is not managed for this VirtualNode, or "".
func (r *Reconciler) ensureRights(ctx context.Context, vn *offloadingv1beta1.VirtualNode) (string, error) {
	for _, desired := range virtualkubelet.Rights(vn) {
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
		if problem, err := r.update(ctx, vn, current, desired); problem != "" || err != nil {
			return problem, err
		}
	}
	return "", r.deleteSuperseded(ctx, vn)
}

// update sets the rules of an existing role. It returns a message if an existing binding is
// another one: the role of a binding is immutable.
func (r *Reconciler) update(ctx context.Context, vn *offloadingv1beta1.VirtualNode, current, desired client.Object) (problem string, err error) {
	rules, isRole := rulesOf(current)
	if !isRole {
		if isSameBinding(current, desired) {
			return "", nil
		}
		return r.describeConflict(ctx, vn, current)
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
	for _, superseded := range virtualkubelet.SupersededBindings(vn) {
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

// describeConflict returns a message about a binding that prevents the creation of this
// VirtualNode's.
func (r *Reconciler) describeConflict(ctx context.Context, vn *offloadingv1beta1.VirtualNode, binding client.Object) (string, error) {
	const rename = "delete this VirtualNode and create it under another name"
	subjects, _ := subjectsOf(binding)
	for _, subject := range subjects {
		if subject.Kind != rbacv1.ServiceAccountKind || subject.Name != vn.Name || subject.Namespace == vn.Namespace {
			continue
		}
		key := client.ObjectKey{Namespace: subject.Namespace, Name: subject.Name}
		err := r.Client.Get(ctx, key, &offloadingv1beta1.VirtualNode{})
		if err == nil {
			return fmt.Sprintf("VirtualNode %s has the same name, and %s belongs to its virtual kubelet: %s", key, title(binding), rename), nil
		}
		if !apierrors.IsNotFound(err) {
			return "", fmt.Errorf("reading VirtualNode %s: %w", key, err)
		}
	}
	return fmt.Sprintf("%s %s and is not managed for this VirtualNode: delete it if it is not needed, or %s", title(binding), describeBinding(binding), rename), nil
}

// deleteRights deletes the virtual kubelet's ServiceAccount, roles and bindings. The
// ClusterRoleBinding that decides about ownership is the last. A binding with the same name that
// is not managed for the VirtualNode is kept, and an event is recorded.
func (r *Reconciler) deleteRights(ctx context.Context, vn *offloadingv1beta1.VirtualNode) error {
	if err := r.deleteSuperseded(ctx, vn); err != nil {
		return err
	}
	owns, err := r.isBound(ctx, vn)
	if err != nil {
		return err
	}
	rights := append(virtualkubelet.Rights(vn), virtualkubelet.ServiceAccount(vn))
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
			r.Events.Eventf(vn, current, corev1.EventTypeWarning, reasonNameTaken, actionStop, "%s is kept because it %s and is not managed for this VirtualNode", title(current), describeBinding(current))
			continue
		} else if !isBinding && (current.GetLabels()[offloadingv1beta1.VirtualNodeLabel] != vn.Name || !owns && current.GetNamespace() != vn.Namespace) {
			continue // Not created for this VirtualNode.
		}
		if err := client.IgnoreNotFound(r.Client.Delete(ctx, current, uidPrecondition(current))); err != nil {
			return fmt.Errorf("deleting %s: %w", title(current), err)
		}
	}
	return nil
}

// isBound reports whether the ClusterRoleBinding with the VirtualNode's name is for its virtual
// kubelet.
func (r *Reconciler) isBound(ctx context.Context, vn *offloadingv1beta1.VirtualNode) (bool, error) {
	desired, current := virtualkubelet.ClusterRoleBinding(vn), &rbacv1.ClusterRoleBinding{}
	err := r.APIReader.Get(ctx, client.ObjectKeyFromObject(desired), current)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading %s: %w", title(desired), err)
	}
	return err == nil && isSameBinding(current, desired), nil
}

// ownsNode reports whether a Node with the VirtualNode's name and provider belongs to it, and not
// to another VirtualNode with the same name and provider.
func (r *Reconciler) ownsNode(ctx context.Context, vn *offloadingv1beta1.VirtualNode) (bool, error) {
	// A VirtualNode that is not in the cache yet has not been reconciled and owns nothing.
	list := &offloadingv1beta1.VirtualNodeList{}
	if err := r.Client.List(ctx, list, readOnly); err != nil {
		return false, fmt.Errorf("listing VirtualNodes: %w", err)
	}
	hasSameName := func(other offloadingv1beta1.VirtualNode) bool {
		return other.Name == vn.Name && other.Namespace != vn.Namespace && other.Spec.ClusterID == vn.Spec.ClusterID
	}
	if !slices.ContainsFunc(list.Items, hasSameName) {
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

// rulesOf returns the rules of a role, and whether the object is a role.
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

// subjectsOf returns the subjects of a binding, and whether the object is a binding.
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

// isSameBinding reports whether a binding has the desired role and the desired subject, the account of
// the virtual kubelet: an administrator may have added others.
func isSameBinding(current, desired client.Object) bool {
	subjects, _ := subjectsOf(current)
	desiredSubjects, _ := subjectsOf(desired)
	return roleOf(current) == roleOf(desired) && slices.Contains(subjects, desiredSubjects[0])
}

// title returns kind, namespace and name of an object for messages.
func title(obj client.Object) string {
	kind := strings.TrimPrefix(fmt.Sprintf("%T", obj), "*v1.")
	if obj.GetNamespace() == "" {
		return kind + " " + obj.GetName()
	}
	return fmt.Sprintf("%s %s/%s", kind, obj.GetNamespace(), obj.GetName())
}

// describeBinding returns the role and the subjects of a binding for messages.
func describeBinding(binding client.Object) string {
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
	if more := len(to) - maxNamed; more > 0 { // The note of an event is limited to one kilobyte.
		to = append(to[:maxNamed], fmt.Sprintf("%d more", more))
	}
	return fmt.Sprintf("binds %s %s to %s", role.Kind, role.Name, strings.Join(to, ", "))
}
