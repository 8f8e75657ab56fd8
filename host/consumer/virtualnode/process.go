package virtualnode

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/forge/virtualkubelet"
)

// A VirtualNode has a process of its own or shares one (ADR 69). Its annotation ProcessAnnotation
// says what is desired, SharedProcessKey which shared process serves it. When it changes, the new
// process becomes available before the old one ends, and the lease of the node decides between them.
//
// The Deployment of a shared process is the VirtualNode's spec.template without the flags of one node
// (name, kubeconfig Secret, createNode, network check, extra labels and annotations of the Node,
// classes), its label and its account. Its name has a hash of the rest. No VirtualNode is the first
// that decides for others, and an update of an image moves one VirtualNode after the other.
//
// A process of its own is elected with the lease <tenant namespace>/<node>. A shared process is
// elected with a lease of its own name, and holds the lease of each node in addition, renewed every
// 15 s, with its name as identity: replicas do not wait for each other there. The old process releases
// the lease after it has stopped.
//
// In the bindings of a VirtualNode's Node, lease and kubeconfig, the account of the shared process is a
// second subject. The first, the account of the VirtualNode, decides who owns a binding. Account,
// lease and report of the process are owned by the Deployment and deleted with it. The manager approves
// serving certificates for a shared process only as SharedProcessKey permits.

// sharesProcess reports whether a VirtualNode is to share its process.
func sharesProcess(vn *offloadingv1beta1.VirtualNode) bool {
	return vn.Annotations[offloadingv1beta1.ProcessAnnotation] == offloadingv1beta1.ProcessShared
}

// HasOwnProcess reports whether a process of the VirtualNode's own serves it, or is to.
func HasOwnProcess(vn *offloadingv1beta1.VirtualNode) bool {
	return !sharesProcess(vn) || vn.Annotations[offloadingv1beta1.SharedProcessKey] == ""
}

// SharedProcesses returns the names of the shared processes that need the rights of a VirtualNode's
// virtual kubelet: the desired one and the one that serves it.
func SharedProcesses(vn *offloadingv1beta1.VirtualNode) []string {
	var names []string
	if sharesProcess(vn) {
		// checkPrerequisites reports an invalid template.
		if shared, err := virtualkubelet.Shared(vn); err == nil {
			names = append(names, shared.Name)
		}
	}
	if current := vn.Annotations[offloadingv1beta1.SharedProcessKey]; current != "" && !slices.Contains(names, current) {
		names = append(names, current)
	}
	return names
}

// Subjects returns the accounts of the processes that may serve a VirtualNode. The first is the
// account of its own process: a binding with it belongs to the VirtualNode.
func Subjects(vn *offloadingv1beta1.VirtualNode) []rbacv1.Subject {
	subjects := []rbacv1.Subject{Account(vn)}
	for _, name := range SharedProcesses(vn) {
		subjects = append(subjects, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: name, Namespace: vn.Namespace})
	}
	return subjects
}

// SyncSubjects returns the subjects of an existing binding of a VirtualNode with the accounts that
// it needs and without those of shared processes that do not serve it any more, and whether they
// differ. Other subjects are an administrator's.
func SyncSubjects(current, desired []rbacv1.Subject) (subjects []rbacv1.Subject, hasChanged bool) {
	own := desired[0]
	subjects = slices.DeleteFunc(slices.Clone(current), func(s rbacv1.Subject) bool {
		return s.Kind == own.Kind && s.Namespace == own.Namespace && strings.HasPrefix(s.Name, virtualkubelet.SharedPrefix) && !slices.Contains(desired, s)
	})
	hasChanged = len(subjects) != len(current)
	for _, subject := range desired {
		if !slices.Contains(subjects, subject) {
			subjects, hasChanged = append(subjects, subject), true
		}
	}
	return subjects, hasChanged
}

// ForgeSharedDeployment builds the Deployment of the process that a VirtualNode shares.
func ForgeSharedDeployment(vn *offloadingv1beta1.VirtualNode) (*appsv1.Deployment, error) {
	shared, err := virtualkubelet.Shared(vn)
	if err != nil {
		return nil, err
	}
	deployment := &appsv1.Deployment{ObjectMeta: shared.ObjectMeta, Spec: shared.Spec}
	hash, err := jsonHash(deployment.Spec)
	if err != nil {
		return nil, fmt.Errorf("hashing spec.template: %w", err)
	}
	deployment.Annotations = merged(deployment.Annotations, map[string]string{TemplateHashAnnotation: hash})
	return deployment, nil
}

// ForgeSharedRights builds the ServiceAccount of a shared process and the rights that belong to none
// of its VirtualNodes. The garbage collector deletes them with the Deployment. The ServiceAccount is
// last: its pods are not created before it exists, and then they have their rights.
func ForgeSharedRights(deployment *appsv1.Deployment) []client.Object {
	meta := metav1.ObjectMeta{
		Name: deployment.Name, Namespace: deployment.Namespace,
		Labels:          map[string]string{liqocorev1beta1.ManagedByLabel: liqocorev1beta1.ManagedByValue, offloadingv1beta1.SharedProcessKey: deployment.Name},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(deployment, appsv1.SchemeGroupVersion.WithKind("Deployment"))},
	}
	leases := *meta.DeepCopy()
	leases.Name += "-lease"
	account := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: deployment.Name, Namespace: deployment.Namespace}}
	return []client.Object{
		&rbacv1.Role{ObjectMeta: *meta.DeepCopy(), Rules: []rbacv1.PolicyRule{
			eventRule("create", "get", "patch", "update"), componentRule(deployment.Name),
		}},
		&rbacv1.RoleBinding{
			ObjectMeta: *meta.DeepCopy(), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: deployment.Name}, Subjects: account,
		},
		&rbacv1.RoleBinding{
			ObjectMeta: leases, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: LeaseRole}, Subjects: account,
		},
		&corev1.ServiceAccount{ObjectMeta: meta},
	}
}

// applyProcess creates or updates the Deployment of the process that is to serve the VirtualNode,
// moves the VirtualNode to it, and returns it.
func (r *Reconciler) applyProcess(ctx context.Context, vn *offloadingv1beta1.VirtualNode) (*appsv1.Deployment, error) {
	if err := r.ensureServiceAccount(ctx, vn); err != nil {
		return nil, err
	}
	forge := ForgeDeployment
	if sharesProcess(vn) {
		forge = ForgeSharedDeployment
	}
	desired, err := forge(vn)
	if err != nil {
		return nil, err
	}
	deployment, err := r.applyDeployment(ctx, vn, desired)
	if err != nil {
		return nil, err
	}
	if sharesProcess(vn) {
		err = r.moveToShared(ctx, vn, deployment)
	} else if vn.Annotations[offloadingv1beta1.SharedProcessKey] != "" && deployment.Status.AvailableReplicas > 0 {
		err = r.assign(ctx, vn, "")
	}
	// The last VirtualNode that leaves a process is reconciled again when the cache has its change.
	unused, listErr := r.unusedProcesses(ctx, r.Client, vn.Namespace)
	if len(unused) > 0 {
		listErr = r.deleteUnusedProcesses(ctx, vn)
	}
	return deployment, errors.Join(err, listErr)
}

// moveToShared assigns a VirtualNode to a shared process when that is available, and deletes its own
// Deployment. A VirtualNode without a process is assigned at once.
func (r *Reconciler) moveToShared(ctx context.Context, vn *offloadingv1beta1.VirtualNode, shared *appsv1.Deployment) error {
	for _, right := range ForgeSharedRights(shared) {
		current := emptyLike(right)
		err := r.Client.Get(ctx, client.ObjectKeyFromObject(right), current)
		if apierrors.IsNotFound(err) {
			err = client.IgnoreAlreadyExists(r.Client.Create(ctx, right, client.FieldOwner(FieldManager)))
		} else if _, isRole := rulesOf(current); err == nil && isRole {
			_, err = r.update(ctx, vn, current, right)
		}
		if err != nil {
			return fmt.Errorf("ensuring %s: %w", title(right), err)
		}
	}
	own, err := r.ownDeployments(ctx, vn)
	if err != nil {
		return err
	}
	current := vn.Annotations[offloadingv1beta1.SharedProcessKey]
	if shared.Status.AvailableReplicas == 0 && (current != "" || len(own) > 0) && current != shared.Name {
		return nil // The event of the Deployment's status continues.
	}
	if err := r.assign(ctx, vn, shared.Name); err != nil {
		return err
	}
	if err := r.deleteDeployments(ctx, vn, own); err != nil {
		return err
	}
	return r.deleteReport(ctx, vn)
}

// assign records which shared process serves a VirtualNode; none means its own process.
func (r *Reconciler) assign(ctx context.Context, vn *offloadingv1beta1.VirtualNode, process string) error {
	if vn.Annotations[offloadingv1beta1.SharedProcessKey] == process {
		return nil
	}
	before := vn.DeepCopy()
	after := vn.DeepCopy()
	if process == "" {
		delete(after.Annotations, offloadingv1beta1.SharedProcessKey)
	} else {
		metav1.SetMetaDataAnnotation(&after.ObjectMeta, offloadingv1beta1.SharedProcessKey, process)
	}
	if err := r.Client.Patch(ctx, after, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("assigning VirtualNode %s/%s to process %q: %w", vn.Namespace, vn.Name, process, err)
	}
	// The status is written later.
	vn.ObjectMeta = after.ObjectMeta
	return nil
}

// ownDeployments returns the Deployments of a VirtualNode's own process.
func (r *Reconciler) ownDeployments(ctx context.Context, vn *offloadingv1beta1.VirtualNode) ([]appsv1.Deployment, error) {
	list := &appsv1.DeploymentList{}
	if err := r.Client.List(ctx, list, client.InNamespace(vn.Namespace), ownProcess(vn)); err != nil {
		return nil, fmt.Errorf("listing the Deployments of VirtualNode %s/%s: %w", vn.Namespace, vn.Name, err)
	}
	return list.Items, nil
}

// ownProcess selects the Deployments and the pods of a VirtualNode's own process.
func ownProcess(vn *offloadingv1beta1.VirtualNode) client.MatchingLabels {
	return client.MatchingLabels{
		offloadingv1beta1.ComponentLabel:   offloadingv1beta1.ComponentVirtualKubelet,
		offloadingv1beta1.VirtualNodeLabel: vn.Name,
	}
}

func (r *Reconciler) deleteDeployments(ctx context.Context, vn *offloadingv1beta1.VirtualNode, deployments []appsv1.Deployment) error {
	for i := range deployments {
		deployment := &deployments[i]
		err := r.Client.Delete(ctx, deployment, uidPrecondition(deployment), client.PropagationPolicy(metav1.DeletePropagationBackground))
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting Deployment %s/%s: %w", deployment.Namespace, deployment.Name, err)
		}
		r.networkPolicies.Delete(deployment.UID)
		if err != nil {
			continue
		}
		r.Events.Eventf(vn, deployment, corev1.EventTypeNormal, reasonVkDeleted, actionStop, "Deleted virtual kubelet Deployment %s", deployment.Name)
	}
	return nil
}

// deleteReport deletes the PolicyComponent of a VirtualNode's own process, which would count as a
// component that follows no change of a policy.
//
// +kubebuilder:rbac:groups=policy.longshore.dev,resources=policycomponents,verbs=get;list;watch;delete
func (r *Reconciler) deleteReport(ctx context.Context, vn *offloadingv1beta1.VirtualNode) error {
	report := &policyv1alpha1.PolicyComponent{}
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(vn), report)
	if err == nil {
		err = r.Client.Delete(ctx, report, uidPrecondition(report))
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting PolicyComponent %s/%s of the virtual node's own process: %w", vn.Namespace, vn.Name, err)
	}
	return nil
}

// deleteUnusedProcesses deletes the Deployments of shared processes of the namespace that no
// VirtualNode uses. VirtualNodes are read from the API server, because the first user of a process
// may be new.
func (r *Reconciler) deleteUnusedProcesses(ctx context.Context, vn *offloadingv1beta1.VirtualNode) error {
	unused, err := r.unusedProcesses(ctx, r.APIReader, vn.Namespace)
	if err != nil {
		return err
	}
	return r.deleteDeployments(ctx, vn, unused)
}

// unusedProcesses returns the Deployments of shared processes that no VirtualNode of a reader uses.
func (r *Reconciler) unusedProcesses(ctx context.Context, reader client.Reader, namespace string) ([]appsv1.Deployment, error) {
	deployments := &appsv1.DeploymentList{}
	if err := r.Client.List(ctx, deployments, client.InNamespace(namespace), client.HasLabels{offloadingv1beta1.SharedProcessKey}); err != nil {
		return nil, fmt.Errorf("listing the shared processes of namespace %q: %w", namespace, err)
	}
	if len(deployments.Items) == 0 {
		return nil, nil
	}
	virtualNodes := &offloadingv1beta1.VirtualNodeList{}
	if err := reader.List(ctx, virtualNodes, readOnly, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing VirtualNodes: %w", err)
	}
	unused := slices.DeleteFunc(deployments.Items, func(d appsv1.Deployment) bool {
		return slices.ContainsFunc(virtualNodes.Items, func(vn offloadingv1beta1.VirtualNode) bool {
			return vn.Annotations[offloadingv1beta1.SharedProcessKey] == d.Name
		})
	})
	for i := range virtualNodes.Items {
		if len(unused) == 0 {
			break
		}
		if vn := &virtualNodes.Items[i]; vn.DeletionTimestamp.IsZero() {
			needed := SharedProcesses(vn)
			unused = slices.DeleteFunc(unused, func(d appsv1.Deployment) bool { return slices.Contains(needed, d.Name) })
		}
	}
	return unused, nil
}

// leaveShared takes a VirtualNode from its shared process, and reports whether no process serves it
// there: the report of a process lists the VirtualNodes that it serves, and is deleted with its pod.
func (r *Reconciler) leaveShared(ctx context.Context, vn *offloadingv1beta1.VirtualNode) (bool, error) {
	if err := r.assign(ctx, vn, ""); err != nil {
		return false, err
	}
	reports := &policyv1alpha1.PolicyComponentList{}
	if err := r.APIReader.List(ctx, reports, client.InNamespace(vn.Namespace)); err != nil {
		return false, fmt.Errorf("listing PolicyComponents of namespace %q: %w", vn.Namespace, err)
	}
	serves := func(report policyv1alpha1.PolicyComponent) bool {
		return slices.Contains(report.Status.VirtualNodes, vn.Name)
	}
	return !slices.ContainsFunc(reports.Items, serves), nil
}
