// Package replicator composes the process that copies NamespaceMaps from a consumer to
// its providers.
package replicator

import (
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

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/process"
	"github.com/longshore-dev/longshore/host/kit/deadline"
	"github.com/longshore-dev/longshore/host/kit/events"
	"github.com/longshore-dev/longshore/host/peering/replication"
)

// LeaderElectionID is the name of the replicator's lease.
const LeaderElectionID = "longshore-replicator"

// Options configures an App. The names are those of the command's flags.
type Options struct {
	process.Options
	// ResyncPeriod of the informers.
	ResyncPeriod time.Duration
	// LeaderElection elects one of several replicas.
	LeaderElection bool
}

// Validate says what is wrong with the options, all of it.
func (o *Options) Validate() error {
	err := o.Options.Validate()
	if o.ResyncPeriod < 0 {
		err = errors.Join(err, fmt.Errorf("--resync-period is %s: it cannot be negative", o.ResyncPeriod))
	}
	return err
}

// New composes the replicator; nothing runs yet.
func New(options Options) (*process.App, error) {
	if err := options.Validate(); err != nil {
		return nil, err
	}
	tenantNamespaces, err := labels.Parse(liqocorev1beta1.TenantNamespaceLabel)
	if err != nil {
		return nil, fmt.Errorf("selecting tenant namespaces: %w", err)
	}
	definition := process.Definition{
		Name: "the replicator",
		// The replicator reads no other Secrets and namespaces.
		Cache: map[client.Object]cache.ByObject{
			&corev1.Secret{}:    {Label: labels.SelectorFromSet(labels.Set{authv1beta1.IdentityTypeLabel: string(authv1beta1.ControlPlaneIdentityType)})},
			&corev1.Namespace{}: {Label: tenantNamespaces},
		},
		Add: func(mgr ctrl.Manager) error { return addController(mgr, options) },
	}
	if options.LeaderElection {
		definition.Lease = LeaderElectionID
	}
	return process.New(&options.Options, definition)
}

func addController(mgr ctrl.Manager, options Options) error {
	local, err := dynamic.NewForConfig(options.Config)
	if err != nil {
		return fmt.Errorf("connecting to the own cluster: %w", err)
	}
	reconciler := &replication.Reconciler{
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Events: events.New(mgr, "longshore-replicator"),
		Options: replication.Options{
			ClusterID: options.ClusterID,
			Resources: []schema.GroupVersionResource{offloadingv1beta1.GroupVersion.WithResource("namespacemaps")},
			Resync:    options.ResyncPeriod,
			Local:     local,
			Connect: func(config *rest.Config) (dynamic.Interface, error) {
				return dynamic.NewForConfig(deadline.Wrap(config, 0))
			},
		},
	}
	if err := reconciler.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("adding controller replication: %w", err)
	}
	return nil
}
