// Package kubelet composes a virtual kubelet: the process that maintains the Node of a
// VirtualNode, reflects what is offloaded through it and serves the kubelet API.
//
// App is the process: a manager with lease, caches and metrics, the policies, and what outlives a
// session. A session belongs to one kubeconfig of the provider and is replaced when the Secret changes.
package kubelet

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
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
	ipamv1alpha1 "github.com/longshore-dev/longshore/host/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/longshore-dev/longshore/host/apis/networking/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/app/policies"
	"github.com/longshore-dev/longshore/host/consumer/election"
	"github.com/longshore-dev/longshore/host/consumer/link"
	"github.com/longshore-dev/longshore/host/consumer/reflection/event"
	"github.com/longshore-dev/longshore/host/consumer/reflection/facts"
	"github.com/longshore-dev/longshore/host/kit/address"
	"github.com/longshore-dev/longshore/host/kit/deadline"
	"github.com/longshore-dev/longshore/host/kit/memory"
	"github.com/longshore-dev/longshore/host/kit/restore"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/view"
	"github.com/longshore-dev/longshore/host/policysource"
)

// disabledAddress disables a listener of the manager.
const disabledAddress = "0"

// App is a composed virtual kubelet.
type App struct {
	options *Options
	// config, client and clientset reach the consumer; client does not read from the cache.
	config    *rest.Config
	client    client.Client
	clientset kubernetes.Interface
	scheme    *runtime.Scheme
	manager   ctrl.Manager
	policies  *policyLoader
	registry  prometheus.Registerer
	// addresses translate those of the provider.
	addresses *address.Table
	facts     *facts.Facts
	link      *link.Link
	election  *election.Election
	// certificate returns the serving certificate; keepCertificate renews a signed one and is
	// nil otherwise.
	certificate     func() (*tls.Certificate, error)
	keepCertificate func(context.Context)
	// eventLimits outlive a connection to the provider.
	eventLimits *event.Limits
	// unreadable reports what the provider sends and cannot be decoded; it is read again at once.
	unreadable rate.Sometimes

	reachable      prometheus.Gauge
	sessionMetrics sessionCollector

	kubeconfigChanged chan struct{}

	mu             sync.Mutex
	session        *session
	leading        bool
	foreignCluster *liqocorev1beta1.ForeignCluster // of the provider
}

// New composes the virtual kubelet. It sends discovery requests only.
func New(ctx context.Context, options Options) (*App, error) {
	if err := options.Validate(); err != nil {
		return nil, err
	}
	memory.ReduceGarbage()
	s, err := newScheme()
	if err != nil {
		return nil, err
	}
	a := &App{
		options: &options, config: options.withRate(deadline.Wrap(options.Config, options.ClientTimeout)), scheme: s, registry: metrics.Registry,
		addresses: &address.Table{}, kubeconfigChanged: make(chan struct{}, 1), eventLimits: event.NewLimits(),
		unreadable: rate.Sometimes{Interval: time.Minute},
		link:       link.New(options.NodePingInterval, options.NodePingTimeout, time.Now),
	}
	if !options.MetricsEnabled {
		a.registry = prometheus.NewRegistry()
	}
	if a.client, err = client.New(a.config, client.Options{Scheme: s}); err != nil {
		return nil, fmt.Errorf("connecting to the consumer: %w", err)
	}
	if a.clientset, err = kubernetes.NewForConfig(protobuf(a.config)); err != nil {
		return nil, fmt.Errorf("connecting to the consumer: %w", err)
	}
	managerOptions, err := a.managerOptions(ctx)
	if err != nil {
		return nil, err
	}
	if a.manager, err = ctrl.NewManager(a.config, managerOptions); err != nil {
		return nil, fmt.Errorf("composing the virtual kubelet: %w", err)
	}
	a.policies = &policyLoader{policies.Lazy{Load: a.loadPolicies}}
	a.facts = facts.New(a.origin(), func() view.Evaluator { return a.policies })
	return a, errors.Join(
		a.addLinkMetrics(), a.addCertificate(), a.addElection(),
		a.manager.Add(manager.RunnableFunc(a.serve)),
		a.manager.AddHealthzCheck("ping", healthz.Ping),
		// Readiness does not depend on the lease or on the provider: another replica would
		// wait in the same way.
		a.manager.AddReadyzCheck("policies", func(*http.Request) error { return a.policies.Ready() }),
	)
}

// newScheme registers only the kinds that a virtual kubelet handles, to save memory. It has all that clients of
// the provider decode, whose amounts are bounded by it.
func newScheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	err := errors.Join(
		corev1.AddToScheme(s), coordinationv1.AddToScheme(s), eventsv1.AddToScheme(s), networkingv1.AddToScheme(s),
		discoveryv1.AddToScheme(s), metricsv1beta1.AddToScheme(s),
		networkingv1beta1.AddToScheme(s), ipamv1alpha1.AddToScheme(s), offloadingv1beta1.AddToScheme(s), liqocorev1beta1.AddToScheme(s), policyv1alpha1.AddToScheme(s),
	)
	if err != nil {
		return nil, fmt.Errorf("building the scheme: %w", err)
	}
	return s, nil
}

func (a *App) loadPolicies(ctx context.Context) (*policies.Policies, error) {
	o := a.options
	policyMetrics, err := policysource.NewMetrics(a.registry)
	if err != nil {
		return nil, fmt.Errorf("adding the metrics of policies: %w", err)
	}
	loaded, err := policies.New(ctx, a.manager, policies.Options{
		// Its own Pod is read from the API server: the cache would hold all pods of the cluster.
		Identity: o.component(a.manager.GetAPIReader()),
		Elected:  o.VKLeaseEnabled, CacheDir: o.PolicyCacheDir, PrecompiledDir: o.PrecompiledPolicyDir, Compiler: o.PolicyCompiler,
		Stages:     chain.OffloadOrder(),
		ReportKeys: o.PolicyReportKeys, ModuleNamespaces: policies.Namespaces(o.Namespace, o.PolicyNamespaces), Metrics: policyMetrics, Changed: a.decideAgain,
	})
	if err != nil {
		return nil, fmt.Errorf("composing the policies: %w", err)
	}
	return loaded, nil
}

func (a *App) managerOptions(ctx context.Context) (ctrl.Options, error) {
	o := a.options
	options := ctrl.Options{
		Scheme:                 a.scheme,
		Metrics:                server.Options{BindAddress: disabledAddress},
		HealthProbeBindAddress: disabledAddress,
		PprofBindAddress:       disabledAddress,
		// Only the logger is used: the manager cancels its runnables itself.
		BaseContext: func() context.Context { return ctrl.LoggerInto(context.WithoutCancel(ctx), ctrl.LoggerFrom(ctx)) },
		// Controller names are unique per process, and tests run several virtual kubelets.
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
		Cache: cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(), NewInformer: restore.NewInformer,
			ByObject: map[client.Object]cache.ByObject{
				&offloadingv1beta1.VirtualNode{}:   {Namespaces: map[string]cache.Config{o.TenantNamespace: {}}, Transform: stripTemplate},
				&networkingv1beta1.Configuration{}: {Namespaces: map[string]cache.Config{o.TenantNamespace: {}}},
				&ipamv1alpha1.IP{}:                 {Namespaces: map[string]cache.Config{o.Namespace: {LabelSelector: apiServerIPs}}},
				&corev1.ConfigMap{}:                policies.CacheOf(policies.Namespaces(o.Namespace, o.PolicyNamespaces)),
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
	identity, err := o.identity()
	if err != nil {
		return ctrl.Options{}, err
	}
	// The lease of the node: one of several replicas works.
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, o.TenantNamespace, o.NodeName,
		resourcelock.ResourceLockConfig{Identity: identity}, a.config, o.VKLeaseRenewInterval)
	if err != nil {
		return ctrl.Options{}, fmt.Errorf("preparing the lease %s/%s: %w", o.TenantNamespace, o.NodeName, err)
	}
	options.LeaderElection = true
	options.LeaderElectionResourceLockInterface = lock
	options.LeaderElectionReleaseOnCancel = true
	options.LeaseDuration, options.RenewDeadline, options.RetryPeriod = &o.VKLeaseDuration, &o.VKLeaseRenewInterval, &o.VKLeaseRetryPeriod
	return options, nil
}

// stripTemplate removes the Deployment template, which a virtual kubelet does not read.
func stripTemplate(object any) (any, error) {
	vn, ok := object.(*offloadingv1beta1.VirtualNode)
	if !ok {
		return object, nil
	}
	vn.ManagedFields, vn.Spec.Template = nil, nil
	return object, nil
}

// Run works until the context ends or an error needs an administrator: the error says what
// to correct.
func (a *App) Run(ctx context.Context) error {
	if ignored := a.options.WithoutEffect; len(ignored) > 0 {
		ctrl.LoggerFrom(ctx).Info("These arguments have no effect yet", "arguments", ignored)
	}
	group, running := errgroup.WithContext(ctx)
	group.Go(func() error { return a.policies.Run(running) })
	group.Go(func() error { return a.manager.Start(running) })
	err := errors.Join(group.Wait(), a.policies.Close(context.WithoutCancel(ctx)))
	if err != nil {
		return fmt.Errorf("running the virtual kubelet of node %q: %w", a.options.NodeName, err)
	}
	return nil
}

func protobuf(config *rest.Config) *rest.Config {
	c := rest.CopyConfig(config)
	c.ContentType, c.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	return c
}
