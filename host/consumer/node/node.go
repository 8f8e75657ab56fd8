// Package node: Pod flow, stage 2: the Node of a virtual node in the consumer, whose
// shape is all that the scheduler sees of the provider: capacity, labels, taints,
// conditions, and a lease that ends when the provider does not answer.
//
// What the Node is to be is computed by host/forge/local from the VirtualNode and, where
// the network matters, the ForeignCluster. Registration, lease and heartbeats are those
// of virtual-kubelet's node controller; taints and what others changed on the Node,
// which that controller cannot put right, are healed here (T63).
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
	// retryPause is how soon a registration that failed is tried again.
	retryPause = 2 * time.Second
	// recoveryPause lets the node controller note a ping that succeeded again before it
	// is asked to publish.
	recoveryPause = 500 * time.Millisecond
)

// Options are what a [Node] needs. All fields up to Now are required.
type Options struct {
	// Nodes and Leases are clients of the consumer; leases live in kube-node-lease.
	Nodes  corev1client.NodeInterface
	Leases coordinationv1client.LeaseInterface
	// Local watches ForeignClusters and the Node.
	Local client.WithWatch
	// RemoteHealth asks the provider's API server whether it lives.
	RemoteHealth func(context.Context) error
	// VirtualNode as it was when the virtual kubelet started.
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
	// LeaseDuration of the Node; renewed four times as often.
	LeaseDuration time.Duration
	// PingInterval and PingTimeout rule how the provider is looked at; an interval of
	// zero means never.
	PingInterval, PingTimeout time.Duration
	// StatusInterval is how often the status is published although nothing changed.
	StatusInterval time.Duration
	// Reachable is told each time the provider was looked at. Optional.
	Reachable func(bool)
	// Unreachable is called with true once the provider has not answered for half of
	// LeaseDuration, which is before the consumer gives the Node up, and with false each time
	// it answers. Optional.
	Unreachable func(bool)
	// Tell is told what the owner of the VirtualNode must know, each cause once a while.
	// The context may have ended. Optional.
	Tell func(ctx context.Context, vn *offloadingv1beta1.VirtualNode, reason Reason, message string)
}

// Node keeps one Node. Its methods are safe for concurrent use.
type Node struct {
	options Options
	changed chan struct{}

	mu             sync.Mutex
	virtualNode    *offloadingv1beta1.VirtualNode
	foreignCluster *liqocorev1beta1.ForeignCluster
	server         *corev1.Node
	published      *corev1.Node
	unrecorded     *corev1.Node
	pingError      error
	// answered is when the provider answered last.
	answered time.Time
	pinged   bool
	told     map[Reason]telling
}

// New checks the options. Nothing is sent before Run.
func New(options Options) (*Node, error) {
	switch {
	case options.Nodes == nil || options.Leases == nil || options.Local == nil || options.RemoteHealth == nil:
		return nil, errors.New("a node needs clients for nodes, leases and watches, and a way to ask the provider")
	case options.VirtualNode == nil || options.Now == nil:
		return nil, errors.New("a node needs its VirtualNode and a clock")
	case options.LeaseDuration < 4*time.Second:
		return nil, fmt.Errorf("a node's lease of %s is too short: at least 4s, since it is renewed in whole seconds, four times as often", options.LeaseDuration)
	}
	return &Node{
		options: options, virtualNode: options.VirtualNode, changed: make(chan struct{}, 1), told: map[Reason]telling{},
	}, nil
}

// VirtualNodeChanged takes over a new VirtualNode; the Node follows.
func (n *Node) VirtualNodeChanged(vn *offloadingv1beta1.VirtualNode) {
	n.mu.Lock()
	n.virtualNode = vn
	n.mu.Unlock()
	n.wake()
}

func (n *Node) wake() {
	select {
	case n.changed <- struct{}{}:
	default:
	}
}

func (n *Node) name() string { return n.options.VirtualNode.Name }

// Run keeps the Node until the context ends. The Node stays: whoever removes the
// VirtualNode drains and deletes it.
func (n *Node) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	if !n.followForeignCluster(ctx, &group) {
		return nil
	}
	if err := n.claim(ctx); err != nil {
		return err
	}
	n.followNode(ctx, &group)
	for ctx.Err() == nil {
		tried, err := n.register(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if apierrors.IsInvalid(err) {
			n.refused(ctx, err)
			n.untilAnother(ctx, tried)
			continue
		}
		if apierrors.IsForbidden(err) && n.untilCreated(ctx) {
			continue
		}
		logr.FromContextOrDiscard(ctx).Error(err, "Registering the node failed, trying again", "node", n.name())
		retry.Pause(ctx, retryPause)
	}
	return nil
}

// untilCreated waits for the manager to create the Node, which a virtual kubelet has no right
// to do, and reports whether it had to wait.
func (n *Node) untilCreated(ctx context.Context) (waited bool) {
	for {
		n.mu.Lock()
		created := n.server != nil
		n.mu.Unlock()
		if created {
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

// claim refuses a name that is that of a real node, or of another provider's: the node
// controller would turn it into ours.
func (n *Node) claim(ctx context.Context) error {
	for {
		node, err := n.options.Nodes.Get(ctx, n.name(), metav1.GetOptions{})
		switch {
		case ctx.Err() != nil || apierrors.IsNotFound(err):
			return nil
		case err != nil:
			logr.FromContextOrDiscard(ctx).Error(err, "Looking for the node failed, trying again", "node", n.name())
			retry.Pause(ctx, retryPause)
			continue
		}
		provider := string(n.options.VirtualNode.Spec.ClusterID)
		if node.Labels[offloadingv1beta1.NodeTypeLabel] != offloadingv1beta1.NodeTypeVirtual ||
			node.Labels[liqocorev1beta1.RemoteClusterIDLabel] != provider {
			return fmt.Errorf("node %q exists and is no virtual node of cluster %q: give the VirtualNode another name", n.name(), provider)
		}
		n.mu.Lock()
		n.server = node
		n.mu.Unlock()
		return nil
	}
}

// register runs virtual-kubelet's node controller once the provider has answered: its
// first look at the provider must succeed, or it gives up. It returns the Node that it
// tried to register.
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
	n.registering(desired)
	logr.FromContextOrDiscard(ctx).Info("Keeping the node", "node", n.name())
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
		options = append(options, vknode.WithNodePingTimeout(n.options.PingTimeout))
	}
	return options
}

// recreate creates the Node again when somebody deleted it (5.5). Where the manager does it,
// the Node is published when it has appeared.
func (n *Node) recreate(ctx context.Context, cause error) error {
	log := logr.FromContextOrDiscard(ctx)
	if !apierrors.IsNotFound(cause) {
		switch {
		case apierrors.IsInvalid(cause):
			n.refused(ctx, cause)
		case ctx.Err() == nil:
			log.Error(cause, "Publishing the node's status failed, the next heartbeat tries again", "node", n.name())
		}
		return cause
	}
	log.Info("Creating the node again, since it was deleted", "node", n.name())
	if _, err := n.options.Nodes.Create(ctx, n.desired(), metav1.CreateOptions{}); apierrors.IsForbidden(err) {
		return cause
	} else if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating the node again: %w", err)
	}
	return nil
}

// desired is the Node as it is to be now.
func (n *Node) desired() *corev1.Node {
	n.mu.Lock()
	defer n.mu.Unlock()
	var previous []corev1.NodeCondition
	switch {
	case n.published != nil:
		previous = n.published.Status.Conditions
	case n.server != nil:
		previous = n.server.Status.Conditions
	}
	return local.Node(local.NodeInput{
		VirtualNode: n.virtualNode,
		ExtraLabels: n.options.ExtraLabels, ExtraAnnotations: n.options.ExtraAnnotations,
		NodeIP: n.options.NodeIP, KubeletPort: n.options.KubeletPort, KubeletVersion: n.options.KubeletVersion,
		Network: n.network(), Previous: previous, Now: n.options.Now(),
	})
}

// network evaluates the ForeignCluster (5.4). Only a networking module that its status
// reports as enabled counts: without one the Node is ready whatever the network is.
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

// registering notes what the Node is registered with.
func (n *Node) registering(node *corev1.Node) {
	n.mu.Lock()
	n.published, n.unrecorded = node, node
	n.mu.Unlock()
	n.wake()
}
