package processnode

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/virtual-kubelet/virtual-kubelet/errdefs"
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
	n.provider = &provider{options: &n.options, client: client, config: config, spawn: newSpawner(), pods: map[string]*podWorker{}}
	return n, nil
}

// Ready is closed when the Node is registered and pods are watched.
func (n *Node) Ready() <-chan struct{} { return n.ready }

// Run runs the node until the context ends; then it ends all of its processes.
func (n *Node) Run(ctx context.Context) error {
	ip, release, err := n.options.Address()
	if err != nil {
		return fmt.Errorf("finding an address for node %q: %w", n.options.Name, err)
	}
	defer release()
	n.provider.hostIP = ip
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServing()
	factory := informers.NewSharedInformerFactory(n.client, 0)
	pods := informers.NewSharedInformerFactoryWithOptions(n.client, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", n.options.Name).String()
	}))
	broadcaster := record.NewBroadcaster()
	broadcaster.StartRecordingToSink(&corev1client.EventSinkImpl{Interface: n.client.CoreV1().Events("")})
	defer broadcaster.Shutdown()
	controller, err := node.NewPodController(node.PodControllerConfig{
		PodClient: n.client.CoreV1(), PodInformer: pods.Core().V1().Pods(), Provider: n.provider,
		EventRecorder:     broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "process-node", Host: n.options.Name}),
		ConfigMapInformer: factory.Core().V1().ConfigMaps(), SecretInformer: factory.Core().V1().Secrets(), ServiceInformer: factory.Core().V1().Services(),
		// The provider knows the pod's address, the library does not.
		SkipDownwardAPIResolution: true,
	})
	if err != nil {
		return fmt.Errorf("composing the pod controller of node %q: %w", n.options.Name, err)
	}
	nodes, err := node.NewNodeController(node.NaiveNodeProvider{}, n.object(ip), n.client.CoreV1().Nodes(),
		node.WithNodeEnableLeaseV1(n.client.CoordinationV1().Leases(corev1.NamespaceNodeLease), leaseSeconds))
	if err != nil {
		return fmt.Errorf("composing the node controller of node %q: %w", n.options.Name, err)
	}
	factory.Start(serving.Done())
	pods.Start(serving.Done())
	var running sync.WaitGroup
	errs := make(chan error, 2)
	running.Go(func() { errs <- nodes.Run(serving) })
	running.Go(func() { errs <- controller.Run(serving, workers) })
	go func() {
		if cache.WaitForCacheSync(serving.Done(), pods.Core().V1().Pods().Informer().HasSynced) {
			select {
			case <-nodes.Ready():
				close(n.ready)
			case <-serving.Done():
			}
		}
	}()
	select {
	case <-ctx.Done():
		err = nil
	case err = <-errs:
	}
	n.provider.stopAll()
	stopServing()
	running.Wait()
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("running process node %q: %w", n.options.Name, err)
	}
	return nil
}

func (n *Node) object(ip string) *corev1.Node {
	labels := map[string]string{corev1.LabelHostname: n.options.Name, corev1.LabelOSStable: "linux", "kubernetes.io/role": "agent"}
	for key, value := range n.options.Labels {
		labels[key] = value
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.options.Name, Labels: labels},
		Spec:       corev1.NodeSpec{Taints: n.options.Taints},
		Status: corev1.NodeStatus{
			Capacity: n.options.Capacity, Allocatable: n.options.Capacity,
			Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: ip}},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "ProcessNodeReady", LastTransitionTime: metav1.NewTime(n.options.Clock.Now())}},
		},
	}
}

// provider runs pods for virtual-kubelet's pod controller.
type provider struct {
	options *Options
	client  kubernetes.Interface
	config  *rest.Config
	spawn   *spawner
	hostIP  string

	mu     sync.Mutex
	pods   map[string]*podWorker
	notify func(*corev1.Pod)
}

var (
	_ node.PodLifecycleHandler = (*provider)(nil)
	_ node.PodNotifier         = (*provider)(nil)
)

func key(namespace, name string) string { return namespace + "/" + name }

// NotifyPods implements node.PodNotifier.
func (p *provider) NotifyPods(_ context.Context, notify func(*corev1.Pod)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.notify = notify
}

// CreatePod implements node.PodLifecycleHandler.
func (p *provider) CreatePod(ctx context.Context, pod *corev1.Pod) error {
	ip, release, err := p.options.Address()
	if err != nil {
		return fmt.Errorf("finding an address for pod %s: %w", key(pod.Namespace, pod.Name), err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, running := p.pods[key(pod.Namespace, pod.Name)]; running {
		release()
		return nil
	}
	in := &inputs{
		client: p.client, config: p.config, pod: pod.DeepCopy(), ip: ip, hostIP: p.hostIP,
		dir: filepath.Join(p.options.Dir, string(pod.UID)),
	}
	w := newPodWorker(pod, p.options, p.spawn, in, release, p.notify)
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	w.cancel = cancel
	p.pods[key(pod.Namespace, pod.Name)] = w
	go w.run(life)
	return nil
}

// UpdatePod implements node.PodLifecycleHandler: nothing of a running process can change.
func (p *provider) UpdatePod(context.Context, *corev1.Pod) error { return nil }

// DeletePod implements node.PodLifecycleHandler.
func (p *provider) DeletePod(_ context.Context, pod *corev1.Pod) error {
	p.mu.Lock()
	w, ok := p.pods[key(pod.Namespace, pod.Name)]
	p.mu.Unlock()
	if !ok {
		return errdefs.NotFoundf("pod %s does not run here", key(pod.Namespace, pod.Name))
	}
	w.mu.Lock()
	w.pod.DeletionGracePeriodSeconds = pod.DeletionGracePeriodSeconds
	w.mu.Unlock()
	go func() {
		w.stop()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.pods, key(pod.Namespace, pod.Name))
	}()
	return nil
}

// GetPod implements node.PodLifecycleHandler.
func (p *provider) GetPod(_ context.Context, namespace, name string) (*corev1.Pod, error) {
	p.mu.Lock()
	w, ok := p.pods[key(namespace, name)]
	p.mu.Unlock()
	if !ok {
		return nil, errdefs.NotFoundf("pod %s does not run here", key(namespace, name))
	}
	return w.snapshot(), nil
}

// GetPodStatus implements node.PodLifecycleHandler.
func (p *provider) GetPodStatus(ctx context.Context, namespace, name string) (*corev1.PodStatus, error) {
	pod, err := p.GetPod(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	return &pod.Status, nil
}

// GetPods implements node.PodLifecycleHandler.
func (p *provider) GetPods(context.Context) ([]*corev1.Pod, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	pods := make([]*corev1.Pod, 0, len(p.pods))
	for _, w := range p.pods {
		pods = append(pods, w.snapshot())
	}
	return pods, nil
}

// stopAll ends every process, all at once.
func (p *provider) stopAll() {
	p.mu.Lock()
	var stopping sync.WaitGroup
	for _, w := range p.pods {
		stopping.Go(w.stop)
	}
	p.mu.Unlock()
	stopping.Wait()
}
