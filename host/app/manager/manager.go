// Package manager composes the controller manager: the controllers of both roles, since
// a cluster may be consumer and provider at once, and replication.
package manager

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	clientevents "k8s.io/client-go/tools/events"
	"k8s.io/pod-security-admission/api"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/policies"
	"github.com/longshore-dev/longshore/host/app/process"
	"github.com/longshore-dev/longshore/host/app/replicator"
	"github.com/longshore-dev/longshore/host/consumer/access"
	"github.com/longshore-dev/longshore/host/consumer/certificate"
	"github.com/longshore-dev/longshore/host/consumer/namespaceoffloading"
	"github.com/longshore-dev/longshore/host/consumer/networkpolicy"
	"github.com/longshore-dev/longshore/host/consumer/podstatus"
	"github.com/longshore-dev/longshore/host/consumer/resourcereflection"
	"github.com/longshore-dev/longshore/host/consumer/virtualnode"
	"github.com/longshore-dev/longshore/host/forge/virtualkubelet"
	"github.com/longshore-dev/longshore/host/kit/events"
	"github.com/longshore-dev/longshore/host/kit/liqometrics"
	"github.com/longshore-dev/longshore/host/peering/foreigncluster"
	"github.com/longshore-dev/longshore/host/peering/tenantsecrets"
	policyconfigmap "github.com/longshore-dev/longshore/host/policysource/configmap"
	policystatus "github.com/longshore-dev/longshore/host/policysource/status"
	"github.com/longshore-dev/longshore/host/provider/metadata"
	"github.com/longshore-dev/longshore/host/provider/namespacemap"
	"github.com/longshore-dev/longshore/host/provider/nodefailure"
	"github.com/longshore-dev/longshore/host/provider/shadowendpointslice"
	"github.com/longshore-dev/longshore/host/provider/shadowpod"
)

// LeaderElectionID is the name of the manager's lease.
const LeaderElectionID = "longshore-manager"

// Options configures an App. The names are those of the command's flags.
type Options struct {
	process.Options
	// LeaderElection elects one of several replicas.
	LeaderElection bool
	// ShadowPodWorkers is the number of ShadowPods that are reconciled concurrently.
	ShadowPodWorkers int
	// ShadowEndpointSliceWorkers is the number of ShadowEndpointSlices that are reconciled
	// concurrently.
	ShadowEndpointSliceWorkers int
	// PodSecurityLevel is the Pod Security level of consumers' pods in namespaces without a label
	// for it. The default is baseline.
	PodSecurityLevel string
	// NodeFailure deletes terminating pods of consumers on Nodes that are not ready.
	NodeFailure bool
	// ReservedNamespaces are patterns of names that consumers may not use for namespaces.
	ReservedNamespaces []string
	// ConsumerLimits is JSON of namespacemap.Limits; empty means that nothing but pods is limited.
	ConsumerLimits string
	// Replication runs the replicator in this process instead of in a separate one.
	Replication bool
	// ResyncPeriod is the resync period of the replicator's informers.
	ResyncPeriod time.Duration
	// PingInterval is the pause between probes of a provider's API server, which are switched off
	// by zero; PingTimeout is the timeout of a probe.
	PingInterval, PingTimeout time.Duration
	// Peering configures what peers get of this cluster.
	Peering PeeringOptions
	// Storage configures the volumes of claims with a virtual storage class.
	Storage StorageOptions
	// DefaultVkOptions is the VkOptionsTemplate of VirtualNodes that name none.
	DefaultVkOptions client.ObjectKey
	// KubeletNetworkPolicy is JSON of a virtualkubelet.NetworkAccess; empty means that virtual
	// kubelets have no NetworkPolicies.
	KubeletNetworkPolicy string
	// Network configures the allocation of networks and addresses.
	Network NetworkOptions
	// PodName is the name of this replica's pod. It is empty outside of a cluster.
	PodName string
	// Policies configures the policies for ResourceSlices.
	Policies PolicyOptions
}

// Validate returns every invalid option.
func (o *Options) Validate() error {
	err := errors.Join(o.Options.Validate(), replicator.ValidateResyncPeriod(o.ResyncPeriod))
	if o.ShadowPodWorkers < 1 {
		err = errors.Join(err, fmt.Errorf("--shadow-pod-ctrl-workers is %d: it must be at least 1", o.ShadowPodWorkers))
	}
	if o.ShadowEndpointSliceWorkers < 1 {
		err = errors.Join(err, fmt.Errorf("--shadow-endpointslice-ctrl-workers is %d: it must be at least 1", o.ShadowEndpointSliceWorkers))
	}
	if o.PingInterval < 0 || o.PingInterval > 0 && o.PingTimeout <= 0 {
		err = errors.Join(err, fmt.Errorf("--foreign-cluster-ping-interval is %s and --foreign-cluster-ping-timeout is %s: the first cannot be negative, and the second must be positive", o.PingInterval, o.PingTimeout))
	}
	if o.PodSecurityLevel != "" {
		if _, levelErr := api.ParseLevel(o.PodSecurityLevel); levelErr != nil {
			err = errors.Join(err, fmt.Errorf("parsing --pod-security-level %q: %w", o.PodSecurityLevel, levelErr))
		}
	}
	if _, resourcesErr := o.Peering.resources(); resourcesErr != nil {
		err = errors.Join(err, resourcesErr)
	}
	if _, enforcementErr := o.Peering.limitsEnforcement(); enforcementErr != nil {
		err = errors.Join(err, enforcementErr)
	}
	err = errors.Join(err, o.Storage.validate(), o.Network.validate(),
		policies.ValidateReportKeys(o.Policies.ReportKeys), policies.ValidateNamespaces(o.Policies.Namespaces))
	if _, accessErr := virtualkubelet.ParseNetworkAccess(o.KubeletNetworkPolicy); accessErr != nil {
		err = errors.Join(err, fmt.Errorf("--vk-network-policy: %w", accessErr))
	}
	if namesErr := o.names().Validate(); namesErr != nil {
		err = errors.Join(err, fmt.Errorf("--reserved-namespaces: %w", namesErr))
	}
	if _, limitsErr := namespacemap.ParseLimits(o.ConsumerLimits); limitsErr != nil {
		err = errors.Join(err, fmt.Errorf("--consumer-limits: %w", limitsErr))
	}
	return err
}

func (o *Options) names() *namespacemap.Names {
	return &namespacemap.Names{Own: o.Namespace, Reserved: o.ReservedNamespaces}
}

// New composes the manager; nothing runs yet.
func New(options Options) (*process.App, error) {
	if err := options.Validate(); err != nil {
		return nil, err
	}
	definition := process.Definition{
		Name:     "the manager",
		NewCache: tenantsecrets.New,
		Cache: map[client.Object]cache.ByObject{
			&corev1.Pod{}: {
				Label:     labels.SelectorFromSet(labels.Set{offloadingv1beta1.ManagedByLabel: offloadingv1beta1.ManagedByShadowPod}),
				Transform: metadata.Trim,
			},
			&discoveryv1.EndpointSlice{}: {
				Label:     labels.SelectorFromSet(labels.Set{offloadingv1beta1.ManagedByLabel: offloadingv1beta1.ManagedByShadowEndpointSlice}),
				Transform: shadowendpointslice.Trim,
			},
			&offloadingv1beta1.ShadowPod{}:           {Transform: shadowpod.Trim},
			&offloadingv1beta1.ShadowEndpointSlice{}: {Transform: shadowendpointslice.Trim},
			// Those of remote namespaces.
			&corev1.ResourceQuota{}: {Label: labels.SelectorFromSet(labels.Set{liqocorev1beta1.ManagedByLabel: liqocorev1beta1.ManagedByValue})},
			&rbacv1.Role{}:          {Label: virtualkubelet.RoleSelector()},
			&rbacv1.ClusterRole{}:   {Label: virtualkubelet.RoleSelector()},
			// Policies and their modules.
			&corev1.ConfigMap{}: policies.CacheOf(options.modules()),
		},
	}
	loaded := newPolicies()
	definition.Close = loaded.Close
	definition.Add = func(mgr ctrl.Manager) error { return addControllers(mgr, options, loaded) }
	if options.LeaderElection {
		definition.Lease = LeaderElectionID
	}
	return process.New(&options.Options, definition)
}

func addControllers(mgr ctrl.Manager, options Options, loaded *slicePolicies) error {
	recorder := events.New(mgr, "longshore-manager", time.Now)
	passive := clock.RealClock{}
	access, err := virtualkubelet.ParseNetworkAccess(options.KubeletNetworkPolicy)
	if err != nil {
		return fmt.Errorf("--vk-network-policy: %w", err)
	}
	limits, err := namespacemap.ParseLimits(options.ConsumerLimits)
	if err != nil {
		return fmt.Errorf("--consumer-limits: %w", err)
	}
	return errors.Join(
		wrapSetup("shadowpod", (&shadowpod.Reconciler{
			Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Events: recorder, Clock: passive,
			SecurityLevel: api.Level(options.PodSecurityLevel),
		}).SetupWithManager(mgr, options.ShadowPodWorkers)),
		wrapSetup("quota", (&shadowpod.Ending{Client: mgr.GetClient()}).SetupWithManager(mgr)),
		wrapSetup("shadowendpointslice", (&shadowendpointslice.Reconciler{
			Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Events: recorder, Clock: clock.RealClock{},
		}).SetupWithManager(mgr, options.ShadowEndpointSliceWorkers)),
		wrapSetup("namespacemap", (&namespacemap.Reconciler{
			Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Events: recorder, ClusterID: liqocorev1beta1.ClusterID(options.ClusterID), Names: *options.names(), Limits: limits, Retain: options.Storage.retain(mgr),
			Clock: passive, CustomCountsFrom: passive.Now().Add(namespacemap.CustomCountsAfter),
		}).SetupWithManager(mgr)),
		wrapSetup("namespaceoffloading", (&namespaceoffloading.Reconciler{
			Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Events: recorder, Clock: passive, ClusterID: options.ClusterID,
		}).SetupWithManager(mgr)),
		wrapSetup("virtualnode", (&virtualnode.Reconciler{
			Client: mgr.GetClient(), APIReader: tenantsecrets.Reader(mgr), Events: recorder, Clock: passive, DefaultOptions: options.DefaultVkOptions,
			NetworkAccess: access,
			Connect: func(config *rest.Config) (client.Client, error) {
				return client.New(config, client.Options{Scheme: mgr.GetScheme()})
			},
		}).SetupWithManager(mgr)),
		wrapSetup("podstatus", (&podstatus.Reconciler{
			Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(),
		}).SetupWithManager(mgr)),
		wrapSetup("networkpolicy", (&networkpolicy.Reconciler{
			Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Events: recorder,
		}).SetupWithManager(mgr)),
		wrapSetup("access", addAccess(mgr, recorder, passive)),
		wrapSetup("certificate", (&certificate.Reconciler{Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Clock: passive}).SetupWithManager(mgr)),
		wrapSetup("policystatus", (&policystatus.Reconciler{
			Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Events: recorder, Clock: passive,
		}).SetupWithManager(mgr)),
		wrapSetup("resourcereflection", (&resourcereflection.Reconciler{Client: mgr.GetClient(), Events: recorder, Clock: passive}).SetupWithManager(mgr)),
		wrapSetup("policyconfigmap", (&policyconfigmap.Reconciler{
			Client: mgr.GetClient(), Events: recorder, Namespace: options.Namespace,
		}).SetupWithManager(mgr)),
		addPeerMetrics(mgr, &options),
		addNodeFailure(mgr, options),
		addReplication(mgr, options),
		addProbes(mgr, options, passive),
		addStorage(mgr, &options.Storage, recorder),
		addNetwork(mgr, &options, recorder),
		loaded.add(mgr, &options),
		addPeering(mgr, &options, recorder, passive, loaded),
	)
}

// addPeerMetrics adds the metrics of Liqo about peers. The registry of the process has them once.
func addPeerMetrics(mgr ctrl.Manager, options *Options) error {
	if options.Policies.Metrics == nil {
		return nil
	}
	return wrapSetup("metrics of peers", options.Policies.Metrics.Register(liqometrics.NewPeers(mgr.GetClient())))
}

func addNodeFailure(mgr ctrl.Manager, options Options) error {
	if !options.NodeFailure {
		return nil
	}
	return wrapSetup("nodefailure", (&nodefailure.Reconciler{Client: mgr.GetClient()}).SetupWithManager(context.Background(), mgr)) // the index is in memory
}

func addReplication(mgr ctrl.Manager, options Options) error {
	if !options.Replication {
		return nil
	}
	return replicator.Add(mgr, replicator.Options{Options: options.Options, ResyncPeriod: options.ResyncPeriod})
}

func addProbes(mgr ctrl.Manager, options Options, passive clock.PassiveClock) error {
	if options.PingInterval == 0 {
		return nil
	}
	return wrapSetup("foreigncluster-probe", (&foreigncluster.Prober{
		Client: mgr.GetClient(), Clock: passive, Interval: options.PingInterval, Timeout: options.PingTimeout,
	}).SetupWithManager(mgr))
}

func addAccess(mgr ctrl.Manager, recorder clientevents.EventRecorder, passive clock.PassiveClock) error {
	pods, err := access.NewNodePods(mgr.GetConfig())
	if err != nil {
		return err
	}
	return (&access.Reconciler{
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Events: recorder, Clock: passive, Pods: pods,
	}).SetupWithManager(mgr, pods)
}

// wrapSetup adds the controller to an error of its setup.
func wrapSetup(name string, err error) error {
	if err != nil {
		return fmt.Errorf("adding controller %s: %w", name, err)
	}
	return nil
}
