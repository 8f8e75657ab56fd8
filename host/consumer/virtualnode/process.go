package virtualnode

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/virtualkubelet"
)

// applyDeployment creates or updates the Deployment of a VirtualNode's virtual kubelet, with its
// account, and returns it.
func (r *Reconciler) applyDeployment(ctx context.Context, vn *offloadingv1beta1.VirtualNode) (*appsv1.Deployment, error) {
	if err := r.ensureServiceAccount(ctx, vn); err != nil {
		return nil, err
	}
	desired, err := virtualkubelet.Deployment(vn)
	if err != nil {
		return nil, err
	}
	current := &appsv1.Deployment{}
	err = r.Client.Get(ctx, client.ObjectKeyFromObject(desired), current)
	if apierrors.IsNotFound(err) {
		if err := r.Client.Create(ctx, desired, client.FieldOwner(FieldManager)); err != nil {
			return nil, fmt.Errorf("creating Deployment %s/%s: %w", desired.Namespace, desired.Name, err)
		}
		r.Events.Eventf(vn, desired, corev1.EventTypeNormal, reasonVkCreated, actionRun, "Created virtual kubelet Deployment %s", desired.Name)
		return desired, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading Deployment %s/%s: %w", desired.Namespace, desired.Name, err)
	}
	updated := current.DeepCopy()
	updated.Labels = merged(current.Labels, desired.Labels)
	updated.Annotations = merged(current.Annotations, desired.Annotations)
	if !matchesDesired(desired.Spec, current.Spec) || desired.Annotations[virtualkubelet.TemplateHashAnnotation] != current.Annotations[virtualkubelet.TemplateHashAnnotation] {
		updated.Spec = desired.Spec
	} else if equality.Semantic.DeepEqual(updated.Labels, current.Labels) && equality.Semantic.DeepEqual(updated.Annotations, current.Annotations) {
		return current, nil
	}
	if err := r.Client.Patch(ctx, updated, client.MergeFrom(current), client.FieldOwner(FieldManager)); err != nil {
		return nil, fmt.Errorf("updating Deployment %s/%s: %w", desired.Namespace, desired.Name, err)
	}
	return updated, nil
}

func merged(base, over map[string]string) map[string]string {
	out := make(map[string]string, len(base)+len(over))
	for _, m := range []map[string]string{base, over} {
		for k, v := range m {
			out[k] = v
		}
	}
	return out
}

func (r *Reconciler) ensureServiceAccount(ctx context.Context, vn *offloadingv1beta1.VirtualNode) error {
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

// stopKubelet deletes the virtual kubelet's Deployment and, when its pods are gone, its rights. It
// reports whether all are deleted.
func (r *Reconciler) stopKubelet(ctx context.Context, vn *offloadingv1beta1.VirtualNode) (bool, error) {
	if err := r.deleteDeployments(ctx, vn); err != nil {
		return false, err
	}
	pods := &corev1.PodList{}
	if err := r.APIReader.List(ctx, pods, client.InNamespace(vn.Namespace), ofKubelet(vn)); err != nil {
		return false, fmt.Errorf("listing the virtual kubelet's pods of VirtualNode %s/%s: %w", vn.Namespace, vn.Name, err)
	}
	if len(pods.Items) > 0 {
		return false, nil
	}
	if err := r.deleteRights(ctx, vn); err != nil {
		return false, err
	}
	return true, nil
}

// ofKubelet selects the Deployment and the pods of a VirtualNode's virtual kubelet.
func ofKubelet(vn *offloadingv1beta1.VirtualNode) client.MatchingLabels {
	return client.MatchingLabels{
		offloadingv1beta1.ComponentLabel:   offloadingv1beta1.ComponentVirtualKubelet,
		offloadingv1beta1.VirtualNodeLabel: vn.Name,
	}
}

func (r *Reconciler) deleteDeployments(ctx context.Context, vn *offloadingv1beta1.VirtualNode) error {
	list := &appsv1.DeploymentList{}
	if err := r.Client.List(ctx, list, client.InNamespace(vn.Namespace), ofKubelet(vn)); err != nil {
		return fmt.Errorf("listing the Deployments of VirtualNode %s/%s: %w", vn.Namespace, vn.Name, err)
	}
	for i := range list.Items {
		deployment := &list.Items[i]
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
