// Package networkpolicy reports the NetworkPolicies of offloaded namespaces that select offloaded pods:
// they are not reflected, and do not apply in the provider.
//
// The controller runs in the manager, and reads only.
package networkpolicy

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/retry"
)

// ReasonNotApplied is the reason of the event on a NetworkPolicy that selects offloaded pods.
const ReasonNotApplied = "NotAppliedRemotely"

const (
	actionReport = "Report"
	// maxNamed bounds the pods that an event names.
	maxNamed = 3
	// lookInterval is how often pods are looked for: they may have been offloaded meanwhile. The manager does
	// not cache pods.
	lookInterval = 5 * time.Minute
	// reportInterval is how often a NetworkPolicy is reported: events expire after an hour.
	reportInterval = 30 * time.Minute
)

// Reconciler reports NetworkPolicies.
//
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=get;list;watch
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=namespaceoffloadings,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=pods,verbs=list
type Reconciler struct {
	Client client.Client
	// APIReader lists offloaded pods, which are not cached.
	APIReader client.Reader
	// Events records on the NetworkPolicy.
	Events events.EventRecorder
}

// SetupWithManager watches NetworkPolicies and NamespaceOffloadings.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	err := ctrl.NewControllerManagedBy(mgr).Named("networkpolicy").
		For(&networkingv1.NetworkPolicy{}).
		Watches(&offloadingv1beta1.NamespaceOffloading{}, handler.EnqueueRequestsFromMapFunc(r.policiesOf)).
		WithOptions(controller.Options{RateLimiter: retry.Limiter[reconcile.Request]()}).
		Complete(reconcile.AsReconciler(mgr.GetClient(), r))
	if err != nil {
		return fmt.Errorf("adding the networkpolicy controller: %w", err)
	}
	return nil
}

// policiesOf returns the NetworkPolicies of a namespace that is offloaded, or no longer.
func (r *Reconciler) policiesOf(ctx context.Context, offloading client.Object) []reconcile.Request {
	list := &networkingv1.NetworkPolicyList{}
	if err := r.Client.List(ctx, list, client.InNamespace(offloading.GetNamespace())); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing NetworkPolicies failed", "namespace", offloading.GetNamespace())
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}

// Reconcile reports a NetworkPolicy that selects offloaded pods, and looks for them again.
func (r *Reconciler) Reconcile(ctx context.Context, policy *networkingv1.NetworkPolicy) (ctrl.Result, error) {
	key := client.ObjectKey{Namespace: policy.Namespace, Name: offloadingv1beta1.NamespaceOffloadingName}
	if err := r.Client.Get(ctx, key, &offloadingv1beta1.NamespaceOffloading{}); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, fmt.Errorf("reading the NamespaceOffloading of namespace %q: %w", policy.Namespace, err)
	}
	selector, err := offloadedPods(policy)
	if err != nil {
		return ctrl.Result{}, reconcile.TerminalError(err)
	}
	pods := &metav1.PartialObjectMetadataList{}
	pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	err = r.APIReader.List(ctx, pods, client.InNamespace(policy.Namespace), client.MatchingLabelsSelector{Selector: selector}, client.Limit(maxNamed+1))
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("listing the offloaded pods that NetworkPolicy %s/%s selects: %w", policy.Namespace, policy.Name, err)
	}
	if len(pods.Items) == 0 {
		return ctrl.Result{RequeueAfter: lookInterval}, nil
	}
	r.Events.Eventf(policy, nil, corev1.EventTypeWarning, ReasonNotApplied, actionReport,
		"The NetworkPolicy does not apply to pods that run in other clusters, such as %s: NetworkPolicies are not reflected. "+
			"The administrator of the other cluster can create one in the remote namespace, where the pods have the same labels.", names(pods.Items))
	return ctrl.Result{RequeueAfter: reportInterval}, nil
}

// offloadedPods returns the selector of the offloaded pods that a NetworkPolicy selects.
func offloadedPods(policy *networkingv1.NetworkPolicy) (labels.Selector, error) {
	selector, err := metav1.LabelSelectorAsSelector(&policy.Spec.PodSelector)
	if err != nil {
		return nil, fmt.Errorf("reading the selector of NetworkPolicy %s/%s: %w", policy.Namespace, policy.Name, err)
	}
	isOffloaded, err := labels.NewRequirement(offloadingv1beta1.LocalPodLabel, selection.Equals, []string{"true"})
	if err != nil {
		return nil, fmt.Errorf("selecting offloaded pods: %w", err)
	}
	return selector.Add(*isOffloaded), nil
}

// names lists pods, of many the first ones.
func names(pods []metav1.PartialObjectMetadata) string {
	var list []string
	for i := range min(len(pods), maxNamed) {
		list = append(list, pods[i].Name)
	}
	if len(pods) > maxNamed {
		list = append(list, "and others")
	}
	return strings.Join(list, ", ")
}
