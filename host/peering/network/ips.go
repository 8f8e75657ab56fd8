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
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	ipamv1alpha1 "github.com/longshore-dev/longshore/host/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/longshore-dev/longshore/host/apis/networking/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/ipam"
	"github.com/longshore-dev/longshore/host/kit/reported"
	"github.com/longshore-dev/longshore/host/kit/retry"
)

// IPs allocates the addresses of IPs.
type IPs struct {
	// Client reads from the manager's cache.
	Client client.Client
	// APIReader lists IPs once, before the first allocation.
	APIReader client.Reader
	// Events records on the IP.
	Events events.EventRecorder
	// Namespace has the Network of the external CIDR.
	Namespace string

	// held are the addresses of IPs by their names: those of the API server, and the writes that
	// the cache does not have yet. last are the addresses that networks gave out last. Only the one
	// worker uses them.
	held map[client.ObjectKey]heldIP
	last map[netip.Prefix]netip.Addr
}

type heldIP struct {
	uid  types.UID
	ip   netip.Addr
	cidr netip.Prefix
}

// SetupWithManager watches IPs and the Networks that they depend on. There is one worker: each
// allocation sees the previous ones.
//
// +kubebuilder:rbac:groups=ipam.liqo.io,resources=ips;networks,verbs=get;list;watch
// +kubebuilder:rbac:groups=ipam.liqo.io,resources=ips/status,verbs=patch
func (r *IPs) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("ip").
		For(&ipamv1alpha1.IP{}).
		Watches(&ipamv1alpha1.Network{}, handler.EnqueueRequestsFromMapFunc(r.pendingIPs)).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1, RateLimiter: retry.Limiter[reconcile.Request]()}).
		Complete(reported.Reconciler(r))
}

// pendingIPs returns the IPs that have no address. Networks change rarely. The list comes from the
// manager's cache, which returns an error only while the manager stops. The next manager reconciles
// every IP when it starts, so the error needs no retry.
func (r *IPs) pendingIPs(ctx context.Context, _ client.Object) []reconcile.Request {
	list := &ipamv1alpha1.IPList{}
	if err := r.Client.List(ctx, list); err != nil {
		ctrl.LoggerFrom(ctx).Info("Skipped pending IPs", "reason", err.Error())
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if list.Items[i].Status.IP == "" {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return requests
}

// Reconcile allocates the address of an IP that has none. The address of an IP that is gone is
// free again.
func (r *IPs) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	if err := r.load(ctx); err != nil {
		return ctrl.Result{}, err
	}
	ip := &ipamv1alpha1.IP{}
	state, err := readAllocation(ctx, r.Client, request.NamespacedName, ip, func() bool { return ip.Status.IP != "" })
	switch state {
	case isAbsent:
		delete(r.held, request.NamespacedName)
	case isAllocated:
		r.hold(ip)
	case isPending:
		network, err := r.networkOf(ctx, ip)
		if err != nil || network == nil {
			return ctrl.Result{}, err // The event of the Network enqueues the IP.
		}
		return ctrl.Result{}, r.allocate(ctx, ip, network)
	case isIgnored:
	}
	return ctrl.Result{}, err
}

// load lists the IPs before the first allocation.
func (r *IPs) load(ctx context.Context) error {
	if r.held != nil {
		return nil
	}
	list := &ipamv1alpha1.IPList{}
	if err := r.APIReader.List(ctx, list); err != nil {
		return fmt.Errorf("listing IPs: %w", err)
	}
	r.held, r.last = map[client.ObjectKey]heldIP{}, map[netip.Prefix]netip.Addr{}
	for i := range list.Items {
		r.hold(&list.Items[i])
	}
	for _, have := range r.held {
		if r.last[have.cidr].Less(have.ip) {
			r.last[have.cidr] = have.ip
		}
	}
	return nil
}

// hold records the address of an IP.
func (r *IPs) hold(ip *ipamv1alpha1.IP) {
	cidr, err := ipam.ParseCIDR(string(ip.Status.CIDR))
	if err != nil {
		cidr = netip.Prefix{}
	}
	// An invalid address is not one that is given out.
	if address, err := netip.ParseAddr(string(ip.Status.IP)); err == nil {
		r.held[client.ObjectKeyFromObject(ip)] = heldIP{ip.UID, address, cidr}
	}
}

// networkOf returns the Network of the address, or nil while it has no CIDR.
func (r *IPs) networkOf(ctx context.Context, ip *ipamv1alpha1.IP) (*ipamv1alpha1.Network, error) {
	ref := ip.Spec.NetworkRef
	if ref == nil {
		return r.externalNetwork(ctx)
	}
	key := client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}
	if key.Namespace == "" {
		key.Namespace = ip.Namespace
	}
	network := &ipamv1alpha1.Network{}
	err := r.Client.Get(ctx, key, network)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading Network %s: %w", key, err)
	}
	if err != nil || network.Status.CIDR == "" {
		return nil, nil
	}
	return network, nil
}

func (r *IPs) externalNetwork(ctx context.Context) (*ipamv1alpha1.Network, error) {
	networks, err := ownNetworks(ctx, r.Client, r.Namespace, ipamv1alpha1.ExternalCIDRNetwork)
	if err != nil || len(networks) == 0 {
		return nil, err
	}
	return &networks[0], nil
}

// ownNetworks returns the Networks of a type that have a CIDR, in the order of their names.
func ownNetworks(ctx context.Context, reader client.Reader, namespace string, kind ipamv1alpha1.NetworkType) ([]ipamv1alpha1.Network, error) {
	list := &ipamv1alpha1.NetworkList{}
	err := reader.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels{ipamv1alpha1.NetworkTypeLabel: string(kind)})
	if err != nil {
		return nil, fmt.Errorf("listing Networks of type %s: %w", kind, err)
	}
	var allocated []ipamv1alpha1.Network
	for i := range list.Items {
		if list.Items[i].Status.CIDR != "" {
			allocated = append(allocated, list.Items[i])
		}
	}
	sortByName(allocated)
	return allocated, nil
}

func (r *IPs) allocate(ctx context.Context, ip *ipamv1alpha1.IP, network *ipamv1alpha1.Network) error {
	key := client.ObjectKeyFromObject(ip)
	cidr, err := ipam.ParseCIDR(string(network.Status.CIDR))
	if err != nil {
		return fmt.Errorf("reading the status of Network %s/%s: %w", network.Namespace, network.Name, err)
	}
	have, isHeld := r.held[key]
	if !isHeld || have.uid != ip.UID || have.cidr != cidr {
		delete(r.held, key)
		taken := make(map[netip.Addr]bool, len(r.held))
		for _, other := range r.held {
			taken[other.ip] = true
		}
		address, ok := ipam.NextIP(cidr, network.Spec.PreAllocated, taken, r.last[cidr])
		if !ok {
			r.Events.Eventf(ip, network, corev1.EventTypeWarning, ReasonNotAllocated, actionAllocate,
				"Network %s/%s has no free address. Delete IPs that are not used.", network.Namespace, network.Name)
			return reported.Error(fmt.Errorf("allocating the address of IP %s: Network %s/%s has no free address", key, network.Namespace, network.Name))
		}
		have = heldIP{ip.UID, address, cidr}
		// It is held even if the write fails: it may have reached the API server.
		r.held[key], r.last[cidr] = have, address
	}
	before := ip.DeepCopy()
	ip.Status = ipamv1alpha1.IPStatus{IP: networkingv1beta1.IP(have.ip.String()), CIDR: networkingv1beta1.CIDR(cidr.String())}
	return patchStatus(ctx, r.Client, ip, before)
}
