package kubelet

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/node"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/consumer/reflection/mirror"
	"github.com/longshore-dev/longshore/host/consumer/reflection/pod"
	"github.com/longshore-dev/longshore/host/forge/remote"
	"github.com/longshore-dev/longshore/host/kit/events"
)

const (
	statusInterval = time.Minute
	// fallbackVersion is announced when the API server does not tell its own (5.4).
	fallbackVersion = "v1.25.0"
)

// runner runs until the context ends.
type runner interface {
	Run(ctx context.Context) error
}

// nodeKeeper is a *node.Node.
type nodeKeeper interface {
	runner
	VirtualNodeChanged(vn *offloadingv1beta1.VirtualNode)
}

// session is everything that needs the provider.
type session struct {
	engine *engine.Engine
	// node and server are nil with --create-node=false: no pod comes.
	node   nodeKeeper
	server runner
	// awaitPolicies returns when policies can be asked, or with false when the context ends.
	awaitPolicies func(context.Context) bool
}

func (a *App) newSession(ctx context.Context, config *rest.Config) (*session, error) {
	definitions := a.definitions()
	local, err := engine.NewClient(a.home, a.scheme, definitions...)
	if err != nil {
		return nil, fmt.Errorf("connecting to the consumer: %w", err)
	}
	there, err := engine.NewClient(config, a.scheme, definitions...)
	if err != nil {
		return nil, fmt.Errorf("connecting to the provider: %w", err)
	}
	reflector, err := engine.New(engine.Options{
		Local: local, Remote: there, Definitions: definitions,
		HomeClusterID: a.options.HomeClusterID, ProviderClusterID: a.options.ForeignClusterID,
		NodeName: a.options.NodeName, NodeIP: a.options.NodeIP, TenantNamespace: a.options.TenantNamespace,
		Filter: a.filter, Mutate: a.mutate, Registerer: a.sessionRegistry(), Now: time.Now, ResyncPeriod: a.options.ResyncPeriod,
		Recorder: func(component string) engine.Recorder { return recorder{events.New(a.manager, component)} },
	})
	if err != nil {
		return nil, fmt.Errorf("composing the reflection: %w", err)
	}
	asked, err := rest.UnversionedRESTClientFor(unversioned(config))
	if err != nil {
		return nil, fmt.Errorf("connecting to the provider: %w", err)
	}
	a.link.connect(func(ctx context.Context) error { return asked.Get().AbsPath("/livez").Do(ctx).Error() })
	s := &session{engine: reflector, awaitPolicies: a.awaitPolicies}
	if !a.options.CreateNode {
		return s, nil
	}
	if s.node, err = a.newNode(ctx, reflector); err != nil {
		return nil, err
	}
	if s.server, err = a.newServer(a.clientset, reflector, config); err != nil {
		return nil, err
	}
	return s, nil
}

// sessionRegistry takes the metrics of one session, in place of those of the last.
func (a *App) sessionRegistry() prometheus.Registerer {
	fresh := prometheus.NewRegistry()
	a.reflectionMetrics.set(fresh)
	return fresh
}

// run runs the session's parts until the context ends or one of them fails.
func (s *session) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if !s.awaitPolicies(ctx) {
			return nil
		}
		return s.engine.Run(ctx)
	})
	if s.node != nil {
		group.Go(func() error { return s.node.Run(ctx) })
		group.Go(func() error { return s.server.Run(ctx) })
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("working with the provider: %w", err)
	}
	return nil
}

func (s *session) virtualNodeChanged(vn *offloadingv1beta1.VirtualNode) {
	if s.node != nil {
		s.node.VirtualNodeChanged(vn)
	}
}

// definitions returns the kinds that are reflected: those with workers.
func (a *App) definitions() []engine.Definition {
	o := &a.options
	origin := remote.Origin{HomeClusterID: o.HomeClusterID, ProviderClusterID: o.ForeignClusterID, NodeName: o.NodeName}
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
			Origin: origin, Evaluator: a.policies.Chains(), VirtualNode: a.facts,
			Workers: workers, DisableIPReflection: o.DisableIPReflection,
		}))
	}
	for _, kind := range mirror.Kinds() {
		if workers := o.ReflectionWorkers[kind.Name]; workers > 0 {
			definitions = append(definitions, kind.Define(mirror.Options{
				Origin: origin, Policy: offloadingv1beta1.ReflectionType(o.ReflectionTypes[kind.Name]),
				Workers: workers, Class: classes[kind.Name],
			}))
		}
	}
	return definitions
}

func (a *App) newNode(ctx context.Context, reflector *engine.Engine) (*node.Node, error) {
	watcher, err := a.clusterWatcher()
	if err != nil {
		return nil, err
	}
	n, err := node.New(node.Options{
		Nodes: a.clientset.CoreV1().Nodes(), Leases: a.clientset.CoordinationV1().Leases(corev1.NamespaceNodeLease), Local: watcher,
		RemoteHealth: a.link.health,
		VirtualNode:  a.situation.get(), Now: time.Now,
		NodeIP: a.options.NodeIP, KubeletPort: int32(a.options.ListenPort),
		KubeletVersion: a.serverVersion(ctx),
		ExtraLabels:    a.options.NodeExtraLabels, ExtraAnnotations: a.options.NodeExtraAnnotations,
		CheckNetwork: a.options.NodeCheckNetwork, LeaseDuration: a.options.NodeLeaseDuration,
		PingInterval: a.options.NodePingInterval, PingTimeout: a.options.NodePingTimeout, StatusInterval: statusInterval,
		Reachable: a.setUp, Tell: a.tell, Unreachable: func(down bool) { reflector.Reachable(!down) },
	})
	if err != nil {
		return nil, fmt.Errorf("composing the node: %w", err)
	}
	return n, nil
}

func (a *App) setUp(up bool) {
	if up {
		a.up.Set(1)
		return
	}
	a.up.Set(0)
}

// clusterWatcher watches the two cluster-scoped kinds that a Node depends on, without
// asking the server for its resources.
func (a *App) clusterWatcher() (client.WithWatch, error) {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	mapper.Add(liqocorev1beta1.GroupVersion.WithKind("ForeignCluster"), meta.RESTScopeRoot)
	watcher, err := client.NewWithWatch(a.home, client.Options{Scheme: a.scheme, Mapper: mapper})
	if err != nil {
		return nil, fmt.Errorf("connecting to the consumer: %w", err)
	}
	return watcher, nil
}

// serverVersion is the version of the consumer's API server, which the Node announces.
func (a *App) serverVersion(ctx context.Context) string {
	version, err := a.clientset.Discovery().ServerVersion()
	if err == nil {
		return version.GitVersion
	}
	ctrl.LoggerFrom(ctx).Error(err, "The API server does not tell its version", "announced", fallbackVersion)
	return fallbackVersion
}

func protobuf(config *rest.Config) *rest.Config {
	c := rest.CopyConfig(config)
	c.ContentType, c.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	return c
}

func unversioned(config *rest.Config) *rest.Config {
	c := rest.CopyConfig(config)
	c.NegotiatedSerializer = clientgoscheme.Codecs.WithoutConversion()
	return c
}
