// Package certificate approves the serving certificates that virtual kubelets request, so that
// the consumer's API server can verify them like real kubelets. A virtual kubelet gets the
// certificate of its own node with the addresses of its own pod. All other requests are left
// to administrators.
package certificate

import (
	"context"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/retry"
)

// approvalReason is the reason of the condition on an approved request.
const approvalReason = "VirtualKubelet"

// Reconciler approves requests.
//
// +kubebuilder:rbac:groups=certificates.k8s.io,resources=certificatesigningrequests,verbs=get;list;watch
// +kubebuilder:rbac:groups=certificates.k8s.io,resources=certificatesigningrequests/approval,verbs=update
// +kubebuilder:rbac:groups=certificates.k8s.io,resources=signers,resourceNames=kubernetes.io/kubelet-serving;beta.eks.amazonaws.com/app-serving,verbs=approve
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=virtualnodes,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=pods,verbs=list
type Reconciler struct {
	Client client.Client
	// APIReader reads the pods of virtual kubelets, which are not cached.
	APIReader client.Reader
	Clock     clock.PassiveClock
}

// SetupWithManager adds the controller.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	pending := predicate.NewPredicateFuncs(func(object client.Object) bool {
		csr, ok := object.(*certificatesv1.CertificateSigningRequest)
		return ok && IsPending(csr)
	})
	err := ctrl.NewControllerManagedBy(mgr).Named("certificate").
		For(&certificatesv1.CertificateSigningRequest{}, builder.WithPredicates(pending)).
		WithOptions(controller.Options{RateLimiter: retry.Limiter[reconcile.Request]()}).
		Complete(reconcile.AsReconciler(mgr.GetClient(), r))
	if err != nil {
		return fmt.Errorf("adding the certificate controller: %w", err)
	}
	return nil
}

// Reconcile approves a request of a virtual kubelet for its own node.
func (r *Reconciler) Reconcile(ctx context.Context, csr *certificatesv1.CertificateSigningRequest) (ctrl.Result, error) {
	key, ok := Requester(csr)
	if !ok || !IsPending(csr) {
		return ctrl.Result{}, nil
	}
	vn := &offloadingv1beta1.VirtualNode{}
	err := r.Client.Get(ctx, key, vn)
	switch {
	case apierrors.IsNotFound(err):
		// A request of another service account.
		return ctrl.Result{}, nil
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("reading the VirtualNode of a certificate request: %w", err)
	}
	log := ctrl.LoggerFrom(ctx).WithValues("VirtualNode", key)
	addresses, err := Check(csr, vn.Name)
	if err != nil {
		log.Info("Not approving a certificate request", "request", csr.Name, "reason", err.Error())
		return ctrl.Result{}, nil
	}
	pods := &corev1.PodList{}
	err = r.APIReader.List(ctx, pods, client.InNamespace(vn.Namespace), client.MatchingLabels{
		offloadingv1beta1.ComponentLabel: offloadingv1beta1.ComponentVirtualKubelet, offloadingv1beta1.VirtualNodeLabel: vn.Name,
	})
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("listing the pods of the virtual kubelet of VirtualNode %s: %w", key, err)
	}
	switch has, isUnknown := hasAddresses(requesterPods(csr, vn.Name, pods.Items), addresses); {
	case !has && isUnknown:
		// The kubelet reports the pod's address within seconds; older requests are checked less
		// often.
		return ctrl.Result{RequeueAfter: max(time.Second, r.Clock.Since(csr.CreationTimestamp.Time))}, nil
	case !has:
		log.Info("Not approving a certificate request", "request", csr.Name,
			"reason", fmt.Sprintf("no pod of the virtual kubelet has the addresses %v", addresses))
		return ctrl.Result{}, nil
	}
	approved := csr.DeepCopy()
	now := metav1.NewTime(r.Clock.Now())
	approved.Status.Conditions = append(approved.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: approvalReason,
		Message: "The virtual kubelet of VirtualNode " + key.String() + " requests the certificate of its node", LastUpdateTime: now,
	})
	log.Info("Approving the serving certificate of a virtual kubelet", "request", csr.Name)
	if err := r.Client.SubResource("approval").Update(ctx, approved); err != nil {
		return ctrl.Result{}, fmt.Errorf("approving certificate request %s: %w", csr.Name, err)
	}
	return ctrl.Result{}, nil
}
