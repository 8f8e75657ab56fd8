package kubelet

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/remotecluster"
)

// reasonBrokenKubeconfig is the reason of the event on a VirtualNode whose provider
// cannot be reached for want of a usable kubeconfig.
const reasonBrokenKubeconfig = "BrokenKubeconfig"

// startPoll is how often it is asked whether what the start waits for is there.
const startPoll = 20 * time.Millisecond

// settleTime is how long after its start a virtual kubelet gives back what only starting
// needed.
const settleTime = 10 * time.Second

// sessions knows the running session and whether it should start anew.
type sessions struct {
	changed chan struct{}

	mu      sync.Mutex
	current *session
	// leading is what the election last said.
	leading bool
}

func (s *sessions) set(current *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current = current
	s.tell()
}

// lead passes on what the election says, also to sessions to come.
func (s *sessions) lead(leading bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leading = leading
	s.tell()
}

func (s *sessions) tell() {
	if s.current != nil {
		s.current.engine.Lead(s.leading)
	}
}

func (s *sessions) get() *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// policiesChanged makes the running session decide everything again.
func (s *sessions) policiesChanged() {
	if current := s.get(); current != nil {
		current.engine.PoliciesChanged()
	}
}

// lookAgain asks for a look at the Secret.
func (s *sessions) lookAgain() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// serve is what the leader does: one session after the other.
func (a *App) serve(ctx context.Context) error {
	vn, err := a.findVirtualNode(ctx)
	if err != nil {
		return err
	}
	a.situation.set(vn)
	a.peers.set(vn)
	if err := a.followVirtualNodes(ctx); err != nil {
		return err
	}
	config, err := a.readKubeconfig(ctx)
	if err != nil {
		a.warn(ctx, vn, reasonBrokenKubeconfig, err.Error())
		return err
	}
	if err := a.follow(ctx, &corev1.Secret{}, func(any) { a.sessions.lookAgain() }, func(string) {}); err != nil {
		return err
	}
	if a.certificates.run != nil && a.options.CreateNode {
		go a.certificates.run(ctx)
	}
	// Starting leaves free heap behind, which the runtime would give back within minutes.
	trim := time.AfterFunc(settleTime, func() {
		a.policies.Trim()
		debug.FreeOSMemory()
	})
	defer trim.Stop()
	defer a.standForElection(ctx)()
	for ctx.Err() == nil {
		if config, err = a.runSession(ctx, config); err != nil {
			return err
		}
	}
	return nil
}

// awaitPolicies waits until the operator's policies are known, or reports false when the
// context ends first: nothing must be decided without them. Node and kubelet API do not
// wait: a lease that ends while modules are compiled would cost the node its pods.
func (a *App) awaitPolicies(ctx context.Context) bool {
	ready := func(context.Context) (bool, error) { return a.policies.Ready() == nil, nil }
	return wait.PollUntilContextCancel(ctx, startPoll, true, ready) == nil
}

// runSession runs a session until the context ends, something fails for good, or the
// Secret holds another kubeconfig, which it returns.
func (a *App) runSession(ctx context.Context, config *rest.Config) (*rest.Config, error) {
	current, err := a.newSession(ctx, config)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- current.run(ctx) }()
	a.sessions.set(current)
	defer a.sessions.set(nil)
	// What changed while the session was being composed.
	current.virtualNodeChanged(a.situation.get())
	for {
		select {
		case err := <-ended:
			return config, err
		case <-a.sessions.changed:
		}
		next := a.nextKubeconfig(ctx, config)
		if next == nil {
			continue
		}
		ctrl.LoggerFrom(ctx).Info("Connecting to the provider anew, since its kubeconfig has changed")
		cancel()
		return next, <-ended
	}
}

// standForElection stands for election until the returned function is called, which gives
// the lease back. The session has ended by then: nobody takes over while this one sends.
func (a *App) standForElection(ctx context.Context) (resign func()) {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		if a.awaitPolicies(ctx) {
			a.election.run(ctx)
		}
	}()
	return func() {
		stop()
		<-done
	}
}

func (a *App) findVirtualNode(ctx context.Context) (*offloadingv1beta1.VirtualNode, error) {
	vn := &offloadingv1beta1.VirtualNode{}
	key := client.ObjectKey{Namespace: a.options.TenantNamespace, Name: a.options.NodeName}
	err := a.direct.Get(ctx, key, vn)
	switch {
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("VirtualNode %s does not exist: --tenant-namespace and --nodename must name one", key)
	case err != nil:
		return nil, fmt.Errorf("reading VirtualNode %s: %w", key, err)
	case string(vn.Spec.ClusterID) != a.options.ForeignClusterID:
		return nil, fmt.Errorf("VirtualNode %s is of cluster %q and --foreign-cluster-id is %q", key, vn.Spec.ClusterID, a.options.ForeignClusterID)
	}
	return vn, nil
}

// followVirtualNodes passes changes of the own VirtualNode on to the Node, and those of all
// to the policies. It returns when all are known.
func (a *App) followVirtualNodes(ctx context.Context) error {
	return a.follow(ctx, &offloadingv1beta1.VirtualNode{}, func(object any) {
		vn, ok := object.(*offloadingv1beta1.VirtualNode)
		if !ok {
			return
		}
		decides := a.peers.set(vn)
		if vn.Name == a.options.NodeName {
			decides = a.situation.set(vn) || decides
			if current := a.sessions.get(); current != nil {
				current.virtualNodeChanged(vn)
			}
		}
		if decides {
			a.sessions.policiesChanged()
		}
	}, func(name string) {
		if a.peers.remove(name) {
			a.sessions.policiesChanged()
		}
	})
}

// follow calls changed with every object of a kind, those that are there first, and gone
// with the names of those that are deleted. It returns once changed has seen the former.
func (a *App) follow(ctx context.Context, object client.Object, changed func(any), gone func(string)) error {
	informer, err := a.manager.GetCache().GetInformer(ctx, object)
	if err != nil {
		return fmt.Errorf("watching %T of the tenant namespace: %w", object, err)
	}
	handler, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: changed, UpdateFunc: func(_, now any) { changed(now) },
		DeleteFunc: func(object any) {
			if key, err := toolscache.DeletionHandlingObjectToName(object); err == nil {
				gone(key.Name)
			}
		},
	})
	if err == nil {
		seen := func(context.Context) (bool, error) { return handler.HasSynced(), nil }
		err = wait.PollUntilContextCancel(ctx, startPoll, true, seen)
	}
	if err != nil {
		return fmt.Errorf("watching %T of the tenant namespace: %w", object, err)
	}
	return nil
}

// readKubeconfig reads the Secret with the provider's kubeconfig; its errors are for the
// person who made the Secret.
func (a *App) readKubeconfig(ctx context.Context) (*rest.Config, error) {
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: a.options.TenantNamespace, Name: a.options.ForeignKubeconfigSecretName}
	err := a.direct.Get(ctx, key, secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("kubeconfig Secret %s does not exist: create it, or correct spec.kubeconfigSecretRef of the VirtualNode", key)
	case err != nil:
		return nil, fmt.Errorf("reading kubeconfig Secret %s: %w", key, err)
	}
	config, err := remotecluster.Config(secret)
	if err != nil {
		return nil, fmt.Errorf("reading the provider's kubeconfig: %w", err)
	}
	if ended, expired := remotecluster.Expired(config, time.Now()); expired {
		return nil, fmt.Errorf("kubeconfig Secret %s: its client certificate ended at %s: renew it", key, ended.Format(time.RFC3339))
	}
	return a.options.limited(config), nil
}

// nextKubeconfig returns the kubeconfig that the Secret holds if it is another one than
// is in use, else nil. One that cannot be used is told and changes nothing: what runs
// goes on with what it has.
func (a *App) nextKubeconfig(ctx context.Context, config *rest.Config) *rest.Config {
	next, err := a.readKubeconfig(ctx)
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		ctrl.LoggerFrom(ctx).Error(err, "The provider's kubeconfig cannot be used any more, the previous one stays in use")
		a.warn(ctx, a.situation.get(), reasonBrokenKubeconfig, err.Error())
		return nil
	case sameConnection(next, config):
		return nil
	}
	return next
}
