package processnode

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"sync"

	"github.com/virtual-kubelet/virtual-kubelet/node"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
)

const (
	leaseSeconds = 40
	workers      = 4
)

// Node is a process node.
type Node struct {
	options  Options
	client   kubernetes.Interface
	provider *provider
	services *serviceProxy
	ready    chan struct{}
}

// New composes a node; nothing runs yet.
func New(options Options) (*Node, error) {
	if err := options.complete(); err != nil {
		return nil, fmt.Errorf("composing process node %q: %w", options.Name, err)
	}
	config := rest.CopyConfig(options.Config)
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("composing process node %q: %w", options.Name, err)
	}
	n := &Node{options: options, client: client, ready: make(chan struct{})}
	n.provider = &provider{options: &n.options, client: client, config: config, pods: map[string]*podWorker{}}
	return n, nil
}

// Ready is closed when the Node is registered and pods are watched.
func (n *Node) Ready() <-chan struct{} { return n.ready }

// Run runs the node until the context ends; then it ends all of its processes. It is
// called once.
func (n *Node) Run(ctx context.Context) error {
	if err := n.run(ctx); err != nil && ctx.Err() == nil {
		return fmt.Errorf("running process node %q: %w", n.options.Name, err)
	}
	return nil
}

func (n *Node) run(ctx context.Context) error {
	ip, release, err := n.options.Address()
	if err != nil {
		return fmt.Errorf("finding an address: %w", err)
	}
	defer release()
	n.provider.hostIP = ip
	broadcaster := record.NewBroadcaster()
	broadcaster.StartRecordingToSink(&corev1client.EventSinkImpl{Interface: n.client.CoreV1().Events("")})
	defer broadcaster.Shutdown()
	n.provider.events = broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "process-node", Host: n.options.Name})
	n.provider.spawn = newSpawner()
	defer n.provider.spawn.close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	pods, controller, err := n.podController(ctx)
	if err != nil {
		return err
	}
	nodes, err := node.NewNodeController(node.NaiveNodeProvider{}, n.object(ip), n.client.CoreV1().Nodes(),
		node.WithNodeEnableLeaseV1(n.client.CoordinationV1().Leases(corev1.NamespaceNodeLease), leaseSeconds))
	if err != nil {
		return fmt.Errorf("composing the node controller: %w", err)
	}
	// Services are there as long as the pods' processes are.
	defer n.serveServices(context.WithoutCancel(ctx))()
	var running sync.WaitGroup
	errs := make(chan error, 2)
	running.Go(func() { errs <- nodes.Run(ctx) })
	running.Go(func() { errs <- controller.Run(ctx, workers) })
	running.Go(func() {
		if !cache.WaitForCacheSync(ctx.Done(), pods) {
			return
		}
		select {
		case <-nodes.Ready():
			close(n.ready)
		case <-ctx.Done():
		}
	})
	select {
	case <-ctx.Done():
	case err = <-errs:
	}
	// First nothing new starts, then what runs is ended.
	cancel()
	running.Wait()
	n.provider.stopAll()
	return err
}

// serveServices plays the Services until stop is called.
func (n *Node) serveServices(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var serving sync.WaitGroup
	serving.Go(func() { n.services.run(ctx) })
	return func() {
		cancel()
		serving.Wait()
	}
}

// podController composes virtual-kubelet's controller over informers that are started,
// and returns when the pods of this node are known.
func (n *Node) podController(ctx context.Context) (cache.InformerSynced, *node.PodController, error) {
	factory := informers.NewSharedInformerFactory(n.client, 0)
	ours := informers.NewSharedInformerFactoryWithOptions(n.client, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", n.options.Name).String()
	}))
	pods, services := ours.Core().V1().Pods(), factory.Core().V1().Services()
	configMaps, secrets := factory.Core().V1().ConfigMaps(), factory.Core().V1().Secrets()
	n.provider.lister = pods.Lister()
	n.services = newServiceProxy(services.Lister(), pods.Lister(), n.provider.events, n.options.Clock)
	controller, err := node.NewPodController(node.PodControllerConfig{
		PodClient: n.client.CoreV1(), PodInformer: pods, Provider: n.provider, EventRecorder: n.provider.events,
		ConfigMapInformer: configMaps, SecretInformer: secrets, ServiceInformer: services,
		// The provider knows the pod's address, the library does not.
		SkipDownwardAPIResolution: true,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("composing the pod controller: %w", err)
	}
	for kind, watched := range map[string]struct {
		informer cache.SharedIndexInformer
		handler  cache.ResourceEventHandler
	}{
		kindConfigMap: {configMaps.Informer(), n.provider.sourceChanged(kindConfigMap)},
		kindSecret:    {secrets.Informer(), n.provider.sourceChanged(kindSecret)},
		"Service":     {services.Informer(), n.services.handler()},
		"Pod":         {pods.Informer(), n.services.handler()},
	} {
		if _, err := watched.informer.AddEventHandler(watched.handler); err != nil {
			return nil, nil, fmt.Errorf("watching every %s: %w", kind, err)
		}
	}
	factory.StartWithContext(ctx)
	ours.StartWithContext(ctx)
	return pods.Informer().HasSynced, controller, nil
}

func (n *Node) object(ip string) *corev1.Node {
	labels := map[string]string{
		corev1.LabelHostname: n.options.Name, corev1.LabelOSStable: runtime.GOOS, corev1.LabelArchStable: runtime.GOARCH,
		"kubernetes.io/role": "agent",
	}
	maps.Copy(labels, n.options.Labels)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.options.Name, Labels: labels},
		Spec:       corev1.NodeSpec{Taints: n.options.Taints},
		Status: corev1.NodeStatus{
			Capacity: n.options.Capacity, Allocatable: n.options.Capacity,
			Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: ip}, {Type: corev1.NodeHostName, Address: n.options.Name}},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "ProcessNodeReady", LastTransitionTime: metav1.NewTime(n.options.Clock.Now())}},
			NodeInfo:   corev1.NodeSystemInfo{OperatingSystem: runtime.GOOS, Architecture: runtime.GOARCH, ContainerRuntimeVersion: "process://local"},
		},
	}
}
