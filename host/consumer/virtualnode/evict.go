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

// refusal is why the API server does not evict a pod now; it is asked again at the next
// pass.
type refusal struct {
	message string
	// budget is set when a PodDisruptionBudget forbids it, which only a person may change.
	budget bool
}

// evict asks for a pod's eviction, or deletes it when nobody will ever confirm its end.
func (r *Reconciler) evict(ctx context.Context, pod *corev1.Pod, force bool) (*refusal, error) {
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
	if refused := refusalOf(pod, err); refused != nil {
		return refused, nil
	}
	return nil, fmt.Errorf("evicting pod %s/%s: %w", pod.Namespace, pod.Name, err)
}

// refusalOf tells an answer that may be another one later from a failure. What the API
// server says of a budget names it, and stands in the answer's causes.
func refusalOf(pod *corev1.Pod, err error) *refusal {
	if cause, ok := apierrors.StatusCause(err, policyv1.DisruptionBudgetCause); ok {
		return &refusal{budget: true, message: fmt.Sprintf("pod %s/%s is not evicted: %s: who owns that budget in namespace %q must let the pod go "+
			"(more replicas elsewhere, or another budget), or its owner must delete it",
			pod.Namespace, pod.Name, strings.TrimSuffix(cause.Message, "."), pod.Namespace)}
	}
	if apierrors.IsTooManyRequests(err) {
		return &refusal{message: fmt.Sprintf("pod %s/%s is not evicted yet: %s", pod.Namespace, pod.Name, err.Error())}
	}
	return nil
}

// evictAll asks for the eviction of every pod, and says in the VirtualNode's condition how
// many are left and what is in the way. What the condition told before is not an event
// again.
func (r *Reconciler) evictAll(ctx context.Context, vn *offloadingv1beta1.VirtualNode, pods []corev1.Pod, force bool, told string) error {
	var errs []error
	var refused []string
	var held *corev1.Pod
	var why string
	for i := range pods {
		no, err := r.evict(ctx, &pods[i], force)
		if err != nil {
			errs = append(errs, err)
		}
		if no == nil {
			continue
		}
		refused = append(refused, no.message)
		if no.budget && held == nil {
			held, why = &pods[i], no.message
		}
	}
	message := ""
	if len(pods) > 0 {
		message = fmt.Sprintf("%d pods left", len(pods))
	}
	if more := len(refused) - maxNamed; more > 0 {
		refused = append(refused[:maxNamed], fmt.Sprintf("and %d more are not evicted", more))
	}
	if len(refused) > 0 {
		message += ": " + strings.Join(refused, "; ")
	}
	err := errors.Join(errs...)
	if err != nil {
		message = err.Error()
	}
	r.set(vn, offloadingv1beta1.NodeConditionType, offloadingv1beta1.DrainingConditionStatusType, message)
	if held != nil && !strings.Contains(told, why) {
		r.Events.Eventf(vn, held, corev1.EventTypeWarning, reasonDrainForbidden, actionDrain, "%s", why)
	}
	return err
}

// said is the message of a condition.
func said(vn *offloadingv1beta1.VirtualNode, kind offloadingv1beta1.VirtualNodeConditionType) string {
	for _, c := range vn.Status.Conditions {
		if c.Type == kind {
			return c.Message
		}
	}
	return ""
}
