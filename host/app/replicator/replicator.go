// Package replicator composes the process that copies NamespaceMaps from a consumer to
// its providers.
package replicator

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme"
	"github.com/longshore-dev/longshore/host/kit/events"
	"github.com/longshore-dev/longshore/host/peering/replication"
)

// LeaderElectionID is the name of the replicator's lease.
const LeaderElectionID = "longshore-replicator"

// Options configures an App. The names are those of the command's flags.
type Options struct {
	// Config reaches the own cluster.
	Config *rest.Config
	// ClusterID is the own cluster's identity.
	ClusterID string
	// Namespace is Longshore's own namespace, where the lease lives.
	Namespace string
	// ResyncPeriod of the informers.
	ResyncPeriod time.Duration
	// MetricsAddress and HealthProbeAddress are host:port; "0" switches off.
	MetricsAddress     string
	HealthProbeAddress string
	// LeaderElection elects one of several replicas.
	LeaderElection bool
}

// Validate says what is wrong with the options, all of it.
func (o *Options) Validate() error {
	var errs []error
	if err := liqocorev1beta1.ClusterID(o.ClusterID).Validate(); err != nil {
		errs = append(errs, fmt.Errorf("--cluster-id: %w", err))
	}
	if o.Namespace == "" {
		errs = append(errs, errors.New("--liqo-namespace is required: it names Longshore's own namespace"))
	}
	if o.ResyncPeriod < 0 {
		errs = append(errs, fmt.Errorf("--resync-period is %s: it cannot be negative", o.ResyncPeriod))
	}
	return errors.Join(errs...)
}

// App is the composed replicator.
type App struct {
	manager ctrl.Manager
}

// New composes the replicator; nothing runs yet.
func New(options Options) (*App, error) {
	if err := options.Validate(); err != nil {
		return nil, err
	}
	s, err := scheme.New()
	if err != nil {
		return nil, err
	}
	mgr, err := ctrl.NewManager(options.Config, ctrl.Options{
		Scheme:                        s,
		Metrics:                       server.Options{BindAddress: options.MetricsAddress},
		HealthProbeBindAddress:        options.HealthProbeAddress,
		LeaderElection:                options.LeaderElection,
		LeaderElectionID:              LeaderElectionID,
		LeaderElectionNamespace:       options.Namespace,
		LeaderElectionReleaseOnCancel: true,
		Cache: cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(),
			// Only control-plane kubeconfigs: no other Secret is the replicator's business.
			ByObject: map[client.Object]cache.ByObject{&corev1.Secret{}: {
				Label: labels.SelectorFromSet(labels.Set{authv1beta1.IdentityTypeLabel: string(authv1beta1.ControlPlaneIdentityType)}),
			}},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("composing the manager: %w", err)
	}
	local, err := dynamic.NewForConfig(options.Config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the own cluster: %w", err)
	}
	reconciler := &replication.Reconciler{
		Client: mgr.GetClient(), Events: events.New(mgr, "longshore-replicator"),
		Options: replication.Options{
			ClusterID: options.ClusterID,
			Resources: []schema.GroupVersionResource{offloadingv1beta1.GroupVersion.WithResource("namespacemaps")},
			Resync:    options.ResyncPeriod,
			Local:     local,
			Connect:   func(config *rest.Config) (dynamic.Interface, error) { return dynamic.NewForConfig(config) },
		},
	}
	if err := reconciler.SetupWithManager(mgr); err != nil {
		return nil, fmt.Errorf("adding controller replication: %w", err)
	}
	if err := errors.Join(mgr.AddHealthzCheck("ping", healthz.Ping), mgr.AddReadyzCheck("ping", healthz.Ping)); err != nil {
		return nil, fmt.Errorf("adding health checks: %w", err)
	}
	return &App{manager: mgr}, nil
}

// Run replicates until the context ends.
func (a *App) Run(ctx context.Context) error {
	if err := a.manager.Start(ctx); err != nil {
		return fmt.Errorf("running the replicator: %w", err)
	}
	return nil
}
