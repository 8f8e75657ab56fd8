package network

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	ipamv1alpha1 "github.com/longshore-dev/longshore/host/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/longshore-dev/longshore/host/apis/networking/v1beta1"
	kitevents "github.com/longshore-dev/longshore/host/kit/events"
	"github.com/longshore-dev/longshore/host/kit/ipam"
	"github.com/longshore-dev/longshore/host/kit/retry"
)

// CIDRTypeLabel on a Network of a peer is "pod" or "external".
const CIDRTypeLabel = "configuration.liqo.io/cidr-type"

const (
	podCIDR      = "pod"
	externalCIDR = "external"

	reasonIgnored = "Ignored"
	// reasonNameTaken is the reason of the condition while a Network of another owner has the name
	// of one of the Configuration.
	reasonNameTaken = "NetworkNameTaken"
	// reasonRefused is the reason of the condition while the API server refuses a Network.
	reasonRefused = "NetworkRefused"
	// maxMessage bounds a message about CIDRs, which the peer has written.
	maxMessage      = 1024
	actionConfigure = "Configure"
)

// Configurations keeps the Networks of peers, and writes what their CIDRs are remapped to into the
// Configurations.
type Configurations struct {
	// Client reads from the manager's cache.
	Client client.Client
	// Events records on the Configuration.
	Events events.EventRecorder
	// Namespace has the Networks of this cluster.
	Namespace string
}

// SetupWithManager watches Configurations, the Networks that they own, and those of this cluster.
//
// +kubebuilder:rbac:groups=networking.liqo.io,resources=configurations,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=networking.liqo.io,resources=configurations/status,verbs=patch
// +kubebuilder:rbac:groups=networking.liqo.io,resources=configurations/finalizers,verbs=update
// +kubebuilder:rbac:groups=ipam.liqo.io,resources=networks,verbs=get;list;watch;create;delete
func (r *Configurations) SetupWithManager(mgr ctrl.Manager) error {
	isOwn := predicate.NewPredicateFuncs(func(object client.Object) bool {
		return object.GetNamespace() == r.Namespace && object.GetLabels()[ipamv1alpha1.NetworkTypeLabel] != ""
	})
	return ctrl.NewControllerManagedBy(mgr).Named("configuration").
		For(&networkingv1beta1.Configuration{}).
		Owns(&ipamv1alpha1.Network{}).
		Watches(&ipamv1alpha1.Network{}, handler.EnqueueRequestsFromMapFunc(r.all), builder.WithPredicates(isOwn)).
		WithOptions(controller.Options{RateLimiter: retry.Limiter[reconcile.Request]()}).
		Complete(r)
}

func (r *Configurations) all(ctx context.Context, _ client.Object) []reconcile.Request {
	list := &networkingv1beta1.ConfigurationList{}
	if err := r.Client.List(ctx, list); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing Configurations failed")
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}

// Reconcile fills in the networks of this cluster, keeps the Networks of the peer, and writes the
// status. The garbage collector deletes the Networks of a deleted Configuration.
func (r *Configurations) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	configuration := &networkingv1beta1.Configuration{}
	err := r.Client.Get(ctx, request.NamespacedName, configuration)
	switch {
	case apierrors.IsNotFound(err):
		return ctrl.Result{}, nil
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("reading Configuration %s: %w", request, err)
	case !configuration.DeletionTimestamp.IsZero():
		return ctrl.Result{}, nil
	case configuration.Labels[liqocorev1beta1.RemoteClusterIDLabel] == "":
		r.Events.Eventf(configuration, nil, corev1.EventTypeWarning, reasonIgnored, actionConfigure,
			"The Configuration has no label %s and is ignored. Add the label or delete the Configuration.", liqocorev1beta1.RemoteClusterIDLabel)
		return ctrl.Result{}, nil
	}
	if configuration.Spec.Local == nil {
		isSet, err := r.setLocal(ctx, configuration)
		if err != nil || isSet {
			return ctrl.Result{}, err // The change enqueues the Configuration.
		}
		return ctrl.Result{}, r.report(ctx, configuration, nil, problem{
			networkingv1beta1.ReasonWaitingForNetworks,
			fmt.Sprintf("The Networks of this cluster in namespace %s have no CIDRs yet. Their events say why.", r.Namespace),
		})
	}
	networks, failure, err := r.ensureNetworks(ctx, configuration)
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.report(ctx, configuration, networks, failure)
}

// setLocal writes the networks of this cluster, when they have their CIDRs, into a Configuration
// whose author left them out.
func (r *Configurations) setLocal(ctx context.Context, configuration *networkingv1beta1.Configuration) (bool, error) {
	pods, err := ownNetworks(ctx, r.Client, r.Namespace, ipamv1alpha1.PodCIDRNetwork)
	if err != nil {
		return false, err
	}
	external, err := ownNetworks(ctx, r.Client, r.Namespace, ipamv1alpha1.ExternalCIDRNetwork)
	if err != nil || len(pods) == 0 || len(external) == 0 {
		return false, err
	}
	before := configuration.DeepCopy()
	configuration.Spec.Local = &networkingv1beta1.ClusterNetwork{CIDR: networkingv1beta1.ClusterCIDRs{Pod: cidrsOf(pods), External: cidrsOf(external)}}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, configuration, patch); client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("writing the local networks into Configuration %s/%s: %w", configuration.Namespace, configuration.Name, err)
	}
	return true, nil
}

func cidrsOf(networks []ipamv1alpha1.Network) []networkingv1beta1.CIDR {
	var cidrs []networkingv1beta1.CIDR
	for i := range networks {
		cidrs = append(cidrs, networks[i].Status.CIDR)
	}
	return cidrs
}

// problem is the reason and the message of the condition while a Configuration is not complete.
type problem struct{ reason, message string }

// ensureNetworks deletes stale Networks of a Configuration and creates missing ones. It returns the
// current ones by name, and what must change before one can be created.
func (r *Configurations) ensureNetworks(ctx context.Context, configuration *networkingv1beta1.Configuration) (current map[string]*ipamv1alpha1.Network, failure problem, err error) {
	list := &ipamv1alpha1.NetworkList{}
	if err := r.Client.List(ctx, list, client.InNamespace(configuration.Namespace)); err != nil {
		return nil, failure, fmt.Errorf("listing the Networks of namespace %s: %w", configuration.Namespace, err)
	}
	desired, current := networksOf(configuration), map[string]*ipamv1alpha1.Network{}
	others := map[string]bool{}
	for i := range list.Items {
		network := &list.Items[i]
		switch {
		case !metav1.IsControlledBy(network, configuration):
			others[network.Name] = true
		case desired[network.Name] != nil:
			current[network.Name] = network
		case network.DeletionTimestamp.IsZero():
			if err := r.Client.Delete(ctx, network, client.Preconditions{UID: &network.UID}); client.IgnoreNotFound(err) != nil {
				return nil, failure, fmt.Errorf("deleting Network %s/%s: %w", network.Namespace, network.Name, err)
			}
		}
	}
	for name, network := range desired {
		if current[name] != nil {
			continue
		}
		if others[name] {
			failure = problem{reasonNameTaken, fmt.Sprintf("Network %q exists and is not controlled by the Configuration. Delete the Network.", name)}
			continue
		}
		switch err := r.Client.Create(ctx, network); {
		case apierrors.IsInvalid(err):
			failure = problem{reasonRefused, fmt.Sprintf("The API server refuses Network %q. Correct the Configuration: %v", name, err)}
		case client.IgnoreAlreadyExists(err) != nil:
			return nil, failure, fmt.Errorf("creating Network %s/%s: %w", network.Namespace, network.Name, err)
		}
	}
	return current, failure, nil
}

// networksOf returns the desired Networks of a Configuration, by name. IPv6 networks have none: they are not
// remapped.
func networksOf(configuration *networkingv1beta1.Configuration) map[string]*ipamv1alpha1.Network {
	networks := map[string]*ipamv1alpha1.Network{}
	add := func(cidrs []networkingv1beta1.CIDR, kind string) {
		for _, cidr := range cidrs {
			if ipam.IsIPv6(string(cidr)) {
				continue
			}
			name := networkName(configuration, kind, cidr)
			networks[name] = &ipamv1alpha1.Network{
				ObjectMeta: metav1.ObjectMeta{
					Name: name, Namespace: configuration.Namespace,
					Labels: map[string]string{
						liqocorev1beta1.RemoteClusterIDLabel: configuration.Labels[liqocorev1beta1.RemoteClusterIDLabel], CIDRTypeLabel: kind,
					},
					OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(configuration, networkingv1beta1.GroupVersion.WithKind("Configuration"))},
				},
				Spec: ipamv1alpha1.NetworkSpec{CIDR: cidr},
			}
		}
	}
	add(configuration.Spec.Remote.CIDR.Pod, podCIDR)
	add(configuration.Spec.Remote.CIDR.External, externalCIDR)
	return networks
}

func networkName(configuration *networkingv1beta1.Configuration, kind string, cidr networkingv1beta1.CIDR) string {
	return configuration.Name + "-" + kind + "-" + strings.NewReplacer(".", "-", "/", "-").Replace(string(cidr))
}

// report writes the status of a Configuration. A failure without reason is that Networks wait for CIDRs.
func (r *Configurations) report(ctx context.Context, configuration *networkingv1beta1.Configuration, networks map[string]*ipamv1alpha1.Network, failure problem) error {
	before := configuration.DeepCopy()
	status := &configuration.Status
	condition := metav1.Condition{
		Type: networkingv1beta1.NetworkCIDRsConfigured, Status: metav1.ConditionFalse, ObservedGeneration: configuration.Generation,
		Reason: failure.reason, Message: kitevents.Cut(failure.message, maxMessage),
	}
	remote, waiting := remoteOf(configuration, networks)
	switch {
	case failure.reason != "":
	case len(waiting) > 0:
		condition.Reason = networkingv1beta1.ReasonWaitingForNetworks
		condition.Message = kitevents.Cut(fmt.Sprintf("Networks of namespace %s have no CIDRs yet: %s. Their events say why.",
			configuration.Namespace, strings.Join(waiting, ", ")), maxMessage)
	default:
		status.Remote = remote
		condition.Status, condition.Reason, condition.Message = metav1.ConditionTrue, networkingv1beta1.NetworkCIDRsConfigured, "All CIDRs are allocated."
	}
	meta.SetStatusCondition(&status.Conditions, condition)
	if equality.Semantic.DeepEqual(before.Status, *status) {
		return nil
	}
	return patchStatus(ctx, r.Client, configuration, before)
}

// remoteOf returns the CIDRs of the peer as this cluster knows them, and the names of the Networks that have none.
func remoteOf(configuration *networkingv1beta1.Configuration, networks map[string]*ipamv1alpha1.Network) (remote *networkingv1beta1.ClusterNetwork, waiting []string) {
	remap := func(cidrs []networkingv1beta1.CIDR, kind string) []networkingv1beta1.CIDR {
		var remapped []networkingv1beta1.CIDR
		for _, cidr := range cidrs {
			if ipam.IsIPv6(string(cidr)) {
				remapped = append(remapped, cidr)
				continue
			}
			name := networkName(configuration, kind, cidr)
			if network := networks[name]; network != nil && network.Status.CIDR != "" {
				remapped = append(remapped, network.Status.CIDR)
			} else {
				waiting = append(waiting, name)
			}
		}
		return remapped
	}
	desired := &configuration.Spec.Remote.CIDR
	remote = &networkingv1beta1.ClusterNetwork{CIDR: networkingv1beta1.ClusterCIDRs{Pod: remap(desired.Pod, podCIDR), External: remap(desired.External, externalCIDR)}}
	return remote, waiting
}

func sortByName(networks []ipamv1alpha1.Network) {
	slices.SortFunc(networks, func(a, b ipamv1alpha1.Network) int { return strings.Compare(a.Name, b.Name) })
}
