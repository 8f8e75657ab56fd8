package network

import (
	"context"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	ipamv1alpha1 "github.com/longshore-dev/longshore/host/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/longshore-dev/longshore/host/apis/networking/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/ipam"
	"github.com/longshore-dev/longshore/host/kit/reported"
	"github.com/longshore-dev/longshore/host/kit/retry"
)

// ReasonNotAllocated is the reason of the event on a Network or an IP that gets no CIDR or no
// address.
const ReasonNotAllocated = "NotAllocated"

const (
	actionAllocate = "Allocate"
	labelTrue      = "true"
)

// Networks allocates the CIDRs of Networks.
type Networks struct {
	// Client reads from the manager's cache.
	Client client.Client
	// APIReader lists Networks once, before the first allocation.
	APIReader client.Reader
	// Events records on the Network.
	Events events.EventRecorder
	// Pools are the networks that CIDRs are allocated from.
	Pools []netip.Prefix

	// held are the CIDRs of Networks by their names: those of the API server, and the writes that
	// the cache does not have yet. Only the one worker uses it.
	held map[client.ObjectKey]heldNetwork
}

type heldNetwork struct {
	uid     types.UID
	network ipam.Network
}

// SetupWithManager watches Networks. There is one worker: each allocation sees the previous ones.
//
// +kubebuilder:rbac:groups=ipam.liqo.io,resources=networks,verbs=get;list;watch
// +kubebuilder:rbac:groups=ipam.liqo.io,resources=networks/status,verbs=patch
func (r *Networks) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("network").
		For(&ipamv1alpha1.Network{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1, RateLimiter: retry.Limiter[reconcile.Request]()}).
		Complete(reported.Reconciler(r))
}

// Reconcile allocates the CIDR of a Network that has none. The CIDR of a Network that is gone is
// free again.
func (r *Networks) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	if err := r.load(ctx); err != nil {
		return ctrl.Result{}, err
	}
	network := &ipamv1alpha1.Network{}
	state, err := readAllocation(ctx, r.Client, request.NamespacedName, network, func() bool { return network.Status.CIDR != "" })
	switch state {
	case isAbsent:
		delete(r.held, request.NamespacedName)
	case isAllocated:
		r.hold(network)
	case isPending:
		return ctrl.Result{}, r.allocate(ctx, network)
	case isIgnored:
	}
	return ctrl.Result{}, err
}

// load lists the Networks before the first allocation. A cache may lack the last writes of a
// previous leader.
func (r *Networks) load(ctx context.Context) error {
	if r.held != nil {
		return nil
	}
	list := &ipamv1alpha1.NetworkList{}
	if err := r.APIReader.List(ctx, list); err != nil {
		return fmt.Errorf("listing Networks: %w", err)
	}
	r.held = map[client.ObjectKey]heldNetwork{}
	for i := range list.Items {
		r.hold(&list.Items[i])
	}
	return nil
}

// hold records the CIDR of a Network. Fixed networks have theirs before it is in the status, so
// that no other network gets it.
func (r *Networks) hold(network *ipamv1alpha1.Network) {
	cidr := network.Status.CIDR
	if cidr == "" && isFixed(network) {
		cidr = network.Spec.CIDR
	}
	// An invalid CIDR takes no addresses.
	if prefix, err := ipam.ParseCIDR(string(cidr)); err == nil {
		r.held[client.ObjectKeyFromObject(network)] = heldNetwork{network.UID, requestOf(network, prefix)}
	}
}

func (r *Networks) allocate(ctx context.Context, network *ipamv1alpha1.Network) error {
	key := client.ObjectKeyFromObject(network)
	have, isHeld := r.held[key]
	if isHeld = isHeld && have.uid == network.UID && !isFixed(network); !isHeld {
		delete(r.held, key)
		prefix, err := r.choose(network)
		if err != nil {
			r.Events.Eventf(network, nil, corev1.EventTypeWarning, ReasonNotAllocated, actionAllocate, "The network gets no CIDR: %s.", err)
			return fmt.Errorf("allocating the CIDR of Network %s: %w", key, reported.Error(err))
		}
		have = heldNetwork{network.UID, requestOf(network, prefix)}
		// It is held even if the write fails: it may have reached the API server.
		r.held[key] = have
	}
	before := network.DeepCopy()
	network.Status.CIDR = networkingv1beta1.CIDR(have.network.CIDR.String())
	return patchStatus(ctx, r.Client, network, before)
}

func (r *Networks) choose(network *ipamv1alpha1.Network) (netip.Prefix, error) {
	want, err := ipam.ParseCIDR(string(network.Spec.CIDR))
	if err != nil {
		return netip.Prefix{}, err
	}
	taken := make([]ipam.Network, 0, len(r.held))
	for _, have := range r.held {
		taken = append(taken, have.network)
	}
	return ipam.Allocate(r.Pools, taken, requestOf(network, want))
}

func requestOf(network *ipamv1alpha1.Network, prefix netip.Prefix) ipam.Network {
	return ipam.Network{CIDR: prefix, Fixed: isFixed(network), Shared: network.Labels[ipamv1alpha1.NetworkSharedLabel] == labelTrue}
}

func isFixed(network *ipamv1alpha1.Network) bool {
	return network.Labels[ipamv1alpha1.NetworkNotRemappedLabel] == labelTrue
}
