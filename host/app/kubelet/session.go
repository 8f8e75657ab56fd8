package kubelet

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clientevents "k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	kubeletapi "github.com/longshore-dev/longshore/host/consumer/kubelet"
	"github.com/longshore-dev/longshore/host/consumer/link"
	"github.com/longshore-dev/longshore/host/consumer/node"
	"github.com/longshore-dev/longshore/host/consumer/reflection/custom"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/consumer/reflection/event"
	"github.com/longshore-dev/longshore/host/consumer/reflection/mirror"
	"github.com/longshore-dev/longshore/host/consumer/reflection/persistentvolumeclaim"
	"github.com/longshore-dev/longshore/host/consumer/reflection/pod"
	"github.com/longshore-dev/longshore/host/consumer/reflection/serviceaccount"
	"github.com/longshore-dev/longshore/host/kit/events"
)

const (
	// statusInterval is how often the Node's status is published without a change.
	statusInterval = time.Minute
	// fallbackVersion is the Node's version if the API server's is not known.
	fallbackVersion = "v1.25.0"
	// actionReflect is the action of the reflection's events.
	actionReflect = "Reflect"
)

type runner interface {
	Run(ctx context.Context) error
}

// streamServer is a *kubeletapi.Server.
type streamServer interface {
	Run(ctx, streams context.Context) error
}

// nodeRunner is a *node.Node.
type nodeRunner interface {
	runner
	VirtualNodeChanged(vn *offloadingv1beta1.VirtualNode)
	ForeignClusterChanged(fc *liqocorev1beta1.ForeignCluster)
	Refresh()
}

// session is what uses one connection to the provider.
type session struct {
	engine *engine.Engine
	// custom reflects the kinds of ResourceReflections.
	custom *custom.Follower
	// node and server are nil with --create-node=false: no pods are bound to the node then.
	node   nodeRunner
	server streamServer
	// awaitPolicies waits until policies can be asked, or returns false when the context ends.
	awaitPolicies func(context.Context) bool
}

func (a *App) newSession(ctx context.Context, config *rest.Config) (*session, error) {
	registry := prometheus.NewRegistry()
	a.sessionMetrics.set(registry)
	answers := link.NewAnswers(time.Now)
	config = rest.CopyConfig(config)
	config.Wrap(answers.Of)
	compose := func(definitions ...engine.Definition) (*engine.Engine, error) {
		return a.newEngine(config, registry, definitions...)
	}
	reflector, err := compose(a.definitions()...)
	if err != nil {
		return nil, err
	}
	follower, err := a.newFollower(config, reflector, compose)
	if err != nil {
		return nil, err
	}
	probe, err := rest.UnversionedRESTClientFor(unversioned(config))
	if err != nil {
		return nil, fmt.Errorf("connecting to the provider: %w", err)
	}
	a.link.Connect(func(ctx context.Context) error { return probe.Get().AbsPath("/livez").Do(ctx).Error() }, answers)
	s := &session{engine: reflector, custom: follower, awaitPolicies: a.policies.await}
	if !a.options.CreateNode {
		return s, nil
	}
	if s.node, err = a.newNode(ctx, reflector); err != nil {
		return nil, err
	}
	if s.server, err = a.newServer(reflector, config); err != nil {
		return nil, err
	}
	return s, nil
}

// newEngine composes the reflection of some kinds between the consumer and a provider.
func (a *App) newEngine(config *rest.Config, registry prometheus.Registerer, definitions ...engine.Definition) (*engine.Engine, error) {
	o := a.options
	local, err := engine.NewClient(a.config, a.scheme, definitions...)
	if err != nil {
		return nil, fmt.Errorf("connecting to the consumer: %w", err)
	}
	provider, err := engine.NewClient(config, a.scheme, definitions...)
	if err != nil {
		return nil, fmt.Errorf("connecting to the provider: %w", err)
	}
	reflector, err := engine.New(engine.Options{
		Local: local, Remote: provider, Definitions: definitions,
		HomeClusterID: o.HomeClusterID, ProviderClusterID: o.ForeignClusterID,
		NodeName: o.NodeName, NodeIP: o.NodeIP, TenantNamespace: o.TenantNamespace,
		Filter: a.facts.FilterMetadata, Mutate: a.facts.MutateResource, Registerer: registry, Now: time.Now, ResyncPeriod: o.ResyncPeriod,
		Report:   a.reportReading,
		Recorder: func(component string) engine.Recorder { return recorder{events.New(a.manager, component, time.Now)} },
	})
	if err != nil {
		return nil, fmt.Errorf("composing the reflection: %w", err)
	}
	return reflector, nil
}

// lead passes the result of the election to the reflections.
func (s *session) lead(leads bool) {
	s.engine.Lead(leads)
	s.custom.Lead(leads)
}

// policiesChanged decides all objects again.
func (s *session) policiesChanged() {
	s.engine.PoliciesChanged()
	s.custom.PoliciesChanged()
}

// run runs the session's parts until the context ends or a part fails. Streams of the kubelet
// API go on until the context streams ends. The Node and the kubelet API do not wait for
// policies: the node's lease must be renewed meanwhile.
func (s *session) run(ctx, streams context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if !s.awaitPolicies(ctx) {
			return nil
		}
		if s.node != nil {
			s.node.Refresh()
		}
		reflections, ctx := errgroup.WithContext(ctx)
		reflections.Go(func() error { return s.engine.Run(ctx) })
		reflections.Go(func() error { return s.custom.Run(ctx) })
		return reflections.Wait()
	})
	if s.node != nil {
		group.Go(func() error { return s.node.Run(ctx) })
		group.Go(func() error { return s.server.Run(ctx, streams) })
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("running the session with the provider: %w", err)
	}
	return nil
}

func (s *session) virtualNodeChanged(vn *offloadingv1beta1.VirtualNode) {
	if s.node != nil {
		s.node.VirtualNodeChanged(vn)
	}
}

func (s *session) foreignClusterChanged(fc *liqocorev1beta1.ForeignCluster) {
	if s.node != nil {
		s.node.ForeignClusterChanged(fc)
	}
}

// definitions returns the definitions of the kinds that have workers.
func (a *App) definitions() []engine.Definition {
	o, origin := a.options, a.origin()
	classes := map[string]string{}
	if o.EnableLoadBalancer {
		classes["service"] = o.RemoteRealLoadBalancerClassName
	}
	if o.EnableIngress {
		classes["ingress"] = o.RemoteRealIngressClassName
	}
	var definitions []engine.Definition
	if workers := o.ReflectionWorkers["pod"]; workers > 0 {
		definitions = append(definitions, pod.New(pod.Options{
			Origin: origin, Evaluator: a.policies, VirtualNode: a.facts.ForPods, APIServer: a.apiServer,
			Workers: workers, DisableIPReflection: o.DisableIPReflection, MapIP: a.addressOfRemotePod,
		}))
	}
	for _, kind := range mirror.Kinds() {
		workers := o.ReflectionWorkers[kind.Name]
		if kind.HasAddresses && o.DisableIPReflection {
			workers = 0
		}
		definitions = append(definitions, kind.Define(mirror.Options{
			Origin: origin, Policy: offloadingv1beta1.ReflectionType(o.ReflectionTypes[kind.PolicyOf]),
			Workers: workers, Class: classes[kind.Name], LocalPods: a.localPods, WithheldTypes: o.SecretTypesNotReflected,
		}))
	}
	if a.sendsTokens() || origin.AudienceTokens {
		definitions = append(definitions, serviceaccount.New(serviceaccount.Options{
			Origin: origin, APIServer: a.apiServer, CreateToken: a.createToken, Workers: o.ReflectionWorkers["serviceaccount"],
		}))
	}
	if workers := o.ReflectionWorkers["persistentvolumeclaim"]; workers > 0 && o.EnableStorage {
		definitions = append(definitions, persistentvolumeclaim.New(persistentvolumeclaim.Options{
			Origin: origin, Class: o.RemoteRealStorageClassName, Workers: workers,
		}))
	}
	if workers := o.ReflectionWorkers["event"]; workers > 0 {
		options := event.Options{
			Origin: origin, Policy: offloadingv1beta1.ReflectionType(o.ReflectionTypes["event"]), Workers: workers, Limits: a.eventLimits,
		}
		definitions = append(definitions, event.New(options))
		if forObjects := event.NewForObjects(options, a.reflectedResources()...); forObjects != nil {
			definitions = append(definitions, forObjects)
		}
	}
	return definitions
}

// reflectedResources returns the names of the resources that are reflected.
func (a *App) reflectedResources() []string {
	var resources []string
	for resource, workers := range a.options.ReflectionWorkers {
		if workers > 0 && (resource != "persistentvolumeclaim" || a.options.EnableStorage) {
			resources = append(resources, resource)
		}
	}
	return resources
}

// createToken requests a token of a service account.
func (a *App) createToken(ctx context.Context, namespace, account string, request *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
	return a.clientset.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account, request, metav1.CreateOptions{}) //nolint:wrapcheck // the definition wraps it
}

func (a *App) newNode(ctx context.Context, reflector *engine.Engine) (*node.Node, error) {
	watcher, err := a.newWatcher()
	if err != nil {
		return nil, err
	}
	o := a.options
	n, err := node.New(node.Options{
		Nodes: a.clientset.CoreV1().Nodes(), Leases: a.clientset.CoordinationV1().Leases(corev1.NamespaceNodeLease), Local: watcher,
		CheckProvider: a.link.Check, VirtualNode: a.facts.VirtualNode(), Now: time.Now,
		NodeIP: o.NodeIP, KubeletPort: int32(o.ListenPort), KubeletVersion: a.serverVersion(ctx),
		ExtraLabels: o.NodeExtraLabels, ExtraAnnotations: o.NodeExtraAnnotations,
		CheckNetwork: o.NodeCheckNetwork, NotReady: a.policies.notReady, LeaseDuration: o.NodeLeaseDuration,
		PingInterval: o.NodePingInterval, PingTimeout: o.NodePingTimeout, StatusInterval: statusInterval,
		OnPing: a.setReachable, OnOutage: func(outage bool) { reflector.Reachable(!outage) }, Report: a.report,
	})
	if err != nil {
		return nil, fmt.Errorf("composing the node: %w", err)
	}
	n.ForeignClusterChanged(a.currentForeignCluster())
	return n, nil
}

func (a *App) setReachable(reachable bool) {
	value := 0.
	if reachable {
		value = 1
	}
	a.reachable.Set(value)
}

// newWatcher returns a client for Nodes. Its mapper needs no discovery.
func (a *App) newWatcher() (client.WithWatch, error) {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	watcher, err := client.NewWithWatch(a.config, client.Options{Scheme: a.scheme, Mapper: mapper})
	if err != nil {
		return nil, fmt.Errorf("connecting to the consumer: %w", err)
	}
	return watcher, nil
}

// serverVersion returns the version of the consumer's API server.
func (a *App) serverVersion(ctx context.Context) string {
	version, err := a.clientset.Discovery().ServerVersion()
	if err == nil {
		return version.GitVersion
	}
	ctrl.LoggerFrom(ctx).Error(err, "Reading the API server's version failed", "fallback", fallbackVersion)
	return fallbackVersion
}

func (a *App) newServer(reflector *engine.Engine, config *rest.Config) (*kubeletapi.Server, error) {
	guard, err := kubeletapi.NewGuard(kubeletapi.GuardOptions{
		NodeName: a.options.NodeName, Authorities: kubeletapi.ClientAuthorities(a.options.KubeletClientCAFile, a.clientset), Now: time.Now,
		Tokens: a.clientset.AuthenticationV1().TokenReviews(), Access: a.clientset.AuthorizationV1().SubjectAccessReviews(),
	})
	if err != nil {
		return nil, fmt.Errorf("composing the kubelet API: %w", err)
	}
	provider, err := kubeletapi.NewProvider(kubeletapi.ProviderOptions{
		Config: config, NodeName: a.options.NodeName, HomeClusterID: a.options.HomeClusterID, ForeignClusterID: a.options.ForeignClusterID, Now: time.Now,
	})
	if err != nil {
		return nil, fmt.Errorf("composing the kubelet API: %w", err)
	}
	server, err := kubeletapi.New(kubeletapi.Options{
		Address: a.options.NodeIP, Port: a.options.ListenPort, Certificate: a.certificate,
		Guard: guard, Pods: cachedPods{reflector}, Provider: provider,
	})
	if err != nil {
		return nil, fmt.Errorf("composing the kubelet API: %w", err)
	}
	return server, nil
}

// cachedPods are the pods in the cache of the reflection.
type cachedPods struct{ engine *engine.Engine }

// Pods implements kubeletapi.Pods.
func (p cachedPods) Pods() []*corev1.Pod {
	var pods []*corev1.Pod
	for _, object := range p.engine.Local("pod") {
		if pod, ok := object.(*corev1.Pod); ok {
			pods = append(pods, pod)
		}
	}
	return pods
}

// Remote implements kubeletapi.Pods.
func (p cachedPods) Remote(namespace, name string) (string, bool) {
	if p.engine.LocalObject("pod", namespace, name) == nil {
		return "", false
	}
	return p.engine.RemoteNamespace(namespace)
}

// recorder is an engine.Recorder that records events through the manager.
type recorder struct{ events clientevents.EventRecorder }

// Event implements engine.Recorder.
func (r recorder) Event(object runtime.Object, eventType, reason, message string) {
	r.events.Eventf(object, nil, eventType, reason, actionReflect, "%s", message)
}

// sessionCollector collects the metrics of the current session. A metric can be registered
// only once, and sessions follow each other; their counters start at zero, which Prometheus
// treats as a restart.
type sessionCollector struct {
	current atomic.Pointer[prometheus.Registry]
}

func (c *sessionCollector) set(registry *prometheus.Registry) { c.current.Store(registry) }

// Describe implements prometheus.Collector. It describes nothing: the metrics are not known in
// advance.
func (c *sessionCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c *sessionCollector) Collect(metrics chan<- prometheus.Metric) {
	if registry := c.current.Load(); registry != nil {
		registry.Collect(metrics)
	}
}

func unversioned(config *rest.Config) *rest.Config {
	c := rest.CopyConfig(config)
	c.NegotiatedSerializer = clientgoscheme.Codecs.WithoutConversion()
	return c
}
