package virtualnode

import (
	"context"
	"errors"
	"fmt"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/virtualkubelet"
)

// process is the virtual kubelet's: its Deployment, and what belongs to it.
type process struct {
	Client    client.Client
	APIReader client.Reader
	reporter

	// NetworkAccess is that of the NetworkPolicy; nil means that there is none.
	NetworkAccess *virtualkubelet.NetworkAccess
	// networkPolicies are the generations of Deployments, by UID, whose NetworkPolicy is as it should.
	networkPolicies *sync.Map
}

// Reconcile creates and updates the Deployment and reports whether a virtual kubelet is available. That of a
// deleted VirtualNode is stopped.
//
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;patch;delete
func (p *process) Reconcile(ctx context.Context, vn *offloadingv1beta1.VirtualNode) (ctrl.Result, error) {
	if !vn.DeletionTimestamp.IsZero() {
		return p.stop(ctx, vn)
	}
	deployment, err := p.applyDeployment(ctx, vn)
	if err != nil {
		return ctrl.Result{}, err
	}
	if err := errors.Join(p.ensureDisruptionBudget(ctx, deployment), p.ensureNetworkPolicy(ctx, deployment)); err != nil {
		return ctrl.Result{}, err
	}
	status, message := offloadingv1beta1.RunningConditionStatusType, ""
	if deployment.Status.AvailableReplicas == 0 {
		status, message = offloadingv1beta1.CreatingConditionStatusType, "no replica of the virtual kubelet is available yet"
	}
	p.setCondition(vn, offloadingv1beta1.VirtualKubeletConditionType, status, message)
	return ctrl.Result{}, nil
}

// applyDeployment creates or updates the Deployment of a VirtualNode's virtual kubelet and returns it.
func (p *process) applyDeployment(ctx context.Context, vn *offloadingv1beta1.VirtualNode) (*appsv1.Deployment, error) {
	desired, err := virtualkubelet.Deployment(vn)
	if err != nil {
		return nil, err
	}
	current := &appsv1.Deployment{}
	err = p.Client.Get(ctx, client.ObjectKeyFromObject(desired), current)
	if apierrors.IsNotFound(err) {
		if err := p.Client.Create(ctx, desired, client.FieldOwner(FieldManager)); err != nil {
			return nil, fmt.Errorf("creating Deployment %s/%s: %w", desired.Namespace, desired.Name, err)
		}
		p.Events.Eventf(vn, desired, corev1.EventTypeNormal, reasonVkCreated, actionRun, "Created virtual kubelet Deployment %s", desired.Name)
		return desired, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading Deployment %s/%s: %w", desired.Namespace, desired.Name, err)
	}
	updated := current.DeepCopy()
	updated.Labels = labels.Merge(current.Labels, desired.Labels)
	updated.Annotations = labels.Merge(current.Annotations, desired.Annotations)
	if !matchesDesired(desired.Spec, current.Spec) || desired.Annotations[virtualkubelet.TemplateHashAnnotation] != current.Annotations[virtualkubelet.TemplateHashAnnotation] {
		updated.Spec = desired.Spec
	} else if equality.Semantic.DeepEqual(updated.Labels, current.Labels) && equality.Semantic.DeepEqual(updated.Annotations, current.Annotations) {
		return current, nil
	}
	if err := p.Client.Patch(ctx, updated, client.MergeFrom(current), client.FieldOwner(FieldManager)); err != nil {
		return nil, fmt.Errorf("updating Deployment %s/%s: %w", desired.Namespace, desired.Name, err)
	}
	return updated, nil
}

// stop deletes the Deployment and waits until its pods are gone.
func (p *process) stop(ctx context.Context, vn *offloadingv1beta1.VirtualNode) (ctrl.Result, error) {
	p.setCondition(vn, offloadingv1beta1.VirtualKubeletConditionType, offloadingv1beta1.DeletingConditionStatusType, "")
	if err := p.deleteDeployments(ctx, vn); err != nil {
		return ctrl.Result{}, err
	}
	pods := &corev1.PodList{}
	if err := p.APIReader.List(ctx, pods, client.InNamespace(vn.Namespace), ofKubelet(vn)); err != nil {
		return ctrl.Result{}, fmt.Errorf("listing the virtual kubelet's pods of VirtualNode %s/%s: %w", vn.Namespace, vn.Name, err)
	}
	if len(pods.Items) > 0 {
		return ctrl.Result{RequeueAfter: drainPoll}, nil
	}
	return ctrl.Result{}, nil
}

func (p *process) deleteDeployments(ctx context.Context, vn *offloadingv1beta1.VirtualNode) error {
	list := &appsv1.DeploymentList{}
	if err := p.Client.List(ctx, list, client.InNamespace(vn.Namespace), ofKubelet(vn)); err != nil {
		return fmt.Errorf("listing the Deployments of VirtualNode %s/%s: %w", vn.Namespace, vn.Name, err)
	}
	for i := range list.Items {
		deployment := &list.Items[i]
		err := p.Client.Delete(ctx, deployment, uidPrecondition(deployment), client.PropagationPolicy(metav1.DeletePropagationBackground))
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting Deployment %s/%s: %w", deployment.Namespace, deployment.Name, err)
		}
		p.networkPolicies.Delete(deployment.UID)
		if err != nil {
			continue
		}
		p.Events.Eventf(vn, deployment, corev1.EventTypeNormal, reasonVkDeleted, actionStop, "Deleted virtual kubelet Deployment %s", deployment.Name)
	}
	return nil
}

// ofKubelet selects the Deployment and the pods of a VirtualNode's virtual kubelet.
func ofKubelet(vn *offloadingv1beta1.VirtualNode) client.MatchingLabels {
	return client.MatchingLabels{
		offloadingv1beta1.ComponentLabel:   offloadingv1beta1.ComponentVirtualKubelet,
		offloadingv1beta1.VirtualNodeLabel: vn.Name,
	}
}
