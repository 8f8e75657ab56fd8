// Package process composes the processes with controllers or webhooks: options, and a manager with
// scheme, cache, metrics, health probes and leader election. Virtual kubelets do not use it: they
// need fewer kinds and other leases.
package process

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme"
	"github.com/longshore-dev/longshore/host/kit/deadline"
	"github.com/longshore-dev/longshore/host/kit/events"
	"github.com/longshore-dev/longshore/host/kit/lease"
	"github.com/longshore-dev/longshore/host/kit/memory"
	"github.com/longshore-dev/longshore/host/kit/undecodable"
)

// syncedPatience is less than the kubelet waits for a probe by default, one second.
const syncedPatience = 500 * time.Millisecond

// Options are the options of every process. The names are those of the command's flags.
type Options struct {
	// Config is the client configuration of the local cluster.
	Config *rest.Config
	// ClusterID is the ID of the local cluster.
	ClusterID string
	// Namespace is Longshore's own namespace, where the lease lives.
	Namespace string
	// MetricsAddress and HealthProbeAddress are host:port, or "0" to disable.
	MetricsAddress     string
	HealthProbeAddress string
	// Identity is what the process is called in leases: [PodIdentity] of its pod, or empty outside of one.
	Identity string
}

// PodIdentity returns the identity of a process in leases: that of its pod, so that a container that is
// started again takes the lease that it held before instead of waiting until it expires. It is empty
// without both values.
//
// No two processes that run have one identity. A UID is that of one pod in the life of a cluster, also if
// a pod of the same name is created again. The pod is bound to one Node once, and the kubelet there starts
// a container only after it has seen the end of the previous one, whose requests are over by then. And a
// pod has one container that uses a lease.
func PodIdentity(name, uid string) string {
	if name == "" || uid == "" {
		return ""
	}
	return name + "_" + uid
}

// Validate returns every invalid option.
func (o *Options) Validate() error {
	var errs []error
	if err := liqocorev1beta1.ClusterID(o.ClusterID).Validate(); err != nil {
		errs = append(errs, fmt.Errorf("--cluster-id: %w", err))
	}
	if o.Namespace == "" {
		errs = append(errs, errors.New("--liqo-namespace is required: it names Longshore's own namespace"))
	}
	return errors.Join(errs...)
}

// Definition defines a process.
type Definition struct {
	// Name is the name of the process in errors, with its article: "the manager".
	Name string
	// Lease is the name of the lease for leader election. If empty, every replica is active.
	Lease string
	// Cache restricts the cache by kind.
	Cache map[client.Object]cache.ByObject
	// NewCache creates the cache. If nil, it is that of controller-runtime.
	NewCache cache.NewCacheFunc
	// Alter changes the options of the manager. It may be nil.
	Alter func(*ctrl.Options) error
	// Add adds controllers and handlers to the manager.
	Add func(ctrl.Manager) error
	// Close is called when nothing of the process runs any more. It may be nil.
	Close func(context.Context) error
	// Ready returns an error until requests can be served. If nil, a process whose caches are synced is ready.
	Ready func(*http.Request) error
}

// App is a composed process.
type App struct {
	name    string
	manager ctrl.Manager
	close   func(context.Context) error
}

// New composes a process; nothing runs yet.
func New(o *Options, d Definition) (*App, error) {
	memory.ReduceGarbage()
	s, err := scheme.New()
	if err != nil {
		return nil, err
	}
	decodable := undecodable.New(s)
	options := ctrl.Options{
		Scheme:                        s,
		Metrics:                       server.Options{BindAddress: o.MetricsAddress},
		HealthProbeBindAddress:        o.HealthProbeAddress,
		LeaderElection:                d.Lease != "",
		LeaderElectionID:              d.Lease,
		LeaderElectionNamespace:       o.Namespace,
		LeaderElectionReleaseOnCancel: true,
		// Controller names are unique per process. Tests run several managers in one process.
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
		NewCache:   d.NewCache,
		Cache: cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(), ByObject: d.Cache, NewInformer: decodable.NewInformer,
		},
	}
	if d.Alter != nil {
		if err := d.Alter(&options); err != nil {
			return nil, err
		}
	}
	cluster := deadline.Wrap(o.Config, 0)
	if d.Lease != "" {
		lock, err := newLock(cluster, o, d.Lease)
		if err != nil {
			return nil, err
		}
		options.LeaderElectionResourceLockInterface = lock
		options.LeaseDuration, options.RenewDeadline, options.RetryPeriod = ptr.To(lease.Duration), ptr.To(lease.RenewDeadline), ptr.To(lease.RetryPeriod)
	}
	mgr, err := ctrl.NewManager(decodable.Wrap(cluster), options)
	if err != nil {
		return nil, fmt.Errorf("composing %s: %w", d.Name, err)
	}
	decodable.ReportTo(events.New(mgr, "longshore", time.Now))
	if err := d.Add(mgr); err != nil {
		return nil, err
	}
	checks := []error{mgr.AddHealthzCheck("ping", healthz.Ping), mgr.AddReadyzCheck("caches", Synced(mgr.GetCache()))}
	if d.Ready != nil {
		checks = append(checks, mgr.AddReadyzCheck("serving", d.Ready))
	}
	if err := errors.Join(checks...); err != nil {
		return nil, fmt.Errorf("adding health checks: %w", err)
	}
	return &App{name: d.Name, manager: mgr, close: d.Close}, nil
}

// Synced returns an error while an informer has not read its kind: what depends on it does not happen. A
// replica that waits for the lease has few informers, and is ready with these.
func Synced(caches cache.Cache) healthz.Checker {
	return func(r *http.Request) error {
		ctx, cancel := context.WithTimeout(r.Context(), syncedPatience)
		defer cancel()
		if !caches.WaitForCacheSync(ctx) {
			return errors.New("caches are not synced: the log names the kinds that cannot be listed")
		}
		return nil
	}
}

// newLock returns the lock of a lease in Longshore's namespace.
func newLock(config *rest.Config, o *Options, name string) (resourcelock.Interface, error) {
	identity := o.Identity
	if identity == "" {
		host, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("finding an identity for the lease %s/%s: %w", o.Namespace, name, err)
		}
		// Outside of a pod, several processes of one host may compete.
		identity = host + "_" + string(uuid.NewUUID())
	}
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, o.Namespace, name,
		resourcelock.ResourceLockConfig{Identity: identity}, config, lease.RenewDeadline)
	if err != nil {
		return nil, fmt.Errorf("preparing the lease %s/%s: %w", o.Namespace, name, err)
	}
	return lease.Checked(lock), nil
}

// Run runs the process until the context ends.
func (a *App) Run(ctx context.Context) error {
	err := a.manager.Start(ctx)
	if a.close != nil {
		err = errors.Join(err, a.close(context.WithoutCancel(ctx)))
	}
	if err != nil {
		return fmt.Errorf("running %s: %w", a.name, err)
	}
	return nil
}
