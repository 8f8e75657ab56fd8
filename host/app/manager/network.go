package manager

import (
	"errors"
	"fmt"

	clientevents "k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/longshore-dev/longshore/host/kit/ipam"
	"github.com/longshore-dev/longshore/host/peering/network"
)

// NetworkOptions configure the allocation of networks and addresses. The names are those of the
// command's flags.
type NetworkOptions struct {
	// Enabled allocates CIDRs of Networks and addresses of IPs, and completes Configurations.
	// Addresses are translated by Configurations in any case.
	Enabled bool
	// Pools are the networks that CIDRs are allocated from.
	Pools []string
}

func (o *NetworkOptions) validate() error {
	if !o.Enabled {
		return nil
	}
	if _, err := ipam.ParsePools(o.Pools); err != nil {
		return fmt.Errorf("--ipam-pools: %w", err)
	}
	return nil
}

func addNetwork(mgr ctrl.Manager, o *Options, recorder clientevents.EventRecorder) error {
	if !o.Network.Enabled {
		return nil
	}
	pools, err := ipam.ParsePools(o.Network.Pools)
	if err != nil {
		return fmt.Errorf("--ipam-pools: %w", err)
	}
	c, reader := mgr.GetClient(), mgr.GetAPIReader()
	return errors.Join(
		wrapSetup("network", (&network.Networks{Client: c, APIReader: reader, Events: recorder, Pools: pools}).SetupWithManager(mgr)),
		wrapSetup("ip", (&network.IPs{Client: c, APIReader: reader, Events: recorder, Namespace: o.Namespace}).SetupWithManager(mgr)),
		wrapSetup("ip-api-server", (&network.APIServer{Client: c, APIReader: reader, Namespace: o.Namespace}).SetupWithManager(mgr)),
		wrapSetup("ip-pod", (&network.PodIPs{Client: c}).SetupWithManager(mgr)),
		wrapSetup("configuration", (&network.Configurations{Client: c, Events: recorder, Namespace: o.Namespace}).SetupWithManager(mgr)),
	)
}
