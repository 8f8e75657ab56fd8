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

// apiServerIPs selects the IPs of the API server (wire P5.3).
var apiServerIPs = labels.SelectorFromSet(labels.Set{ipamv1alpha1.IPTypeLabel: string(ipamv1alpha1.APIServerIP)})

// defaultAPIServerPort is the port of Service default/kubernetes, unless the environment of the
// process has another one.
const defaultAPIServerPort = "443"

// sendsTokens reports whether remote pods may get tokens of the consumer.
func (v *virtualNode) sendsTokens() bool {
	return v.options.EnableAPIServerSupport && v.options.ReflectionWorkers["serviceaccount"] > 0
}

// usesNetwork reports whether remote pods reach the API server over the network between the
// clusters.
func (v *virtualNode) usesNetwork() bool { return v.sendsTokens() && v.options.HomeAPIServerHost == "" }

// watchAPIServerIPs decides all objects again when the addresses of the API server change. It
// returns after the first list.
func (v *virtualNode) watchAPIServerIPs(ctx context.Context) error {
	if !v.usesNetwork() {
		return nil
	}
	return watch(ctx, v.manager.GetCache(), &ipamv1alpha1.IP{}, func(any) { v.decideAgain() }, func(string) { v.decideAgain() })
}

// apiServer returns where remote pods reach the API server: at the host of the options or, over the
// network between the clusters, at the addresses of IPs. Without a Configuration of the provider
// there is no such network, and remote pods have no access (T33).
func (v *virtualNode) apiServer() (remote.APIServer, error) {
	if !v.sendsTokens() {
		return remote.APIServer{}, nil
	}
	if !v.usesNetwork() {
		return remote.APIServer{Host: v.options.HomeAPIServerHost, Port: v.options.HomeAPIServerPort}, nil
	}
	switch v.addresses.Of(v.provider()).(type) {
	case address.Identity:
		return remote.APIServer{}, nil
	case *address.Peer:
	default:
		return remote.APIServer{}, fmt.Errorf("reading the Configuration of cluster %q: %w", v.options.ForeignClusterID, address.ErrPending)
	}
	ips := &ipamv1alpha1.IPList{}
	err := v.manager.GetClient().List(context.Background(), ips, client.InNamespace(v.options.Namespace), client.MatchingLabelsSelector{Selector: apiServerIPs})
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
		return remote.APIServer{}, fmt.Errorf("no IP with label %s in namespace %q has an address: enable IPAM in the chart, or allocate an address", apiServerIPs, v.options.Namespace)
	}
	slices.Sort(addresses)
	port := os.Getenv("KUBERNETES_SERVICE_PORT")
	if port == "" {
		port = defaultAPIServerPort
	}
	return remote.APIServer{Host: remote.HomeAPIServerHost, Port: port, Addresses: addresses}, nil
}
