package kubelet

import (
	"context"
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

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/election"
	kubeletapi "github.com/longshore-dev/longshore/host/consumer/kubelet"
	"github.com/longshore-dev/longshore/host/consumer/node"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/forge/remote"
	"github.com/longshore-dev/longshore/host/kit/events"
	"github.com/longshore-dev/longshore/host/kit/remotecluster"
	"github.com/longshore-dev/longshore/host/kit/restore"
	"github.com/longshore-dev/longshore/host/kit/retry"
)

const (
	// reasonBrokenKubeconfig is the reason of the event on a VirtualNode whose kubeconfig
	// Secret cannot be used.
	reasonBrokenKubeconfig = "BrokenKubeconfig"
	// reasonTooMuch is the reason of the event on a VirtualNode whose provider sends more than is read or kept.
	reasonTooMuch = "ProviderSendsTooMuch"
	// reasonUnreadable is the reason of the event on a VirtualNode whose provider sends what cannot be decoded.
	reasonUnreadable = "CannotBeDecoded"
	// awsSigner signs the serving certificates of kubelets on EKS.
	awsSigner = "beta.eks.amazonaws.com/app-serving"
	// eventTimeout bounds the requests for one event.
	eventTimeout   = 5 * time.Second
	eventComponent = "virtual-kubelet"
)

func (a *App) addLinkMetrics() error {
	a.reachable = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "longshore_remote_cluster_up", Help: "Whether the provider's API server can be reached.",
	})
	if err := errors.Join(a.registry.Register(a.reachable), a.registry.Register(&a.sessionMetrics)); err != nil {
		return fmt.Errorf("adding the metrics of the provider: %w", err)
	}
	return nil
}

func (a *App) origin() remote.Origin {
	o := a.options
	origin := remote.Origin{HomeClusterID: o.HomeClusterID, ProviderClusterID: o.ForeignClusterID, NodeName: o.NodeName, AudienceTokens: o.SendAudienceTokens && o.ReflectionWorkers["serviceaccount"] > 0}
	if o.EnableStorage && o.ReflectionWorkers["persistentvolumeclaim"] > 0 {
		origin.VirtualStorageClass = o.VirtualStorageClassName
	}
	return origin
}

func (a *App) addCertificate() error {
	ip := net.ParseIP(a.options.NodeIP)
	signer := certificatesv1.KubeletServingSignerName
	switch CertificateType(a.options.CertificateType) {
	case CertificateSelfSigned:
		a.certificate = kubeletapi.NewSelfSigned(a.options.NodeName, ip, time.Now).Certificate
		return nil
	case CertificateAWS:
		signer = awsSigner
	case CertificateKubelet:
	}
	signed, err := kubeletapi.NewSigned(a.clientset, signer, a.options.NodeName, ip, time.Now)
	if err != nil {
		return fmt.Errorf("composing the kubelet API: %w", err)
	}
	a.certificate, a.keepCertificate = signed.Certificate, signed.Run
	return nil
}

// addElection composes the election among the virtual kubelets of the provider.
func (a *App) addElection() (err error) {
	o := a.options
	options := election.Options{
		LeaseDuration: o.VKLeaseDuration, RenewDeadline: o.VKLeaseRenewInterval, RetryPeriod: o.VKLeaseRetryPeriod,
		Link: a.link, OnChange: a.setLeading, Now: time.Now,
	}
	if o.VKLeaseEnabled {
		identity, err := o.identity()
		if err != nil {
			return err
		}
		if options.ElectorLock, err = election.NewLock(protobuf(a.config), o.TenantNamespace, identity, o.VKLeaseRenewInterval); err != nil {
			return err
		}
		if options.Lock, err = election.NewLock(protobuf(a.config), o.TenantNamespace, identity, o.VKLeaseRenewInterval); err != nil {
			return err
		}
	}
	a.election, err = election.New(options)
	return err
}

// setLeading passes the result of the election to the current session and to later ones.
func (a *App) setLeading(leading bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.leading = leading
	if a.session != nil {
		a.session.lead(leading)
	}
}

// serve runs sessions until the context ends. It is called after the lease of the node was acquired.
func (a *App) serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	vn, err := a.readVirtualNode(ctx)
	if err != nil {
		return err
	}
	a.facts.SetVirtualNode(vn)
	if err := a.watchVirtualNodes(ctx); err != nil {
		return err
	}
	if err := errors.Join(a.watchForeignClusters(ctx), a.watchConfigurations(ctx), a.watchAPIServerIPs(ctx)); err != nil {
		return err
	}
	config, err := a.readKubeconfig(ctx)
	if err != nil {
		a.reportKubeconfig(ctx, vn, err)
		return err
	}
	if err := a.watchKubeconfig(ctx, &group); err != nil {
		return err
	}
	group.Go(func() { a.watchReflections(ctx) })
	if a.keepCertificate != nil && a.options.CreateNode {
		group.Go(func() { a.keepCertificate(ctx) })
	}
	defer a.startElection(ctx)()
	for ctx.Err() == nil {
		if config, err = a.runSession(ctx, config); err != nil {
			return err
		}
	}
	return nil
}

// startElection campaigns until the returned function is called, which releases the lease.
// It is called after the last session: the next leader does not send at the same time.
func (a *App) startElection(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		if a.policies.await(ctx) {
			a.election.Run(ctx)
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// runSession runs a session until the context ends, a part fails or the Secret contains
// another kubeconfig, which it returns.
func (a *App) runSession(ctx context.Context, config *rest.Config) (*rest.Config, error) {
	current, err := a.newSession(ctx, config)
	if err != nil {
		return nil, err
	}
	// A stream may go on over a connection with an earlier kubeconfig.
	streams := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- current.run(ctx, streams) }()
	a.setSession(current)
	defer a.setSession(nil)
	// The VirtualNode may have changed while the session was composed.
	current.virtualNodeChanged(a.facts.VirtualNode())
	for {
		select {
		case err := <-ended:
			return config, err
		case <-a.kubeconfigChanged:
		}
		next := a.nextKubeconfig(ctx, config)
		if next == nil {
			continue
		}
		ctrl.LoggerFrom(ctx).Info("Reconnecting to the provider after a change of its kubeconfig")
		cancel()
		return next, <-ended
	}
}

func (a *App) setSession(current *session) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.session = current
	if current != nil {
		current.lead(a.leading)
		current.foreignClusterChanged(a.foreignCluster)
	}
}

func (a *App) currentSession() *session {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.session
}

// decideAgain makes the current session decide all objects again, and ask the policies.
func (a *App) decideAgain() {
	if current := a.currentSession(); current != nil {
		current.policiesChanged()
	}
}

func (a *App) notifyKubeconfig() {
	select {
	case a.kubeconfigChanged <- struct{}{}:
	default:
	}
}

func (a *App) readVirtualNode(ctx context.Context) (*offloadingv1beta1.VirtualNode, error) {
	vn := &offloadingv1beta1.VirtualNode{}
	key := client.ObjectKey{Namespace: a.options.TenantNamespace, Name: a.options.NodeName}
	err := a.client.Get(ctx, key, vn)
	switch {
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("VirtualNode %s does not exist: correct --tenant-namespace and --nodename", key)
	case err != nil:
		return nil, fmt.Errorf("reading VirtualNode %s: %w", key, err)
	case string(vn.Spec.ClusterID) != a.options.ForeignClusterID:
		return nil, fmt.Errorf("VirtualNode %s is of cluster %q and --foreign-cluster-id is %q", key, vn.Spec.ClusterID, a.options.ForeignClusterID)
	}
	return vn, nil
}

// watchVirtualNodes passes changes of VirtualNodes to the Node and to the policies. It returns
// after the first list.
func (a *App) watchVirtualNodes(ctx context.Context) error {
	return watch(ctx, a.manager.GetCache(), &offloadingv1beta1.VirtualNode{}, func(object any) {
		vn, ok := object.(*offloadingv1beta1.VirtualNode)
		if !ok {
			return
		}
		previous := a.facts.VirtualNode()
		hasChanged := a.facts.SetVirtualNode(vn)
		if vn.Name == a.options.NodeName {
			a.ownChanged(previous, vn)
		}
		if hasChanged {
			a.decideAgain()
		}
	}, func(name string) {
		if a.facts.RemoveVirtualNode(name) {
			a.decideAgain()
		}
	})
}

// ownChanged follows a change of the virtual kubelet's own VirtualNode. One that was created again owns
// the report, which is deleted with the previous one.
func (a *App) ownChanged(previous, vn *offloadingv1beta1.VirtualNode) {
	current := a.currentSession()
	if current != nil {
		current.virtualNodeChanged(vn)
	}
	if previous == nil || previous.UID == vn.UID {
		return
	}
	a.policies.OwnerReplaced()
	if current != nil {
		current.custom.ReportLost()
	}
}

// watchKubeconfig watches the Secret with the provider's kubeconfig. It returns after the first
// list. The cache is not the manager's: it may read only Secrets that it names.
func (a *App) watchKubeconfig(ctx context.Context, group *sync.WaitGroup) error {
	o := a.options
	secrets, err := cache.New(a.config, cache.Options{
		HTTPClient: a.manager.GetHTTPClient(), Scheme: a.scheme, Mapper: a.manager.GetRESTMapper(),
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
	return watch(ctx, secrets, &corev1.Secret{}, func(any) { a.notifyKubeconfig() }, func(string) {})
}

// watch calls changed with each object of a kind and deleted with the names of deleted ones, until
// the context ends. It returns after changed was called for the first list.
func watch(ctx context.Context, objects cache.Cache, object client.Object, changed func(any), deleted func(string)) error {
	informer, err := objects.GetInformer(ctx, object)
	if err != nil {
		return fmt.Errorf("watching %T of the tenant namespace: %w", object, err)
	}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: changed, UpdateFunc: func(_, current any) { changed(current) },
		DeleteFunc: func(object any) {
			if key, err := toolscache.DeletionHandlingObjectToName(object); err == nil {
				deleted(key.Name)
			}
		},
	})
	if err == nil {
		hasSynced := func(context.Context) (bool, error) { return registration.HasSynced(), nil }
		err = wait.PollUntilContextCancel(ctx, startPoll, true, hasSynced)
	}
	if err != nil {
		return fmt.Errorf("watching %T of the tenant namespace: %w", object, err)
	}
	return nil
}

// readError is an error of the request for the kubeconfig Secret. Another request may succeed.
type readError struct{ error }

// Unwrap returns the cause.
func (e *readError) Unwrap() error { return e.error }

// readKubeconfig reads the Secret with the provider's kubeconfig. The error is a [*readError] unless
// the Secret is absent or its content cannot be used.
func (a *App) readKubeconfig(ctx context.Context) (*rest.Config, error) {
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: a.options.TenantNamespace, Name: a.options.ForeignKubeconfigSecretName}
	err := a.client.Get(ctx, key, secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("kubeconfig Secret %s does not exist: create it, or correct spec.kubeconfigSecretRef of the VirtualNode", key)
	case err != nil:
		return nil, &readError{fmt.Errorf("reading kubeconfig Secret %s: %w", key, err)}
	}
	config, err := remotecluster.Config(secret, remotecluster.Limits{Timeout: a.options.ClientTimeout, Values: remotecluster.AnyNumber, Types: a.scheme})
	if err != nil {
		return nil, fmt.Errorf("reading the provider's kubeconfig: %w", err)
	}
	if ended, expired := remotecluster.Expired(config, time.Now()); expired {
		return nil, fmt.Errorf("kubeconfig Secret %s: the client certificate expired at %s: renew it", key, ended.Format(time.RFC3339))
	}
	return a.options.withRate(config), nil
}

// nextKubeconfig returns the kubeconfig of the Secret if it differs from the one in use, else
// nil. If it cannot be used, an event is recorded and the session continues. If it cannot be read,
// it is read again after retry.Max.
func (a *App) nextKubeconfig(ctx context.Context, config *rest.Config) *rest.Config {
	next, err := a.readKubeconfig(ctx)
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		ctrl.LoggerFrom(ctx).Error(err, "The provider's kubeconfig cannot be used, the previous one stays in use")
		if !a.reportKubeconfig(ctx, a.facts.VirtualNode(), err) {
			time.AfterFunc(retry.Max, a.notifyKubeconfig)
		}
		return nil
	case remotecluster.SameConnection(next, config):
		return nil
	}
	return next
}

// reportKubeconfig records an event on the VirtualNode, unless the kubeconfig could not be read. It
// returns whether the Secret must change before the kubeconfig can be used.
func (a *App) reportKubeconfig(ctx context.Context, vn *offloadingv1beta1.VirtualNode, cause error) (mustChange bool) {
	if _, unread := errors.AsType[*readError](cause); unread {
		return false
	}
	a.warn(ctx, vn, reasonBrokenKubeconfig, cause.Error())
	return true
}

// reportReading is the Report of engine.Options.
func (a *App) reportReading(ctx context.Context, cause error) {
	if engine.IsUnreadable(cause) {
		a.unreadable.Do(func() {
			a.report(ctx, a.facts.VirtualNode(), reasonUnreadable, cause.Error()+": nothing new is read there until the operator of that cluster "+
				"corrects the object, or finds out what answers in its place")
		})
		return
	}
	a.report(ctx, a.facts.VirtualNode(), reasonTooMuch, cause.Error()+": nothing new is read of it for a minute. "+
		"The operator of that cluster must delete what is not needed, or raise the memory limit of this virtual kubelet")
}

// report is the Report of node.Options, whose context may have ended.
func (a *App) report(ctx context.Context, vn *offloadingv1beta1.VirtualNode, reason node.Reason, message string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), eventTimeout)
	defer cancel()
	a.warn(ctx, vn, string(reason), message)
}

func (a *App) warn(ctx context.Context, vn *offloadingv1beta1.VirtualNode, reason, message string) {
	err := events.Warn(ctx, a.client, events.Warning{
		Regarding: corev1.ObjectReference{
			APIVersion: offloadingv1beta1.GroupVersion.String(), Kind: "VirtualNode", Namespace: vn.Namespace, Name: vn.Name, UID: vn.UID,
		},
		Reason: reason, Message: message, Component: eventComponent, ReportingInstance: a.options.NodeName,
		Time: time.Now(),
	})
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Recording an event on the VirtualNode failed", "reason", reason, "message", message)
	}
}
