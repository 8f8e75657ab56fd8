package virtualnode

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// rejection describes an eviction that the API server rejected. The next reconcile retries it.
type rejection struct {
	message string
	// byBudget is true if a PodDisruptionBudget forbids the eviction.
	byBudget bool
}

// evict evicts a pod. With force it deletes the pod at once: the provider cannot confirm its
// end any more.
func (r *Reconciler) evict(ctx context.Context, pod *corev1.Pod, force bool) (*rejection, error) {
	if force {
		grace := client.GracePeriodSeconds(0)
		if err := client.IgnoreNotFound(r.Client.Delete(ctx, pod, grace, uidPrecondition(pod))); err != nil {
			return nil, fmt.Errorf("deleting pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
		return nil, nil
	}
	if !pod.DeletionTimestamp.IsZero() {
		return nil, nil
	}
	eviction := &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}},
	}
	err := r.Client.SubResource("eviction").Create(ctx, pod, eviction)
	if err == nil || apierrors.IsNotFound(err) {
		return nil, nil
	}
	if rejected := rejectionOf(pod, err); rejected != nil {
		return rejected, nil
	}
	return nil, fmt.Errorf("evicting pod %s/%s: %w", pod.Namespace, pod.Name, err)
}

// rejectionOf returns the rejection in an error of the API server, or nil for another error. The
// cause of the error names the PodDisruptionBudget.
func rejectionOf(pod *corev1.Pod, err error) *rejection {
	if cause, ok := apierrors.StatusCause(err, policyv1.DisruptionBudgetCause); ok {
		return &rejection{byBudget: true, message: fmt.Sprintf("pod %s/%s is not evicted: %s: the owner of the budget in namespace %q must permit the eviction "+
			"(more replicas on other nodes, or another budget), or the owner of the pod must delete it",
			pod.Namespace, pod.Name, strings.TrimSuffix(cause.Message, "."), pod.Namespace)}
	}
	if apierrors.IsTooManyRequests(err) {
		return &rejection{message: fmt.Sprintf("pod %s/%s is not evicted yet: %s", pod.Namespace, pod.Name, err.Error())}
	}
	return nil
}

// evictAll evicts the pods and reports in the VirtualNode's condition how many are left and
// which evictions were rejected. It records no event for a rejection that is already in the
// previous message of the condition.
func (r *Reconciler) evictAll(ctx context.Context, vn *offloadingv1beta1.VirtualNode, pods []corev1.Pod, force bool, previousMessage string) error {
	var errs []error
	var details []string
	var blocked *corev1.Pod
	var reason string
	for i := range pods {
		rejection, err := r.evict(ctx, &pods[i], force)
		if err != nil {
			errs = append(errs, err)
		}
		if rejection == nil {
			continue
		}
		details = append(details, rejection.message)
		if rejection.byBudget && blocked == nil {
			blocked, reason = &pods[i], rejection.message
		}
	}
	message := ""
	if len(pods) > 0 {
		message = fmt.Sprintf("%d pods left", len(pods))
	}
	if len(details) == 0 { // All of them are evicted.
		for i := range min(len(pods), maxNamed) {
			details = append(details, fmt.Sprintf("pod %s/%s is terminating", pods[i].Namespace, pods[i].Name))
		}
	}
	if more := len(details) - maxNamed; more > 0 {
		details = append(details[:maxNamed], fmt.Sprintf("and %d more are not evicted", more))
	}
	if len(details) > 0 {
		message += ": " + strings.Join(details, "; ")
	}
	err := errors.Join(errs...)
	if err != nil {
		message = err.Error()
	}
	r.setCondition(vn, offloadingv1beta1.NodeConditionType, offloadingv1beta1.DrainingConditionStatusType, message)
	if blocked != nil && !strings.Contains(previousMessage, reason) {
		r.Events.Eventf(vn, blocked, corev1.EventTypeWarning, reasonDrainForbidden, actionDrain, "%s", reason)
	}
	return err
}

// conditionMessage returns the message of a condition, or "".
func conditionMessage(vn *offloadingv1beta1.VirtualNode, kind offloadingv1beta1.VirtualNodeConditionType) string {
	for _, c := range vn.Status.Conditions {
		if c.Type == kind {
			return c.Message
		}
	}
	return ""
}
