package foreigncluster

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/remotecluster"
	"github.com/longshore-dev/longshore/host/kit/retry"
)

// Reasons of the condition of the API server.
const (
	reasonAPIServerReady    = "APIServerReady"
	reasonAPIServerNotReady = "APIServerNotReady"
)

const (
	// failureThreshold is how many probes in a row must fail: one may be lost (F3).
	failureThreshold = 2
	// recheckShare is the part of the interval after which a first failure is checked again.
	recheckShare = 5
	// maxPause is the longest pause between probes of a peer that does not answer.
	maxPause = time.Minute
	// jitterShare is the part of a pause by which it varies, so that peers are not probed at once.
	jitterShare = 0.2
	// maxAnswer bounds what is read of an answer.
	maxAnswer = 1 << 10
	// probeWorkers is how many peers are probed at once: one that does not answer takes the timeout.
	probeWorkers = 4
)

// Prober asks the API servers of providers for a ResourceSlice with the control plane's
// kubeconfig, and keeps the condition APIServerStatus of their ForeignClusters. Nothing but
// reports depends on the condition, except that a peer which an administrator has declared
// permanently unreachable, and which answers, is not treated as lost.
//
// A probe is one request, every 15 s, which ends after 5 s. It follows no redirection and reads 1
// KiB at most. It is one that the end of a peering needs: a provider that only says that it lives, by
// /livez, would keep its consumer. A first failure is checked again after a fifth of the interval; the second one in a row
// changes the condition (F3). While a peer does not answer, the pause doubles, up to a minute. A
// status of 4xx other than 401 means that the API server answers: the identity may lack the
// right, and an expired certificate is an error. With an interval of 0, no condition is written; the
// reference writes Established then, without having asked. Pauses are kept in memory: after a restart
// of the manager, every provider is probed at once.
type Prober struct {
	// Client reads Secrets of tenant namespaces from the cache (package tenantsecrets).
	Client client.Client
	Clock  clock.PassiveClock
	// Interval between probes of a peer that answers; Timeout of a probe.
	Interval, Timeout time.Duration

	mu    sync.Mutex
	peers map[string]*peer
}

// peer is what is remembered of one peer between probes.
type peer struct {
	config *rest.Config
	http   *http.Client
	// namespace is the tenant namespace of the provider; it may not be known.
	namespace string
	failures  int
	nextAt    time.Time
}

// SetupWithManager starts probes when a peer's kubeconfig or ForeignCluster appears.
func (p *Prober) SetupWithManager(mgr ctrl.Manager) error {
	byLabel := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []reconcile.Request {
		return request(clusterOf(object))
	})
	return ctrl.NewControllerManagedBy(mgr).Named("foreigncluster-probe").
		Watches(&liqocorev1beta1.ForeignCluster{}, byLabel, builder.WithPredicates(appears)).
		Watches(&corev1.Secret{}, byLabel, builder.WithPredicates(predicate.NewPredicateFuncs(isControlPlaneKubeconfig))).
		WithOptions(controller.Options{MaxConcurrentReconciles: probeWorkers, RateLimiter: retry.Limiter[reconcile.Request]()}).
		Complete(p)
}

// appears selects ForeignClusters that are new, or have their first status.
var appears = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool { return !hasStatus(e.ObjectOld) && hasStatus(e.ObjectNew) }}

// hasStatus reports whether the status of a ForeignCluster was written: the API server refuses
// one without role.
func hasStatus(object client.Object) bool {
	fc, ok := object.(*liqocorev1beta1.ForeignCluster)
	return ok && fc.Status.Role != ""
}

func isControlPlaneKubeconfig(object client.Object) bool {
	return object.GetLabels()[authv1beta1.IdentityTypeLabel] == string(authv1beta1.ControlPlaneIdentityType)
}

// Reconcile probes a peer if that is due, and writes the condition when it changes.
func (p *Prober) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	fc, err := findForeignCluster(ctx, p.Client, liqocorev1beta1.ClusterID(request.Name))
	if err != nil || fc == nil {
		p.forget(request.Name)
		return ctrl.Result{}, err
	}
	if !hasStatus(fc) {
		return ctrl.Result{}, nil // Its first status enqueues it.
	}
	secrets := &corev1.SecretList{}
	if err := p.Client.List(ctx, secrets, client.MatchingLabels{
		liqocorev1beta1.RemoteClusterIDLabel: request.Name, authv1beta1.IdentityTypeLabel: string(authv1beta1.ControlPlaneIdentityType),
	}); err != nil {
		return ctrl.Result{}, fmt.Errorf("listing the kubeconfigs of cluster %q: %w", request.Name, err)
	}
	kubeconfig := oldest(secrets.Items)
	if kubeconfig == nil {
		// The peer is not a provider any more, or never was.
		p.forget(request.Name)
		return ctrl.Result{}, p.write(ctx, fc, nil)
	}
	known, probeErr := p.peer(request.Name, kubeconfig)
	if probeErr == nil {
		if pause := known.nextAt.Sub(p.Clock.Now()); pause > 0 {
			return ctrl.Result{RequeueAfter: pause}, nil
		}
		probeErr = p.probe(ctx, known)
	}
	if ctx.Err() != nil {
		return ctrl.Result{}, nil // The manager stops.
	}
	if probeErr != nil {
		known.failures++
	} else {
		known.failures = 0
	}
	pause := pauseAfter(known.failures, p.Interval)
	pause += time.Duration((rand.Float64() - 0.5) * jitterShare * float64(pause))
	known.nextAt = p.Clock.Now().Add(pause)
	if condition := judge(fc, known.failures, probeErr); condition != nil {
		if err := p.write(ctx, fc, condition); err != nil {
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{RequeueAfter: pause}, nil
}

// judge returns the condition to write, or nil if it stays. It is pure.
func judge(fc *liqocorev1beta1.ForeignCluster, failures int, probeErr error) *liqocorev1beta1.Condition {
	condition := &liqocorev1beta1.Condition{
		Type: liqocorev1beta1.APIServerStatusCondition, Status: liqocorev1beta1.ConditionStatusEstablished,
		Reason: reasonAPIServerReady, Message: "The API server answers.",
	}
	if probeErr != nil {
		condition.Status, condition.Reason = liqocorev1beta1.ConditionStatusError, reasonAPIServerNotReady
		condition.Message = fmt.Sprintf("The API server does not answer the manager: %s.", probeErr)
	}
	for i := range fc.Status.Conditions {
		have := &fc.Status.Conditions[i]
		if have.Type == condition.Type && (have.Status == condition.Status || failures > 0 && failures < failureThreshold) {
			return nil
		}
	}
	return condition
}

// pauseAfter returns how long to wait after a number of failures in a row. It is pure.
func pauseAfter(failures int, interval time.Duration) time.Duration {
	switch {
	case failures == 0:
		return interval
	case failures < failureThreshold:
		return interval / recheckShare
	}
	pause := interval
	for range failures - failureThreshold {
		if pause >= maxPause {
			break
		}
		pause *= 2
	}
	return max(interval, min(pause, maxPause))
}

// peer returns what is remembered of a peer. With another kubeconfig it is a new one.
func (p *Prober) peer(cluster string, kubeconfig *corev1.Secret) (*peer, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.peers == nil {
		p.peers = map[string]*peer{}
	}
	known := p.peers[cluster]
	config, err := remotecluster.Config(kubeconfig, remotecluster.Limits{Response: maxAnswer, Timeout: p.Timeout})
	namespace := kubeconfig.Annotations[authv1beta1.RemoteTenantNamespaceAnnotation]
	if err == nil && known != nil && known.http != nil && known.namespace == namespace && remotecluster.SameConnection(known.config, config) {
		return known, nil
	}
	if known == nil || err == nil {
		known = &peer{config: config, namespace: namespace}
		p.peers[cluster] = known
	}
	if err != nil {
		return known, err
	}
	if known.http, err = rest.HTTPClientFor(config); err != nil {
		return known, fmt.Errorf("preparing the connection: %w", err)
	}
	return known, nil
}

func (p *Prober) forget(cluster string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.peers, cluster)
}

// probe asks for a ResourceSlice of this cluster. Without the namespace it asks for one of all, to which it has no
// right: that is an answer, too.
func (p *Prober) probe(ctx context.Context, known *peer) error {
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	address, _, err := rest.DefaultServerUrlFor(known.config)
	if err != nil {
		return fmt.Errorf("parsing the address %q: %w", known.config.Host, err)
	}
	address = address.JoinPath("apis", authv1beta1.GroupVersion.Group, authv1beta1.GroupVersion.Version)
	if known.namespace != "" {
		address = address.JoinPath("namespaces", known.namespace)
	}
	address = address.JoinPath("resourceslices")
	address.RawQuery = "limit=1"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), http.NoBody)
	if err != nil {
		return fmt.Errorf("preparing the request: %w", err)
	}
	response, err := known.http.Do(request)
	if err != nil {
		// A connection that is lost without notice is not used again.
		known.http.CloseIdleConnections()
		return fmt.Errorf("probing the API server: %w", err)
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, maxAnswer)) // The connection is used again.
	// An identity without the right is accepted; an expired one is not.
	if code := response.StatusCode; code/100 == 2 || code/100 == 4 && code != http.StatusUnauthorized {
		return nil
	}
	return fmt.Errorf("the API server answers %s", response.Status)
}

// write sets the condition, or removes it.
func (p *Prober) write(ctx context.Context, fc *liqocorev1beta1.ForeignCluster, condition *liqocorev1beta1.Condition) error {
	before := fc.DeepCopy()
	others := slices.DeleteFunc(slices.Clone(fc.Status.Conditions), func(c liqocorev1beta1.Condition) bool {
		return c.Type == liqocorev1beta1.APIServerStatusCondition
	})
	if condition == nil && len(others) == len(fc.Status.Conditions) {
		return nil
	}
	fc.Status.Conditions = others
	if condition != nil {
		condition.LastTransitionTime = metav1.NewTime(p.Clock.Now())
		fc.Status.Conditions = append(others, *condition)
	}
	if err := p.Client.Status().Patch(ctx, fc, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("patching the status of ForeignCluster %q: %w", fc.Name, err)
	}
	return nil
}
