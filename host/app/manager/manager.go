// Package manager composes the controller manager: the controllers of both roles, since
// a cluster may be consumer and provider at once.
package manager

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme"
	"github.com/longshore-dev/longshore/host/consumer/certificate"
	"github.com/longshore-dev/longshore/host/consumer/namespaceoffloading"
	"github.com/longshore-dev/longshore/host/consumer/virtualnode"
	"github.com/longshore-dev/longshore/host/kit/events"
	policyconfigmap "github.com/longshore-dev/longshore/host/policysource/configmap"
	"github.com/longshore-dev/longshore/host/provider/namespacemap"
	"github.com/longshore-dev/longshore/host/provider/shadowpod"
)

// LeaderElectionID is the name of the manager's lease.
const LeaderElectionID = "longshore-manager"

// Options configures an App. The names are those of the command's flags.
type Options struct {
	// Config reaches the own cluster.
	Config *rest.Config
	// ClusterID is the own cluster's identity.
	ClusterID string
	// Namespace is Longshore's own namespace, where the lease lives.
	Namespace string
	// MetricsAddress and HealthProbeAddress are host:port; "0" switches off.
	MetricsAddress     string
	HealthProbeAddress string
	// LeaderElection elects one of several replicas.
	LeaderElection bool
	// ShadowPodWorkers is how many ShadowPods are worked on at once.
	ShadowPodWorkers int
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
	if o.ShadowPodWorkers < 1 {
		errs = append(errs, fmt.Errorf("--shadow-pod-ctrl-workers is %d: at least one worker is needed", o.ShadowPodWorkers))
	}
	return errors.Join(errs...)
}

// App is the composed manager.
type App struct {
	manager ctrl.Manager
}

// New composes the manager; nothing runs yet.
func New(options Options) (*App, error) {
	if err := options.Validate(); err != nil {
		return nil, err
	}
	s, err := scheme.New()
	if err != nil {
		return nil, err
	}
	mgr, err := ctrl.NewManager(options.Config, managerOptions(options, s))
	if err != nil {
		return nil, fmt.Errorf("composing the manager: %w", err)
	}
	if err := addControllers(mgr, options); err != nil {
		return nil, err
	}
	if err := errors.Join(mgr.AddHealthzCheck("ping", healthz.Ping), mgr.AddReadyzCheck("ping", healthz.Ping)); err != nil {
		return nil, fmt.Errorf("adding health checks: %w", err)
	}
	return &App{manager: mgr}, nil
}

func managerOptions(options Options, s *runtime.Scheme) ctrl.Options {
	return ctrl.Options{
		Scheme:                        s,
		Metrics:                       server.Options{BindAddress: options.MetricsAddress},
		HealthProbeBindAddress:        options.HealthProbeAddress,
		LeaderElection:                options.LeaderElection,
		LeaderElectionID:              LeaderElectionID,
		LeaderElectionNamespace:       options.Namespace,
		LeaderElectionReleaseOnCancel: true,
		// Names of controllers are checked per process, and the managers of both clusters
		// may share one in tests.
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
		Cache: cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(),
			ByObject: map[client.Object]cache.ByObject{
				// The manager cares for the pods that it made itself, and no others.
				&corev1.Pod{}: {
					Label:     labels.SelectorFromSet(labels.Set{offloadingv1beta1.ManagedByLabel: offloadingv1beta1.ManagedByShadowPod}),
					Transform: shadowpod.TrimPod,
				},
				// It may read the own namespace's ConfigMaps, and needs those that are policies.
				&corev1.ConfigMap{}: {
					Namespaces: map[string]cache.Config{options.Namespace: {}},
					Label:      labels.SelectorFromSet(labels.Set(policyconfigmap.Selector())),
				},
			},
		},
	}
}

func addControllers(mgr ctrl.Manager, options Options) error {
	recorder := events.New(mgr, "longshore-manager")
	passive := clock.RealClock{}
	return errors.Join(
		named("shadowpod", (&shadowpod.Reconciler{
			Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Events: recorder, Clock: passive,
		}).SetupWithManager(mgr, options.ShadowPodWorkers)),
		named("namespacemap", (&namespacemap.Reconciler{
			Client: mgr.GetClient(), Events: recorder,
		}).SetupWithManager(mgr)),
		named("namespaceoffloading", (&namespaceoffloading.Reconciler{
			Client: mgr.GetClient(), Events: recorder, Clock: passive, ClusterID: options.ClusterID,
		}).SetupWithManager(mgr)),
		named("virtualnode", (&virtualnode.Reconciler{
			Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Events: recorder, Clock: passive,
		}).SetupWithManager(mgr)),
		named("certificate", (&certificate.Reconciler{Client: mgr.GetClient(), Clock: passive}).SetupWithManager(mgr)),
		named("policyconfigmap", (&policyconfigmap.Reconciler{
			Client: mgr.GetClient(), Events: recorder, Namespace: options.Namespace,
		}).SetupWithManager(mgr)),
	)
}

func named(name string, err error) error {
	if err != nil {
		return fmt.Errorf("adding controller %s: %w", name, err)
	}
	return nil
}

// Run runs the manager until the context ends.
func (a *App) Run(ctx context.Context) error {
	if err := a.manager.Start(ctx); err != nil {
		return fmt.Errorf("running the manager: %w", err)
	}
	return nil
}
