package kubelet

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/consumer/election"
	kubeletapi "github.com/longshore-dev/longshore/host/consumer/kubelet"
	"github.com/longshore-dev/longshore/host/consumer/link"
	"github.com/longshore-dev/longshore/host/consumer/node"
	"github.com/longshore-dev/longshore/host/consumer/reflection/event"
	"github.com/longshore-dev/longshore/host/consumer/reflection/facts"
	"github.com/longshore-dev/longshore/host/forge/remote"
	"github.com/longshore-dev/longshore/host/kit/events"
	"github.com/longshore-dev/longshore/host/kit/remotecluster"
	"github.com/longshore-dev/longshore/host/kit/restore"
	"github.com/longshore-dev/longshore/host/kit/retry"
	"github.com/longshore-dev/longshore/host/policy/view"
)

const (
	// reasonBrokenKubeconfig is the reason of the event on a VirtualNode whose kubeconfig
	// Secret cannot be used.
	reasonBrokenKubeconfig = "BrokenKubeconfig"
	// reasonTooMuch is the reason of the event on a VirtualNode whose provider sends more than is read or kept.
	reasonTooMuch = "ProviderSendsTooMuch"
	// awsSigner signs the serving certificates of kubelets on EKS.
	awsSigner = "beta.eks.amazonaws.com/app-serving"
	// eventTimeout bounds the requests for one event.
	eventTimeout   = 5 * time.Second
	eventComponent = "virtual-kubelet"
)

// virtualNode runs one VirtualNode: one session after the other, and what outlives them.
type virtualNode struct {
	*shared
	options *Options
	facts   *facts.Facts
	link    *link.Link
	// election is nil in a shared process, which campaigns once for all its virtual nodes.
	election *election.Election
	// certificate returns the serving certificate; keepCertificate renews a signed one and is
	// nil otherwise.
	certificate     func() (*tls.Certificate, error)
	keepCertificate func(context.Context)
	// eventLimits outlive a connection to the provider.
	eventLimits *event.Limits

	reachable      prometheus.Gauge
	sessionMetrics sessionCollector

	kubeconfigChanged chan struct{}

	mu             sync.Mutex
	session        *session
	leading        bool
	foreignCluster *liqocorev1beta1.ForeignCluster // of the provider
	// observations of ResourceReflections are kept in a shared process only.
	observations []policyv1alpha1.ReflectionObservation
}

func newVirtualNode(o *Options, s *shared, registry prometheus.Registerer) (*virtualNode, error) {
	v := &virtualNode{shared: s, options: o, kubeconfigChanged: make(chan struct{}, 1), eventLimits: event.NewLimits()}
	v.facts = facts.New(v.origin(), func() view.Evaluator { return s.policies })
	v.link = link.New(o.NodePingInterval, o.NodePingTimeout, time.Now)
	v.reachable = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "longshore_remote_cluster_up", Help: "Whether the provider's API server can be reached.",
	})
	if err := errors.Join(registry.Register(v.reachable), registry.Register(&v.sessionMetrics)); err != nil {
		return nil, fmt.Errorf("adding the metrics of the provider: %w", err)
	}
	return v, v.addCertificate()
}

func (v *virtualNode) origin() remote.Origin {
	o := v.options
	origin := remote.Origin{HomeClusterID: o.HomeClusterID, ProviderClusterID: o.ForeignClusterID, NodeName: o.NodeName}
	if o.EnableStorage && o.ReflectionWorkers["persistentvolumeclaim"] > 0 {
		origin.VirtualStorageClass = o.VirtualStorageClassName
	}
	return origin
}

func (v *virtualNode) addCertificate() error {
	ip := net.ParseIP(v.options.NodeIP)
	signer := certificatesv1.KubeletServingSignerName
	switch CertificateType(v.options.CertificateType) {
	case CertificateSelfSigned:
		v.certificate = kubeletapi.NewSelfSigned(v.options.NodeName, ip, time.Now).Certificate
		return nil
	case CertificateAWS:
		signer = awsSigner
	case CertificateKubelet:
	}
	signed, err := kubeletapi.NewSigned(v.clientset, signer, v.options.NodeName, ip, time.Now)
	if err != nil {
		return fmt.Errorf("composing the kubelet API: %w", err)
	}
	v.certificate, v.keepCertificate = signed.Certificate, signed.Run
	return nil
}

func (v *virtualNode) addElection() (err error) {
	v.election, err = newElection(v.options, v.config, v.link, v.SetLeading)
	return err
}

// newElection returns the election among the virtual kubelets of the provider.
func newElection(o *Options, config *rest.Config, provider election.Link, onChange func(bool)) (*election.Election, error) {
	options := election.Options{
		LeaseDuration: o.VKLeaseDuration, RenewDeadline: o.VKLeaseRenewInterval, RetryPeriod: o.VKLeaseRetryPeriod,
		Link: provider, OnChange: onChange, Now: time.Now,
	}
	if o.VKLeaseEnabled {
		identity, err := o.identity()
		if err != nil {
			return nil, err
		}
		if options.ElectorLock, err = election.NewLock(protobuf(config), o.TenantNamespace, identity, o.VKLeaseRenewInterval); err != nil {
			return nil, err
		}
		if options.Lock, err = election.NewLock(protobuf(config), o.TenantNamespace, identity, o.VKLeaseRenewInterval); err != nil {
			return nil, err
		}
	}
	return election.New(options)
}

// run runs sessions until the context ends. It is called after the lease of the node was acquired.
func (v *virtualNode) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	vn, err := v.readVirtualNode(ctx)
	if err != nil {
		return err
	}
	v.facts.SetVirtualNode(vn)
	if err := v.watchVirtualNodes(ctx); err != nil {
		return err
	}
	if err := errors.Join(v.watchForeignClusters(ctx), v.watchConfigurations(ctx), v.watchAPIServerIPs(ctx)); err != nil {
		return err
	}
	config, err := v.readKubeconfig(ctx)
	if err != nil {
		v.reportKubeconfig(ctx, vn, err)
		return err
	}
	if err := v.watchKubeconfig(ctx, &group); err != nil {
		return err
	}
	group.Go(func() { v.watchReflections(ctx) })
	if v.keepCertificate != nil && v.options.CreateNode {
		group.Go(func() { v.keepCertificate(ctx) })
	}
	if v.leadership == nil {
		trim := time.AfterFunc(trimDelay, v.policies.Trim)
		defer trim.Stop()
		defer startElection(ctx, v.policies, v.election)()
	} else {
		defer v.leadership.Leave(v)
	}
	for ctx.Err() == nil {
		if config, err = v.runSession(ctx, config); err != nil {
			return err
		}
	}
	return nil
}

// startElection campaigns until the returned function is called, which releases the lease.
// It is called after the last session: the next leader does not send at the same time.
func startElection(ctx context.Context, policies *policyLoader, election *election.Election) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		if policies.await(ctx) {
			election.Run(ctx)
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// runSession runs a session until the context ends, a part fails or the Secret contains
// another kubeconfig, which it returns.
func (v *virtualNode) runSession(ctx context.Context, config *rest.Config) (*rest.Config, error) {
	on := newConnection()
	if v.connections != nil {
		joined, leave, err := v.connections.join(config)
		if err != nil {
			return nil, err
		}
		defer leave()
		on = joined
	}
	current, err := v.newSession(ctx, config, on)
	if err != nil {
		return nil, err
	}
	// A stream may go on over a connection with an earlier kubeconfig.
	streams := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if v.leadership != nil {
		v.leadership.Join(v)
	}
	ended := make(chan error, 1)
	go func() { ended <- current.run(ctx, streams) }()
	v.setSession(current)
	defer v.setSession(nil)
	// The VirtualNode may have changed while the session was composed.
	current.virtualNodeChanged(v.facts.VirtualNode())
	for {
		select {
		case err := <-ended:
			return config, err
		case <-v.kubeconfigChanged:
		}
		next := v.nextKubeconfig(ctx, config)
		if next == nil {
			continue
		}
		ctrl.LoggerFrom(ctx).Info("Reconnecting to the provider after a change of its kubeconfig")
		cancel()
		return next, <-ended
	}
}

func (v *virtualNode) setSession(current *session) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.session = current
	if current != nil {
		current.lead(v.leading)
		current.foreignClusterChanged(v.foreignCluster)
	}
}

func (v *virtualNode) currentSession() *session {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.session
}

// policiesChanged makes the current session ask policies about all objects again.
func (v *virtualNode) policiesChanged() {
	if current := v.currentSession(); current != nil {
		current.policiesChanged()
	}
}

func (v *virtualNode) notifyKubeconfig() {
	select {
	case v.kubeconfigChanged <- struct{}{}:
	default:
	}
}

func (v *virtualNode) readVirtualNode(ctx context.Context) (*offloadingv1beta1.VirtualNode, error) {
	vn := &offloadingv1beta1.VirtualNode{}
	key := client.ObjectKey{Namespace: v.options.TenantNamespace, Name: v.options.NodeName}
	err := v.client.Get(ctx, key, vn)
	switch {
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("VirtualNode %s does not exist: correct --tenant-namespace and --nodename", key)
	case err != nil:
		return nil, fmt.Errorf("reading VirtualNode %s: %w", key, err)
	case string(vn.Spec.ClusterID) != v.options.ForeignClusterID:
		return nil, fmt.Errorf("VirtualNode %s is of cluster %q and --foreign-cluster-id is %q", key, vn.Spec.ClusterID, v.options.ForeignClusterID)
	}
	return vn, nil
}

// watchVirtualNodes passes changes of VirtualNodes to the Node and to the policies. It returns
// after the first list.
func (v *virtualNode) watchVirtualNodes(ctx context.Context) error {
	return watch(ctx, v.manager.GetCache(), &offloadingv1beta1.VirtualNode{}, func(object any) {
		vn, ok := object.(*offloadingv1beta1.VirtualNode)
		if !ok {
			return
		}
		previous := v.facts.VirtualNode()
		hasChanged := v.facts.SetVirtualNode(vn)
		if vn.Name == v.options.NodeName {
			v.ownChanged(previous, vn)
		}
		if hasChanged {
			v.policiesChanged()
		}
	}, func(name string) {
		if v.facts.RemoveVirtualNode(name) {
			v.policiesChanged()
		}
	})
}

// ownChanged follows a change of the virtual kubelet's own VirtualNode. One that was created again owns
// the report of a process of its own, which is deleted with the previous one.
func (v *virtualNode) ownChanged(previous, vn *offloadingv1beta1.VirtualNode) {
	current := v.currentSession()
	if current != nil {
		current.virtualNodeChanged(vn)
	}
	if v.options.SharedProcess != "" || previous == nil || previous.UID == vn.UID {
		return
	}
	v.policies.OwnerReplaced()
	if current != nil {
		current.custom.ReportLost()
	}
}

// watchKubeconfig watches the Secret with the provider's kubeconfig. It returns after the first
// list. The cache is not the manager's: it may read only Secrets that it names.
func (v *virtualNode) watchKubeconfig(ctx context.Context, group *sync.WaitGroup) error {
	o := v.options
	secrets, err := cache.New(v.config, cache.Options{
		HTTPClient: v.manager.GetHTTPClient(), Scheme: v.scheme, Mapper: v.manager.GetRESTMapper(),
		DefaultTransform: cache.TransformStripManagedFields(), NewInformer: restore.NewInformer,
		ByObject: map[client.Object]cache.ByObject{&corev1.Secret{}: {Namespaces: map[string]cache.Config{
			o.TenantNamespace: {FieldSelector: fields.OneTermEqualSelector("metadata.name", o.ForeignKubeconfigSecretName)},
		}}},
	})
	if err != nil {
		return fmt.Errorf("composing the cache of kubeconfig Secrets: %w", err)
	}
	group.Go(func() {
		if err := secrets.Start(ctx); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Watching the kubeconfig Secret failed")
		}
	})
	return watch(ctx, secrets, &corev1.Secret{}, func(any) { v.notifyKubeconfig() }, func(string) {})
}

// watch calls changed with each object of a kind and deleted with the names of deleted ones, until
// the context ends. It returns after changed was called for the first list.
func watch(ctx context.Context, objects cache.Cache, object client.Object, changed func(any), deleted func(string)) error {
	informer, err := objects.GetInformer(ctx, object)
	if err != nil {
		return fmt.Errorf("watching %T of the tenant namespace: %w", object, err)
	}
	handler, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: changed, UpdateFunc: func(_, current any) { changed(current) },
		DeleteFunc: func(object any) {
			if key, err := toolscache.DeletionHandlingObjectToName(object); err == nil {
				deleted(key.Name)
			}
		},
	})
	if err == nil {
		removeOnEnd(ctx, informer, handler)
		hasSynced := func(context.Context) (bool, error) { return handler.HasSynced(), nil }
		err = wait.PollUntilContextCancel(ctx, startPoll, true, hasSynced)
	}
	if err != nil {
		return fmt.Errorf("watching %T of the tenant namespace: %w", object, err)
	}
	return nil
}

// removeOnEnd removes a handler from an informer that outlives the virtual node.
func removeOnEnd(ctx context.Context, informer cache.Informer, handler toolscache.ResourceEventHandlerRegistration) {
	context.AfterFunc(ctx, func() {
		if err := informer.RemoveEventHandler(handler); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Removing the handler of an informer failed")
		}
	})
}

// readError is an error of the request for the kubeconfig Secret. Another request may succeed.
type readError struct{ error }

// Unwrap returns the cause.
func (e *readError) Unwrap() error { return e.error }

// readKubeconfig reads the Secret with the provider's kubeconfig. The error is a [*readError] unless
// the Secret is absent or its content cannot be used.
func (v *virtualNode) readKubeconfig(ctx context.Context) (*rest.Config, error) {
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: v.options.TenantNamespace, Name: v.options.ForeignKubeconfigSecretName}
	err := v.client.Get(ctx, key, secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("kubeconfig Secret %s does not exist: create it, or correct spec.kubeconfigSecretRef of the VirtualNode", key)
	case err != nil:
		return nil, &readError{fmt.Errorf("reading kubeconfig Secret %s: %w", key, err)}
	}
	config, err := remotecluster.Config(secret, remotecluster.Limits{Timeout: v.options.ClientTimeout, Values: remotecluster.AnyNumber})
	if err != nil {
		return nil, fmt.Errorf("reading the provider's kubeconfig: %w", err)
	}
	if ended, expired := remotecluster.Expired(config, time.Now()); expired {
		return nil, fmt.Errorf("kubeconfig Secret %s: the client certificate expired at %s: renew it", key, ended.Format(time.RFC3339))
	}
	return v.options.withRate(config), nil
}

// nextKubeconfig returns the kubeconfig of the Secret if it differs from the one in use, else
// nil. If it cannot be used, an event is recorded and the session continues. If it cannot be read,
// it is read again after retry.Max.
func (v *virtualNode) nextKubeconfig(ctx context.Context, config *rest.Config) *rest.Config {
	next, err := v.readKubeconfig(ctx)
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		ctrl.LoggerFrom(ctx).Error(err, "The provider's kubeconfig cannot be used, the previous one stays in use")
		if !v.reportKubeconfig(ctx, v.facts.VirtualNode(), err) {
			time.AfterFunc(retry.Max, v.notifyKubeconfig)
		}
		return nil
	case remotecluster.SameConnection(next, config):
		return nil
	}
	return next
}

// reportKubeconfig records an event on the VirtualNode, unless the kubeconfig could not be read. It
// returns whether the Secret must change before the kubeconfig can be used.
func (v *virtualNode) reportKubeconfig(ctx context.Context, vn *offloadingv1beta1.VirtualNode, cause error) (mustChange bool) {
	if _, unread := errors.AsType[*readError](cause); unread {
		return false
	}
	v.warn(ctx, vn, reasonBrokenKubeconfig, cause.Error())
	return true
}

// reportTooMuch is the Report of engine.Options.
func (v *virtualNode) reportTooMuch(ctx context.Context, cause error) {
	v.report(ctx, v.facts.VirtualNode(), reasonTooMuch, cause.Error()+": nothing new is read of it for a minute. "+
		"The operator of that cluster must delete what is not needed, or raise the memory limit of this virtual kubelet")
}

// report is the Report of node.Options, whose context may have ended.
func (v *virtualNode) report(ctx context.Context, vn *offloadingv1beta1.VirtualNode, reason node.Reason, message string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), eventTimeout)
	defer cancel()
	v.warn(ctx, vn, string(reason), message)
}

func (v *virtualNode) warn(ctx context.Context, vn *offloadingv1beta1.VirtualNode, reason, message string) {
	err := events.Warn(ctx, v.client, events.Warning{
		Regarding: corev1.ObjectReference{
			APIVersion: offloadingv1beta1.GroupVersion.String(), Kind: "VirtualNode", Namespace: vn.Namespace, Name: vn.Name, UID: vn.UID,
		},
		Reason: reason, Message: message, Component: eventComponent, ReportingInstance: v.options.NodeName,
		Time: time.Now(),
	})
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Recording an event on the VirtualNode failed", "reason", reason, "message", message)
	}
}
