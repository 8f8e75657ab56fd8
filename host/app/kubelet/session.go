package kubelet

import (
	"context"
	"errors"
	"fmt"
	"net"
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
	// fallbackVersion is the Node's version if the API server's is not known (wire 5.4).
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

func (v *virtualNode) newSession(ctx context.Context, config *rest.Config, on *connection) (*session, error) {
	registry := prometheus.NewRegistry()
	v.sessionMetrics.set(registry)
	shared, err := on.readerConfig(config)
	if err != nil {
		return nil, err
	}
	config, shared = on.observed(config), on.observed(shared)
	compose := func(definitions ...engine.Definition) (*engine.Engine, error) {
		return v.newEngine(config, shared, registry, on.informers, definitions...)
	}
	reflector, err := compose(v.definitions()...)
	if err != nil {
		return nil, err
	}
	follower, err := v.newFollower(config, reflector, compose)
	if err != nil {
		return nil, err
	}
	probe, err := rest.UnversionedRESTClientFor(unversioned(config))
	if err != nil {
		return nil, fmt.Errorf("connecting to the provider: %w", err)
	}
	v.link.Connect(func(ctx context.Context) error { return probe.Get().AbsPath("/livez").Do(ctx).Error() }, on.answers)
	s := &session{engine: reflector, custom: follower, awaitPolicies: v.policies.await}
	if !v.options.CreateNode {
		return s, nil
	}
	listener, port, err := v.listen(ctx)
	if err != nil {
		return nil, err
	}
	if s.node, err = v.newNode(ctx, reflector, port); err == nil {
		s.server, err = v.newServer(reflector, config, listener)
	}
	if err != nil && listener != nil {
		err = errors.Join(err, listener.Close())
	}
	return s, err
}

// listen opens a listener of the kubelet API in a shared process, whose virtual nodes have
// different ports. The server of a process with one virtual node listens itself.
func (v *virtualNode) listen(ctx context.Context) (net.Listener, int, error) {
	if v.options.SharedProcess == "" {
		return nil, v.options.ListenPort, nil
	}
	return listenFrom(ctx, v.options.NodeIP, v.options.ListenPort)
}

// newEngine composes the reflection of some kinds between the consumer and a provider. shared is the
// configuration for what sessions read together; informers is nil in a process with one virtual node.
func (v *virtualNode) newEngine(
	config, shared *rest.Config, registry prometheus.Registerer, informers *engine.Informers, definitions ...engine.Definition,
) (*engine.Engine, error) {
	o := v.options
	local, err := engine.NewClient(v.config, v.scheme, definitions...)
	if err != nil {
		return nil, fmt.Errorf("connecting to the consumer: %w", err)
	}
	provider, err := engine.NewClient(config, v.scheme, definitions...)
	if err != nil {
		return nil, fmt.Errorf("connecting to the provider: %w", err)
	}
	reader, err := engine.NewClient(shared, v.scheme, definitions...)
	if err != nil {
		return nil, fmt.Errorf("connecting to the provider: %w", err)
	}
	reflector, err := engine.New(engine.Options{
		Local: local, Remote: provider, Reader: reader, Definitions: definitions,
		HomeClusterID: o.HomeClusterID, ProviderClusterID: o.ForeignClusterID,
		NodeName: o.NodeName, NodeIP: o.NodeIP, TenantNamespace: o.TenantNamespace,
		Filter: v.facts.FilterMetadata, Mutate: v.facts.MutateResource, Registerer: registry, Now: time.Now, ResyncPeriod: o.ResyncPeriod,
		Informers: informers, Report: v.reportTooMuch,
		Recorder: func(component string) engine.Recorder { return recorder{events.New(v.manager, component)} },
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
func (v *virtualNode) definitions() []engine.Definition {
	o, origin := v.options, v.origin()
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
			Origin: origin, Evaluator: v.policies, VirtualNode: v.facts.ForPods, APIServer: v.apiServer,
			Workers: workers, DisableIPReflection: o.DisableIPReflection, MapIP: v.addressOfRemotePod,
		}))
	}
	for _, kind := range mirror.Kinds() {
		workers := o.ReflectionWorkers[kind.Name]
		if kind.HasAddresses && o.DisableIPReflection {
			workers = 0
		}
		definitions = append(definitions, kind.Define(mirror.Options{
			Origin: origin, Policy: offloadingv1beta1.ReflectionType(o.ReflectionTypes[kind.PolicyOf]),
			Workers: workers, Class: classes[kind.Name], LocalPods: v.localPods,
		}))
	}
	if v.sendsTokens() {
		definitions = append(definitions, serviceaccount.New(serviceaccount.Options{
			Origin: origin, APIServer: v.apiServer, CreateToken: v.createToken, Workers: o.ReflectionWorkers["serviceaccount"],
		}))
	}
	if workers := o.ReflectionWorkers["persistentvolumeclaim"]; workers > 0 && o.EnableStorage {
		definitions = append(definitions, persistentvolumeclaim.New(persistentvolumeclaim.Options{
			Origin: origin, Class: o.RemoteRealStorageClassName, Workers: workers,
		}))
	}
	if workers := o.ReflectionWorkers["event"]; workers > 0 {
		options := event.Options{
			Origin: origin, Policy: offloadingv1beta1.ReflectionType(o.ReflectionTypes["event"]), Workers: workers, Limits: v.eventLimits,
		}
		definitions = append(definitions, event.New(options))
		if forObjects := event.NewForObjects(options, v.reflectedResources()...); forObjects != nil {
			definitions = append(definitions, forObjects)
		}
	}
	return definitions
}

// reflectedResources returns the names of the resources that are reflected.
func (v *virtualNode) reflectedResources() []string {
	var resources []string
	for resource, workers := range v.options.ReflectionWorkers {
		if workers > 0 && (resource != "persistentvolumeclaim" || v.options.EnableStorage) {
			resources = append(resources, resource)
		}
	}
	return resources
}

// createToken requests a token of a service account.
func (v *virtualNode) createToken(ctx context.Context, namespace, account string, request *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
	return v.clientset.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account, request, metav1.CreateOptions{}) //nolint:wrapcheck // the definition wraps it
}

func (v *virtualNode) newNode(ctx context.Context, reflector *engine.Engine, port int) (*node.Node, error) {
	watcher, err := v.newWatcher()
	if err != nil {
		return nil, err
	}
	o := v.options
	n, err := node.New(node.Options{
		Nodes: v.clientset.CoreV1().Nodes(), Leases: v.clientset.CoordinationV1().Leases(corev1.NamespaceNodeLease), Local: watcher,
		CheckProvider: v.link.Check, VirtualNode: v.facts.VirtualNode(), Now: time.Now,
		NodeIP: o.NodeIP, KubeletPort: int32(port), KubeletVersion: v.serverVersion(ctx),
		ExtraLabels: o.NodeExtraLabels, ExtraAnnotations: o.NodeExtraAnnotations,
		CheckNetwork: o.NodeCheckNetwork, NotReady: v.policies.notReady, LeaseDuration: o.NodeLeaseDuration,
		PingInterval: o.NodePingInterval, PingTimeout: o.NodePingTimeout, StatusInterval: statusInterval,
		OnPing: v.setReachable, OnOutage: func(outage bool) { reflector.Reachable(!outage) }, Report: v.report,
	})
	if err != nil {
		return nil, fmt.Errorf("composing the node: %w", err)
	}
	n.ForeignClusterChanged(v.currentForeignCluster())
	return n, nil
}

func (v *virtualNode) setReachable(reachable bool) {
	value := 0.
	if reachable {
		value = 1
	}
	v.reachable.Set(value)
}

// newWatcher returns a client for Nodes. Its mapper needs no discovery.
func (v *virtualNode) newWatcher() (client.WithWatch, error) {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	watcher, err := client.NewWithWatch(v.config, client.Options{Scheme: v.scheme, Mapper: mapper})
	if err != nil {
		return nil, fmt.Errorf("connecting to the consumer: %w", err)
	}
	return watcher, nil
}

// serverVersion returns the version of the consumer's API server.
func (v *virtualNode) serverVersion(ctx context.Context) string {
	version, err := v.clientset.Discovery().ServerVersion()
	if err == nil {
		return version.GitVersion
	}
	ctrl.LoggerFrom(ctx).Error(err, "Reading the API server's version failed", "fallback", fallbackVersion)
	return fallbackVersion
}

func (v *virtualNode) newServer(reflector *engine.Engine, config *rest.Config, listener net.Listener) (*kubeletapi.Server, error) {
	guard, err := kubeletapi.NewGuard(kubeletapi.GuardOptions{
		NodeName: v.options.NodeName, Authorities: kubeletapi.ClientAuthorities(v.options.KubeletClientCAFile, v.clientset), Now: time.Now,
		Tokens: v.clientset.AuthenticationV1().TokenReviews(), Access: v.clientset.AuthorizationV1().SubjectAccessReviews(),
	})
	if err != nil {
		return nil, fmt.Errorf("composing the kubelet API: %w", err)
	}
	provider, err := kubeletapi.NewProvider(kubeletapi.ProviderOptions{
		Config: config, NodeName: v.options.NodeName, HomeClusterID: v.options.HomeClusterID, ForeignClusterID: v.options.ForeignClusterID,
	})
	if err != nil {
		return nil, fmt.Errorf("composing the kubelet API: %w", err)
	}
	server, err := kubeletapi.New(kubeletapi.Options{
		Address: v.options.NodeIP, Port: v.options.ListenPort, Listener: listener, Certificate: v.certificate,
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
