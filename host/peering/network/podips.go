package network

import (
	"context"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	ipamv1alpha1 "github.com/longshore-dev/longshore/host/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/longshore-dev/longshore/host/apis/networking/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/podend"
	"github.com/longshore-dev/longshore/host/kit/retry"
)

// Labels of the IP of an offloaded pod.
const (
	podNameLabel      = "offloading.liqo.io/pod-name"
	podNamespaceLabel = "offloading.liqo.io/pod-namespace"
)

// PodIPs keeps an IP for each offloaded pod, so that the pods of one provider are reached from another
// one. The address of such a pod is in no pod CIDR of this cluster, and the peers have no route to the
// network that this cluster gave to the provider.
type PodIPs struct {
	// Client reads IPs from the manager's cache, and writes them.
	Client client.Client
	// Pods reads the offloaded pods.
	Pods client.Reader
}

// SetupWithManager watches the offloaded pods, with a cache of their own: that of the manager has the
// pods of consumers. It also watches the IPs that pods control.
//
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch
// +kubebuilder:rbac:groups=ipam.liqo.io,resources=ips,verbs=get;list;watch;create;delete
func (r *PodIPs) SetupWithManager(mgr ctrl.Manager) error {
	pods, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		ByObject: map[client.Object]cache.ByObject{&corev1.Pod{}: {
			Label: labels.SelectorFromSet(labels.Set{offloadingv1beta1.LocalPodLabel: labelTrue}), Transform: trimPod,
		}},
	})
	if err != nil {
		return fmt.Errorf("creating the cache of offloaded pods: %w", err)
	}
	if err := mgr.Add(pods); err != nil {
		return fmt.Errorf("adding the cache of offloaded pods: %w", err)
	}
	r.Pods = pods
	owners := handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(), &corev1.Pod{}, handler.OnlyControllerOwner())
	return ctrl.NewControllerManagedBy(mgr).Named("ip-pod").
		WatchesRawSource(source.Kind(pods, &corev1.Pod{}, &handler.TypedEnqueueRequestForObject[*corev1.Pod]{})).
		Watches(&ipamv1alpha1.IP{}, owners).
		WithOptions(controller.Options{RateLimiter: retry.Limiter[reconcile.Request]()}).
		Complete(r)
}

// trimPod removes all of a pod but what its IP depends on.
func trimPod(object any) (any, error) {
	if pod, ok := object.(*corev1.Pod); ok {
		pod.ObjectMeta = metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID, ResourceVersion: pod.ResourceVersion, Labels: pod.Labels}
		pod.Spec, pod.Status = corev1.PodSpec{}, corev1.PodStatus{Phase: pod.Status.Phase, PodIP: pod.Status.PodIP}
	}
	return object, nil
}

// Reconcile creates the IP of a pod that has an address, replaces it when the pod has another one, and
// deletes that of a pod that has finished. The garbage collector deletes that of a deleted pod.
func (r *PodIPs) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	pod := &corev1.Pod{}
	err := r.Pods.Get(ctx, request.NamespacedName, pod)
	switch {
	case apierrors.IsNotFound(err):
		return ctrl.Result{}, nil
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("reading pod %s: %w", request, err)
	}
	desired := forgePodIP(pod)
	current := &ipamv1alpha1.IP{}
	err = r.Client.Get(ctx, request.NamespacedName, current)
	switch {
	case apierrors.IsNotFound(err) && desired == nil:
		return ctrl.Result{}, nil
	case apierrors.IsNotFound(err):
		err = client.IgnoreAlreadyExists(r.Client.Create(ctx, desired))
		if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return ctrl.Result{}, nil
		}
	case err != nil || !metav1.IsControlledBy(current, pod) || !current.DeletionTimestamp.IsZero():
		// An IP of a user stays. That of an earlier pod of the name is about to be deleted.
	case desired == nil || current.Spec.IP != desired.Spec.IP: // immutable; the deletion causes a creation
		err = client.IgnoreNotFound(r.Client.Delete(ctx, current, client.Preconditions{UID: &current.UID}))
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("keeping IP %s of an offloaded pod: %w", request, err)
	}
	return ctrl.Result{}, nil
}

// forgePodIP returns the IP of a pod, or nil if it needs none.
func forgePodIP(pod *corev1.Pod) *ipamv1alpha1.IP {
	address, err := netip.ParseAddr(pod.Status.PodIP)
	if err != nil || !address.Is4() || podend.IsTerminal(pod.Status.Phase) {
		return nil
	}
	podLabels := map[string]string{}
	for key, value := range map[string]string{podNameLabel: pod.Name, podNamespaceLabel: pod.Namespace} {
		if len(validation.IsValidLabelValue(value)) == 0 { // names may be longer
			podLabels[key] = value
		}
	}
	return &ipamv1alpha1.IP{
		ObjectMeta: metav1.ObjectMeta{
			Name: pod.Name, Namespace: pod.Namespace, Labels: podLabels,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: ptr.To(true)}},
		},
		Spec: ipamv1alpha1.IPSpec{IP: networkingv1beta1.IP(pod.Status.PodIP)},
	}
}
