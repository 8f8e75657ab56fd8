package kubelet

import (
	"context"
	"fmt"
	"os"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/longshore-dev/longshore/host/apis/ipam/v1alpha1"
	"github.com/longshore-dev/longshore/host/forge/remote"
	"github.com/longshore-dev/longshore/host/kit/address"
)

// apiServerIPs selects the IPs of the API server.
var apiServerIPs = labels.SelectorFromSet(labels.Set{ipamv1alpha1.IPTypeLabel: string(ipamv1alpha1.APIServerIP)})

// defaultAPIServerPort is the port of Service default/kubernetes, unless the environment of the
// process has another one.
const defaultAPIServerPort = "443"

// sendsTokens reports whether remote pods may get tokens of the consumer.
func (a *App) sendsTokens() bool {
	return a.options.EnableAPIServerSupport && a.options.ReflectionWorkers["serviceaccount"] > 0
}

// usesNetwork reports whether remote pods reach the API server over the network between the
// clusters.
func (a *App) usesNetwork() bool { return a.sendsTokens() && a.options.HomeAPIServerHost == "" }

// watchAPIServerIPs decides all objects again when the addresses of the API server change. It
// returns after the first list.
func (a *App) watchAPIServerIPs(ctx context.Context) error {
	if !a.usesNetwork() {
		return nil
	}
	return watch(ctx, a.manager.GetCache(), &ipamv1alpha1.IP{}, func(any) { a.decideAgain() }, func(string) { a.decideAgain() })
}

// apiServer returns where remote pods reach the API server: at the host of the options or, over the
// network between the clusters, at the addresses of IPs. Without a Configuration of the provider
// there is no such network, and remote pods have no access.
func (a *App) apiServer() (remote.APIServer, error) {
	if !a.sendsTokens() {
		return remote.APIServer{}, nil
	}
	if !a.usesNetwork() {
		return remote.APIServer{Host: a.options.HomeAPIServerHost, Port: a.options.HomeAPIServerPort}, nil
	}
	switch a.addresses.Of(a.provider()).(type) {
	case address.Identity:
		return remote.APIServer{}, nil
	case *address.Peer:
	default:
		return remote.APIServer{}, fmt.Errorf("reading the Configuration of cluster %q: %w", a.options.ForeignClusterID, address.ErrPending)
	}
	ips := &ipamv1alpha1.IPList{}
	err := a.manager.GetClient().List(context.Background(), ips, client.InNamespace(a.options.Namespace), client.MatchingLabelsSelector{Selector: apiServerIPs})
	if err != nil {
		return remote.APIServer{}, fmt.Errorf("listing the IPs of the API server: %w", err)
	}
	var addresses []string
	for i := range ips.Items {
		if ip := string(ips.Items[i].Status.IP); ip != "" {
			addresses = append(addresses, ip)
		}
	}
	if len(addresses) == 0 {
		return remote.APIServer{}, fmt.Errorf("no IP with label %s in namespace %q has an address: enable IPAM in the chart, or allocate an address", apiServerIPs, a.options.Namespace)
	}
	slices.Sort(addresses)
	port := os.Getenv("KUBERNETES_SERVICE_PORT")
	if port == "" {
		port = defaultAPIServerPort
	}
	return remote.APIServer{Host: remote.HomeAPIServerHost, Port: port, Addresses: addresses}, nil
}
