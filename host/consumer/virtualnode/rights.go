package virtualnode

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/virtualkubelet"
)

// rights are the service account of the virtual kubelet, and its roles and bindings outside of offloaded
// namespaces (package access has those).
type rights struct {
	Client    client.Client
	APIReader client.Reader
	reporter
}

// Reconcile creates and updates the rights, or deletes those of a deleted VirtualNode, whose virtual
// kubelet has ended.
//
// +kubebuilder:rbac:groups="",resources=serviceaccounts,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterrolebindings;rolebindings,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles;roles,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles,resourceNames=liqo-virtual-kubelet-local;longshore-virtual-kubelet-lease,verbs=bind
//
// The manager needs the following rights only to grant them to virtual kubelets (virtualkubelet.Rights).
// The rights on leases in kube-node-lease and on Secrets in tenant namespaces are in the chart.
//
// +kubebuilder:rbac:groups="",resources=nodes/status,verbs=patch
// +kubebuilder:rbac:groups=policy.longshore.dev,resources=policycomponents,verbs=create;patch
// +kubebuilder:rbac:groups="";events.k8s.io,resources=events,verbs=create;get;patch;update
func (r *rights) Reconcile(ctx context.Context, vn *offloadingv1beta1.VirtualNode) (ctrl.Result, error) {
	if !vn.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, r.delete(ctx, vn)
	}
	problem, err := r.ensure(ctx, vn)
	if err != nil {
		return ctrl.Result{}, err
	}
	if problem != "" {
		return r.reportProblem(vn, problem), nil
	}
	return ctrl.Result{}, r.ensureServiceAccount(ctx, vn)
}

// ensure creates and updates the roles and bindings. It returns a message
// if a binding with one of the names is not managed for this VirtualNode, or "".
func (r *rights) ensure(ctx context.Context, vn *offloadingv1beta1.VirtualNode) (string, error) {
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
func (r *rights) update(ctx context.Context, vn *offloadingv1beta1.VirtualNode, current, desired client.Object) (problem string, err error) {
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
func (r *rights) deleteSuperseded(ctx context.Context, vn *offloadingv1beta1.VirtualNode) error {
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
func (r *rights) describeConflict(ctx context.Context, vn *offloadingv1beta1.VirtualNode, binding client.Object) (string, error) {
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

func (r *rights) ensureServiceAccount(ctx context.Context, vn *offloadingv1beta1.VirtualNode) error {
	desired := virtualkubelet.ServiceAccount(vn)
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(desired), &corev1.ServiceAccount{})
	if apierrors.IsNotFound(err) {
		err = client.IgnoreAlreadyExists(r.Client.Create(ctx, desired, client.FieldOwner(FieldManager)))
	}
	if err != nil {
		return fmt.Errorf("ensuring ServiceAccount %s: %w", client.ObjectKeyFromObject(desired), err)
	}
	return nil
}

// delete deletes the virtual kubelet's ServiceAccount, roles and bindings. The
// ClusterRoleBinding that decides about ownership is the last. A binding with the same name that
// is not managed for the VirtualNode is kept, and an event is recorded.
func (r *rights) delete(ctx context.Context, vn *offloadingv1beta1.VirtualNode) error {
	if err := r.deleteSuperseded(ctx, vn); err != nil {
		return err
	}
	owns, err := isBound(ctx, r.APIReader, vn)
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
