// Package node: Pod flow, stage 2: maintains the Node of a virtual node in the consumer. The
// scheduler sees the provider only through it: capacity, labels, taints, conditions, and a
// lease that expires when the provider does not answer.
//
// host/forge/local computes the desired Node from the VirtualNode and, if the network is
// checked, the ForeignCluster. virtual-kubelet's node controller registers the Node and sends
// lease and heartbeats. This package restores taints, conditions and fields that other clients change,
// which that controller does not.
package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	vknode "github.com/virtual-kubelet/virtual-kubelet/node"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/local"
	"github.com/longshore-dev/longshore/host/kit/retry"
)

const (
	// registerRetry is how soon a failed registration is tried again.
	registerRetry = 2 * time.Second
	// publishDelay lets the node controller record a ping that succeeded again before the
	// status is published.
	publishDelay = 500 * time.Millisecond
)

// Options configure a [Node]. All fields up to Now are required.
type Options struct {
	// Nodes and Leases are clients of the consumer; leases are in kube-node-lease.
	Nodes  corev1client.NodeInterface
	Leases coordinationv1client.LeaseInterface
	// Local watches the Node.
	Local client.WithWatch
	// CheckProvider returns an error if the provider's API server does not answer.
	CheckProvider func(context.Context) error
	// VirtualNode is the VirtualNode at the start of the virtual kubelet.
	VirtualNode *offloadingv1beta1.VirtualNode
	Now         func() time.Time

	// NodeIP, KubeletPort, KubeletVersion, ExtraLabels and ExtraAnnotations are those of
	// local.NodeInput.
	NodeIP                        string
	KubeletPort                   int32
	KubeletVersion                string
	ExtraLabels, ExtraAnnotations map[string]string
	// CheckNetwork makes the Node's readiness depend on the network.
	CheckNetwork bool
	// NotReady returns why the virtual kubelet cannot run pods yet, and nil when it can. A Node
	// that was ready before stays ready, so that a restart does not affect its pods. A change
	// is followed by a call of Refresh. Optional.
	NotReady func() *local.NotReady
	// LeaseDuration is that of the Node's lease, which is renewed four times as often.
	LeaseDuration time.Duration
	// PingInterval and PingTimeout apply to CheckProvider; an interval of zero disables it.
	PingInterval, PingTimeout time.Duration
	// StatusInterval is how often an unchanged status is published.
	StatusInterval time.Duration
	// OnPing is called with the result of each ping. Optional.
	OnPing func(reachable bool)
	// OnOutage is called with true when the provider has not answered for half of
	// LeaseDuration, counted from New at first, before the consumer marks the Node, and with
	// false after each answer. Optional.
	OnOutage func(outage bool)
	// Report records an event on the VirtualNode. The context may have ended. Optional.
	Report func(ctx context.Context, vn *offloadingv1beta1.VirtualNode, reason Reason, message string)
}

// Node maintains one Node. It is safe for concurrent use.
type Node struct {
	options Options
	// changed and refreshed have an event each until it is handled.
	changed, refreshed chan struct{}

	mu             sync.Mutex
	virtualNode    *offloadingv1beta1.VirtualNode
	foreignCluster *liqocorev1beta1.ForeignCluster
	// server is the Node of the API server, published the one sent last, and registered the
	// one registered last until it was published too.
	server, published, registered *corev1.Node
	pingError                     error
	pinged                        bool
	// answeredAt is when the provider answered last, or when this Node was composed.
	answeredAt time.Time
	reports    map[Reason]lastReport
}

// New returns a Node that sends nothing before Run.
func New(options Options) (*Node, error) {
	switch {
	case options.Nodes == nil || options.Leases == nil || options.Local == nil || options.CheckProvider == nil:
		return nil, errors.New("composing a node: Nodes, Leases, Local and CheckProvider are required")
	case options.VirtualNode == nil || options.Now == nil:
		return nil, errors.New("composing a node: VirtualNode and Now are required")
	case options.LeaseDuration < 4*time.Second:
		return nil, fmt.Errorf("composing a node: lease duration %s is too short: at least 4s, because the lease is renewed in whole seconds, four times as often", options.LeaseDuration)
	}
	return &Node{
		options: options, virtualNode: options.VirtualNode, reports: map[Reason]lastReport{}, answeredAt: options.Now(),
		changed: make(chan struct{}, 1), refreshed: make(chan struct{}, 1),
	}, nil
}

// VirtualNodeChanged updates the Node to a changed VirtualNode.
func (n *Node) VirtualNodeChanged(vn *offloadingv1beta1.VirtualNode) {
	n.mu.Lock()
	n.virtualNode = vn
	n.mu.Unlock()
	n.wake()
}

// ForeignClusterChanged updates the Node to a changed ForeignCluster of the provider, nil for none. It is
// called before Run, too, if there is one.
func (n *Node) ForeignClusterChanged(fc *liqocorev1beta1.ForeignCluster) {
	n.mu.Lock()
	n.foreignCluster = fc
	n.mu.Unlock()
	n.wake()
}

// Refresh publishes the Node at once if the desired one has changed.
func (n *Node) Refresh() { signal(n.refreshed) }

// wake publishes the Node after publishDelay if the desired one has changed.
func (n *Node) wake() { signal(n.changed) }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (n *Node) name() string { return n.options.VirtualNode.Name }

// Run maintains the Node until the context ends. It does not delete it: the controller of
// VirtualNodes drains and deletes the Node.
func (n *Node) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	if err := n.checkOwner(ctx); err != nil {
		return err
	}
	n.watchNode(ctx, &group)
	for ctx.Err() == nil {
		tried, err := n.register(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if apierrors.IsInvalid(err) {
			n.reportRefused(ctx, err)
			n.awaitChange(ctx, tried)
			continue
		}
		if apierrors.IsForbidden(err) && n.awaitCreation(ctx) {
			continue
		}
		logr.FromContextOrDiscard(ctx).Error(err, "Registering the node failed, retrying", "node", n.name())
		retry.Pause(ctx, registerRetry)
	}
	return nil
}

// awaitCreation waits until the manager has created the Node, which a virtual kubelet has no
// right to do, and reports whether it had to wait.
func (n *Node) awaitCreation(ctx context.Context) (waited bool) {
	for {
		n.mu.Lock()
		exists := n.server != nil
		n.mu.Unlock()
		if exists {
			return waited
		}
		if !waited {
			logr.FromContextOrDiscard(ctx).Info("Waiting for the manager to create the node", "node", n.name())
		}
		waited = true
		select {
		case <-ctx.Done():
			return waited
		case <-n.changed:
		}
	}
}

// checkOwner returns an error if the Node exists and is a real node or that of another
// provider: the node controller would overwrite it.
func (n *Node) checkOwner(ctx context.Context) error {
	for {
		node, err := n.options.Nodes.Get(ctx, n.name(), metav1.GetOptions{})
		switch {
		case ctx.Err() != nil || apierrors.IsNotFound(err):
			return nil
		case err != nil:
			logr.FromContextOrDiscard(ctx).Error(err, "Reading the node failed, retrying", "node", n.name())
			retry.Pause(ctx, registerRetry)
			continue
		}
		provider := string(n.options.VirtualNode.Spec.ClusterID)
		if node.Labels[offloadingv1beta1.NodeTypeLabel] != offloadingv1beta1.NodeTypeVirtual ||
			node.Labels[liqocorev1beta1.RemoteClusterIDLabel] != provider {
			return fmt.Errorf("node %q exists and is not a virtual node of cluster %q: give the VirtualNode another name", n.name(), provider)
		}
		n.mu.Lock()
		n.server = node
		n.mu.Unlock()
		return nil
	}
}

// register runs virtual-kubelet's node controller after the provider has answered: the
// controller gives up when its first ping fails. It returns the Node that it tried to
// register.
func (n *Node) register(ctx context.Context) (*corev1.Node, error) {
	for n.options.PingInterval > 0 && n.Ping(ctx) != nil {
		if !retry.Pause(ctx, n.options.PingInterval) {
			return nil, nil
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	desired := n.desired()
	tried := desired.DeepCopy()
	controller, err := vknode.NewNodeController(&notifier{node: n, group: &group}, desired, n.options.Nodes, n.controllerOptions()...)
	if err != nil {
		return nil, fmt.Errorf("building the node controller: %w", err)
	}
	n.setRegistered(desired)
	logr.FromContextOrDiscard(ctx).Info("Maintaining the node", "node", n.name())
	if err := controller.Run(withLogger(ctx)); err != nil {
		return tried, fmt.Errorf("running the node controller: %w", err)
	}
	return tried, nil
}

func (n *Node) controllerOptions() []vknode.NodeControllerOpt {
	options := []vknode.NodeControllerOpt{
		vknode.WithNodeEnableLeaseV1(n.options.Leases, int32(n.options.LeaseDuration/time.Second)),
		vknode.WithNodeStatusUpdateInterval(n.options.StatusInterval),
		vknode.WithNodeStatusUpdateErrorHandler(n.recreate),
	}
	if n.options.PingInterval > 0 {
		options = append(options, vknode.WithNodePingInterval(n.options.PingInterval))
	}
	if n.options.PingTimeout > 0 {
		// Ping ends in time itself. The library would take an answer that comes with its own deadline for none.
		options = append(options, vknode.WithNodePingTimeout(2*n.options.PingTimeout))
	}
	return options
}

// recreate creates a Node that was deleted. If the manager creates Nodes, the Node
// is published when it exists again.
func (n *Node) recreate(ctx context.Context, cause error) error {
	log := logr.FromContextOrDiscard(ctx)
	if !apierrors.IsNotFound(cause) {
		switch {
		case apierrors.IsInvalid(cause):
			n.reportRefused(ctx, cause)
		case ctx.Err() == nil:
			log.Error(cause, "Publishing the node's status failed, the next heartbeat retries", "node", n.name())
		}
		return cause
	}
	log.Info("Creating the node again after it was deleted", "node", n.name())
	if _, err := n.options.Nodes.Create(ctx, n.desired(), metav1.CreateOptions{}); apierrors.IsForbidden(err) {
		return cause
	} else if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating the node again: %w", err)
	}
	return nil
}

// desired returns the desired Node.
func (n *Node) desired() *corev1.Node {
	n.mu.Lock()
	defer n.mu.Unlock()
	previous := n.published
	if previous == nil {
		previous = n.server
	}
	input := local.NodeInput{
		VirtualNode: n.virtualNode,
		ExtraLabels: n.options.ExtraLabels, ExtraAnnotations: n.options.ExtraAnnotations,
		NodeIP: n.options.NodeIP, KubeletPort: n.options.KubeletPort, KubeletVersion: n.options.KubeletVersion,
		Network: n.network(), Now: n.options.Now(),
	}
	if previous != nil {
		input.Previous = previous.Status.Conditions
	}
	if n.server != nil {
		input.Current = n.server.Status.Conditions
	}
	if n.options.NotReady != nil && (previous == nil || readyStatus(previous) != corev1.ConditionTrue) {
		input.NotReady = n.options.NotReady()
	}
	return local.Node(input)
}

// network evaluates the ForeignCluster. If its status reports no enabled network
// module, the Node's readiness does not depend on the network.
func (n *Node) network() local.Network {
	fc := n.foreignCluster
	switch {
	case !n.options.CheckNetwork:
		return local.NetworkUnchecked
	case fc == nil:
		return local.NetworkDown
	case !fc.Status.Modules.Networking.Enabled:
		return local.NetworkUnchecked
	}
	if statusOf(fc.Status.Modules.Networking.Conditions, liqocorev1beta1.NetworkConnectionStatusCondition) == liqocorev1beta1.ConditionStatusEstablished {
		return local.NetworkUp
	}
	return local.NetworkDown
}

func (n *Node) setPublished(node *corev1.Node) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.published = node
}

func (n *Node) setRegistered(node *corev1.Node) {
	n.mu.Lock()
	n.published, n.registered = node, node
	n.mu.Unlock()
	n.wake()
}
