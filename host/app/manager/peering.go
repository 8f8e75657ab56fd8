package manager

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/rest"
	clientevents "k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/identity"
	consumerslice "github.com/longshore-dev/longshore/host/consumer/resourceslice"
	"github.com/longshore-dev/longshore/host/peering/foreigncluster"
	"github.com/longshore-dev/longshore/host/peering/tenantnamespace"
	"github.com/longshore-dev/longshore/host/peering/tenantsecrets"
	"github.com/longshore-dev/longshore/host/provider/certificate"
	"github.com/longshore-dev/longshore/host/provider/namespacemap"
	providerslice "github.com/longshore-dev/longshore/host/provider/resourceslice"
	"github.com/longshore-dev/longshore/host/provider/tenant"
)

// The names that the chart gives to the ServiceAccounts of the manager, of a replicator that runs in
// a process of its own, and of the hook of helm uninstall.
const (
	serviceAccount    = "longshore-manager"
	replicatorAccount = "longshore-replicator"
	uninstallAccount  = "longshore-uninstall"
)

// tenantAccounts returns the ServiceAccounts that read and write Secrets in tenant namespaces.
func (o *Options) tenantAccounts() []client.ObjectKey {
	accounts := []client.ObjectKey{{Namespace: o.Namespace, Name: serviceAccount}, {Namespace: o.Namespace, Name: uninstallAccount}}
	if !o.Replication {
		accounts = append(accounts, client.ObjectKey{Namespace: o.Namespace, Name: replicatorAccount})
	}
	return accounts
}

// PeeringOptions configure what peers get of this cluster. The names are those of the
// command's flags.
type PeeringOptions struct {
	// APIServerAddress is how peers reach the API server, host:port or a URL; empty means the
	// first control-plane node.
	APIServerAddress string
	// TrustedCA says that a certificate authority which every system trusts signed the API
	// server's certificate: peers get none.
	TrustedCA bool
	// ClusterLabels describe this cluster on the virtual nodes of its consumers.
	ClusterLabels map[string]string
	// DefaultClassEnabled lets the built-in class grant resources.
	DefaultClassEnabled bool
	// DefaultNodeResources are granted of resources that a ResourceSlice does not name.
	DefaultNodeResources map[string]string
	// LimitsEnforcement is that of the Quotas of ResourceSlices: None, Soft or Hard.
	LimitsEnforcement string
}

// limitsEnforcement returns the enforcement; empty means None.
func (o *PeeringOptions) limitsEnforcement() (offloadingv1beta1.LimitsEnforcement, error) {
	switch value := offloadingv1beta1.LimitsEnforcement(o.LimitsEnforcement); value {
	case "":
		return offloadingv1beta1.NoLimitsEnforcement, nil
	case offloadingv1beta1.NoLimitsEnforcement, offloadingv1beta1.SoftLimitsEnforcement, offloadingv1beta1.HardLimitsEnforcement:
		return value, nil
	default:
		return "", fmt.Errorf("--default-limits-enforcement is %q: it must be None, Soft or Hard", value)
	}
}

// resources parses the default resources.
func (o *PeeringOptions) resources() (corev1.ResourceList, error) {
	list := providerslice.DefaultResources()
	for name, value := range o.DefaultNodeResources {
		quantity, err := resource.ParseQuantity(value)
		if err != nil {
			return nil, fmt.Errorf("parsing --default-node-resources %s=%q: %w", name, value, err)
		}
		list[corev1.ResourceName(name)] = quantity
	}
	return list, nil
}

// addPeering adds the controllers of the handshake and of ResourceSlices, of both roles.
func addPeering(mgr ctrl.Manager, o *Options, recorder clientevents.EventRecorder, passive clock.PassiveClock, loaded *slicePolicies) error {
	defaults, err := o.Peering.resources()
	if err != nil {
		return err
	}
	enforcement, err := o.Peering.limitsEnforcement()
	if err != nil {
		return err
	}
	limits, err := namespacemap.ParseLimits(o.ConsumerLimits)
	if err != nil {
		return fmt.Errorf("--consumer-limits: %w", err)
	}
	authority, err := certificateAuthority(o)
	if err != nil {
		return err
	}
	own := liqocorev1beta1.ClusterID(o.ClusterID)
	keys := &identity.Keys{Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Namespace: o.Namespace}
	issuer := &certificate.Issuer{Client: mgr.GetClient(), APIReader: tenantsecrets.Reader(mgr), Clock: passive}
	endpoint := &certificate.Endpoint{Override: o.Peering.APIServerAddress, CA: authority, Client: mgr.GetClient(), APIReader: mgr.GetAPIReader()}
	return errors.Join(
		wrapSetup("tenantnamespace", (&tenantnamespace.Reconciler{
			Client: mgr.GetClient(), ServiceAccounts: o.tenantAccounts(),
		}).SetupWithManager(mgr)),
		wrapSetup("nonce", (&tenant.NonceReconciler{Client: mgr.GetClient(), Events: recorder}).SetupWithManager(mgr)),
		wrapSetup("tenant", (&tenant.Reconciler{
			Client: mgr.GetClient(), Events: recorder, Clock: passive, Issuer: issuer, Endpoint: endpoint,
			Limits: limits.TenantNamespace, LimitsFrom: passive.Now().Add(namespacemap.CustomCountsAfter),
		}).SetupWithManager(mgr)),
		wrapSetup("certificate-leftovers", (&certificate.Leftovers{Client: mgr.GetClient()}).SetupWithManager(mgr)),
		wrapSetup("resourceslice-remote", (&providerslice.Reconciler{
			Client: mgr.GetClient(), Events: recorder, Clock: passive, Issuer: issuer, Endpoint: endpoint,
			LimitsEnforcement: enforcement, Policies: &loaded.Lazy, PoliciesChanged: loaded.changes,
			Offer: providerslice.Offer{
				Defaults: defaults, ClassDisabled: !o.Peering.DefaultClassEnabled, NodeLabels: o.Peering.ClusterLabels,
				StorageDisabled: !o.Storage.Enabled, StorageClass: o.Storage.RealClass,
			},
		}).SetupWithManager(mgr)),
		wrapSetup("nonce-signer", (&identity.NonceSigner{Client: mgr.GetClient(), Events: recorder, Keys: keys}).SetupWithManager(mgr)),
		wrapSetup("identity", (&identity.Reconciler{Client: mgr.GetClient(), Events: recorder, Keys: keys, ClusterID: own}).SetupWithManager(mgr)),
		wrapSetup("resourceslice-local", (&consumerslice.Reconciler{
			Client: mgr.GetClient(), Events: recorder, Keys: keys, ClusterID: own,
		}).SetupWithManager(mgr)),
		wrapSetup("foreigncluster", (&foreigncluster.Reconciler{Client: mgr.GetClient(), Clock: passive}).SetupWithManager(mgr)),
	)
}

// certificateAuthority returns the PEM bundle by which peers verify the API server: the one by
// which this process does.
func certificateAuthority(o *Options) ([]byte, error) {
	if o.Peering.TrustedCA {
		return nil, nil
	}
	config := rest.CopyConfig(o.Config)
	if err := rest.LoadTLSFiles(config); err != nil {
		return nil, fmt.Errorf("reading the certificate authority of the API server: %w", err)
	}
	return config.CAData, nil
}
