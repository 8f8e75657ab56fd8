// Package kubelet composes a virtual kubelet: one process per VirtualNode, which keeps
// the Node, reflects what is offloaded through it and serves the kubelet API.
//
// The composition has two lives. What belongs to the consumer lives as long as the
// process: the manager with its lease, caches and metrics, and the policies. What
// belongs to the provider lives as long as its kubeconfig Secret stays the same: a
// session, which starts anew when the Secret changes.
package kubelet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/app/policies"
	"github.com/longshore-dev/longshore/host/kit/deadline"
	"github.com/longshore-dev/longshore/host/policysource"
)

// Component begins the name of this process in policy status; the node's follows.
const Component = policysource.VirtualKubelet

// gcPercent trades some processor time for memory: much of what a virtual kubelet holds
// is a cache that hardly changes, which the default would let double.
const gcPercent = 50

// off is the address that switches a listener of the manager off.
const off = "0"

// App is a composed virtual kubelet.
type App struct {
	options  Options
	scheme   *runtime.Scheme
	manager  ctrl.Manager
	policies *policies.Policies
	registry prometheus.Registerer
	up       prometheus.Gauge
	direct   client.Client
	home     *rest.Config

	clientset    kubernetes.Interface
	certificates *certificates

	election          *election
	link              *link
	situation         situation
	peers             peers
	sessions          sessions
	reflectionMetrics sessionCollector
}

// New composes the virtual kubelet; nothing is sent but what asks the API server for
// the kinds it serves.
func New(ctx context.Context, options Options) (*App, error) {
	if err := options.Validate(); err != nil {
		return nil, err
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	s, err := newScheme()
	if err != nil {
		return nil, err
	}
	a := &App{options: options, scheme: s, home: options.limited(options.Config), registry: metrics.Registry}
	a.sessions.changed = make(chan struct{}, 1)
	a.peers.home, a.peers.provider = options.HomeClusterID, options.ForeignClusterID
	if !options.MetricsEnabled {
		a.registry = prometheus.NewRegistry()
	}
	if a.direct, err = client.New(a.home, client.Options{Scheme: s}); err != nil {
		return nil, fmt.Errorf("connecting to the consumer: %w", err)
	}
	if a.clientset, err = kubernetes.NewForConfig(protobuf(a.home)); err != nil {
		return nil, fmt.Errorf("connecting to the consumer: %w", err)
	}
	if a.certificates, err = a.newCertificates(a.clientset); err != nil {
		return nil, err
	}
	if err := a.addElection(); err != nil {
		return nil, err
	}
	if err := a.addManager(ctx); err != nil {
		return nil, err
	}
	return a, nil
}

func (a *App) addElection() error {
	lock, err := a.options.providerLock(a.home)
	if err != nil {
		return err
	}
	aside, err := a.options.providerLock(a.home)
	if err != nil {
		return err
	}
	a.link = newLink(&a.options, time.Now)
	a.election, err = newElection(&a.options, lock, aside, a.link, a.sessions.lead, time.Now)
	return err
}

// newScheme lists the kinds that a virtual kubelet handles, and none of the hundreds
// besides: it is the process of which there are many.
func newScheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	err := errors.Join(
		corev1.AddToScheme(s), coordinationv1.AddToScheme(s), eventsv1.AddToScheme(s), networkingv1.AddToScheme(s),
		offloadingv1beta1.AddToScheme(s), liqocorev1beta1.AddToScheme(s), policyv1alpha1.AddToScheme(s),
	)
	if err != nil {
		return nil, fmt.Errorf("building the scheme: %w", err)
	}
	return s, nil
}

func (a *App) addManager(ctx context.Context) error {
	options, err := a.managerOptions(ctx)
	if err != nil {
		return err
	}
	if a.manager, err = ctrl.NewManager(a.home, options); err != nil {
		return fmt.Errorf("composing the virtual kubelet: %w", err)
	}
	if err := a.addMetrics(); err != nil {
		return err
	}
	observer, err := policysource.NewMetrics(a.registry)
	if err != nil {
		return fmt.Errorf("adding the metrics of policies: %w", err)
	}
	a.policies, err = policies.New(ctx, a.manager, policies.Options{
		Component: Component + a.options.NodeName, CacheDir: a.options.PolicyCacheDir, Compiler: a.options.PolicyCompiler,
		ModuleNamespaces: policies.Namespaces(a.options.Namespace, a.options.PolicyNamespaces), Metrics: observer, Changed: a.sessions.policiesChanged,
	})
	if err != nil {
		return fmt.Errorf("composing the policies: %w", err)
	}
	return errors.Join(
		a.manager.Add(manager.RunnableFunc(a.serve)),
		a.manager.AddHealthzCheck("ping", healthz.Ping),
		// Whatever the provider does: a replica that waits for its turn, or for the provider, is
		// ready, and who were to replace it would find the same.
		a.manager.AddReadyzCheck("policies", func(*http.Request) error { return a.policies.Ready() }),
	)
}

func (a *App) addMetrics() error {
	// longshore_remote_cluster_up is 1 while the provider's API server can be reached.
	a.up = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "longshore_remote_cluster_up", Help: "Whether the provider's API server can be reached.",
	})
	if err := errors.Join(a.registry.Register(a.up), a.registry.Register(&a.reflectionMetrics)); err != nil {
		return fmt.Errorf("adding the metrics of the provider: %w", err)
	}
	return nil
}

func (a *App) managerOptions(ctx context.Context) (ctrl.Options, error) {
	o := &a.options
	named := func(name string) cache.ByObject {
		return cache.ByObject{Namespaces: map[string]cache.Config{
			o.TenantNamespace: {FieldSelector: fields.OneTermEqualSelector("metadata.name", name)},
		}}
	}
	options := ctrl.Options{
		Scheme:                 a.scheme,
		Metrics:                server.Options{BindAddress: off},
		HealthProbeBindAddress: off,
		PprofBindAddress:       off,
		// The manager cancels what it runs by itself; this is for the logger.
		BaseContext: func() context.Context { return ctrl.LoggerInto(context.WithoutCancel(ctx), ctrl.LoggerFrom(ctx)) },
		// Names of controllers are checked per process, and several virtual kubelets may
		// share one in tests.
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
		Cache: cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(),
			// Of the kinds with many objects, only what concerns this virtual node; of the
			// VirtualNodes, those that share the provider.
			ByObject: map[client.Object]cache.ByObject{
				// Their Deployments are not read here.
				&offloadingv1beta1.VirtualNode{}: {Namespaces: map[string]cache.Config{o.TenantNamespace: {}}, Transform: withoutTemplate},
				&corev1.Secret{}:                 named(o.ForeignKubeconfigSecretName),
				&corev1.ConfigMap{}:              policies.CacheOf(policies.Namespaces(o.Namespace, o.PolicyNamespaces)),
			},
		},
	}
	if o.MetricsEnabled {
		options.Metrics.BindAddress = o.MetricsAddress
	}
	if o.HealthPort > 0 {
		options.HealthProbeBindAddress = net.JoinHostPort(o.NodeIP, strconv.Itoa(o.HealthPort))
	}
	if o.EnableProfiling {
		options.PprofBindAddress = ":6060"
	}
	if !o.VKLeaseEnabled {
		return options, nil
	}
	identity, err := o.replica()
	if err != nil {
		return ctrl.Options{}, err
	}
	// The lease of this node: one of several replicas works, the others wait (5.7).
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, o.TenantNamespace, o.NodeName,
		resourcelock.ResourceLockConfig{Identity: identity}, a.home, o.VKLeaseRenewInterval)
	if err != nil {
		return ctrl.Options{}, fmt.Errorf("preparing the lease %s/%s: %w", o.TenantNamespace, o.NodeName, err)
	}
	options.LeaderElection = true
	options.LeaderElectionResourceLockInterface = lock
	options.LeaderElectionReleaseOnCancel = true
	options.LeaseDuration, options.RenewDeadline, options.RetryPeriod = &o.VKLeaseDuration, &o.VKLeaseRenewInterval, &o.VKLeaseRetryPeriod
	return options, nil
}

// withoutTemplate drops what a virtual kubelet does not read of a VirtualNode.
func withoutTemplate(object any) (any, error) {
	if vn, ok := object.(*offloadingv1beta1.VirtualNode); ok {
		vn.ManagedFields, vn.Spec.Template = nil, nil
	}
	return object, nil
}

// replica names this process among those of the node.
func (o *Options) replica() (string, error) {
	if o.Identity != "" {
		return o.Identity, nil
	}
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("finding a name for the lease (POD_NAME is not set): %w", err)
	}
	return host + "-" + strconv.Itoa(os.Getpid()), nil
}

// limited applies the flags --client-… to a copy of a configuration.
func (o *Options) limited(config *rest.Config) *rest.Config {
	limited := deadline.Wrap(config, o.ClientTimeout)
	limited.QPS, limited.Burst = -1, 0
	if o.ClientQPS > 0 {
		limited.QPS, limited.Burst = float32(o.ClientQPS), o.ClientMaxBurst
	}
	limited.UserAgent = "longshore-virtual-kubelet/" + o.NodeName
	return limited
}

// Run works until the context ends, or until something only a human can mend: the error
// says what.
func (a *App) Run(ctx context.Context) error {
	log := ctrl.LoggerFrom(ctx)
	if given := a.options.WithoutEffect; len(given) > 0 {
		log.Info("These arguments have no effect yet", "arguments", given)
	}
	err := a.manager.Start(ctx)
	if closeErr := a.policies.Close(context.WithoutCancel(ctx)); closeErr != nil {
		err = errors.Join(err, closeErr)
	}
	if err != nil {
		return fmt.Errorf("running the virtual kubelet of node %q: %w", a.options.NodeName, err)
	}
	return nil
}
