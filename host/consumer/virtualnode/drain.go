package virtualnode

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// drainPoll is the requeue interval of a draining node.
const drainPoll = time.Second

// drainAnnotation marks a Node that was cordoned by a drain, and not by an administrator.
const (
	drainAnnotation = "longshore.dev/cordoned-by"
	drainValue      = "drain"
)

// drain ends the pods of a Node that is to be deleted.
type drain struct {
	Client    client.Client
	APIReader client.Reader
	reporter

	// node may be nil: then there is nothing to drain.
	node *corev1.Node
}

// Reconcile cordons the Node, evicts its pods, and waits until none is left. The pods of a provider that an
// administrator declared permanently unreachable are deleted at once; a ForeignCluster that was deleted
// declares nothing.
//
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;delete
// +kubebuilder:rbac:groups="",resources=pods/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=pods/eviction,verbs=create
func (d *drain) Reconcile(ctx context.Context, vn *offloadingv1beta1.VirtualNode) (ctrl.Result, error) {
	node := d.node
	if node == nil {
		return ctrl.Result{}, nil
	}
	previousMessage := conditionMessage(vn, offloadingv1beta1.NodeConditionType)
	d.setCondition(vn, offloadingv1beta1.NodeConditionType, offloadingv1beta1.DrainingConditionStatusType, "")
	if !node.Spec.Unschedulable {
		before := node.DeepCopy()
		node.Spec.Unschedulable = true
		metav1.SetMetaDataAnnotation(&node.ObjectMeta, drainAnnotation, drainValue)
		if err := d.Client.Patch(ctx, node, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
			return ctrl.Result{}, fmt.Errorf("cordoning Node %q: %w", node.Name, err)
		}
	}
	fc, err := foreignCluster(ctx, d.Client, vn)
	if err != nil {
		return ctrl.Result{}, err
	}
	// Select by node and not by the label of offloaded pods: a pod has the label only with its
	// first status, after its ShadowPod was created.
	pods := &corev1.PodList{}
	if err := d.APIReader.List(ctx, pods, client.MatchingFields{"spec.nodeName": node.Name}); err != nil {
		return ctrl.Result{}, fmt.Errorf("listing the pods of Node %q: %w", node.Name, err)
	}
	left := slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool { return !isDrainable(&pod) })
	if err := d.evictAll(ctx, vn, left, fc != nil && fc.PermanentlyUnreachable(), previousMessage); err != nil {
		return ctrl.Result{}, err
	}
	if len(left) > 0 {
		return ctrl.Result{RequeueAfter: drainPoll}, nil
	}
	return ctrl.Result{}, nil
}

func isDrainable(pod *corev1.Pod) bool {
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return false
	}
	owner := metav1.GetControllerOf(pod)
	return owner == nil || owner.Kind != "DaemonSet"
}

// rejection describes an eviction that the API server rejected. The next reconcile retries it.
type rejection struct {
	message string
	// byBudget is true if a PodDisruptionBudget forbids the eviction.
	byBudget bool
}

// evict evicts a pod. With force it deletes the pod at once: the provider cannot confirm its
// end any more.
func (d *drain) evict(ctx context.Context, pod *corev1.Pod, force bool) (*rejection, error) {
	if force {
		return nil, EndPod(ctx, d.Client, pod, d.Clock.Now())
	}
	if !pod.DeletionTimestamp.IsZero() {
		return nil, nil
	}
	eviction := &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}},
	}
	err := d.Client.SubResource("eviction").Create(ctx, pod, eviction)
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
func (d *drain) evictAll(ctx context.Context, vn *offloadingv1beta1.VirtualNode, pods []corev1.Pod, force bool, previousMessage string) error {
	var errs []error
	var details []string
	var blocked *corev1.Pod
	var reason string
	for i := range pods {
		rejection, err := d.evict(ctx, &pods[i], force)
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
	d.setCondition(vn, offloadingv1beta1.NodeConditionType, offloadingv1beta1.DrainingConditionStatusType, message)
	if blocked != nil && !strings.Contains(previousMessage, reason) {
		d.Events.Eventf(vn, blocked, corev1.EventTypeWarning, reasonDrainForbidden, actionDrain, "%s", reason)
	}
	return err
}
