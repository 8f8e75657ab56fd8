// Package replicator composes replication: as a part of the manager, or as a process of its
// own.
//
// The manager runs it by default, and shares client, cache and lease with it: a few objects that rarely
// change need no further process, lease and cache. With replicator.separate in the chart, it has
// Deployments of its own, and the manager, which then runs with --enable-replication=false, does not get
// its rules. That separates all rights but those on Secrets in tenant namespaces, which the RoleBinding
// of the manager there gives to both.
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
	"github.com/longshore-dev/longshore/host/peering/tenantsecrets"
)

// LeaderElectionID is the name of the lease of a replicator that runs alone.
const LeaderElectionID = "longshore-replicator"

// Options configures an App. The names are those of the command's flags.
type Options struct {
	process.Options
	// ResyncPeriod of the informers.
	ResyncPeriod time.Duration
	// LeaderElection elects one of several replicas.
	LeaderElection bool
}

// Validate returns every invalid option.
func (o *Options) Validate() error {
	return errors.Join(o.Options.Validate(), ValidateResyncPeriod(o.ResyncPeriod))
}

// ValidateResyncPeriod returns an error if the period is negative.
func ValidateResyncPeriod(period time.Duration) error {
	if period < 0 {
		return fmt.Errorf("--resync-period is %s: it cannot be negative", period)
	}
	return nil
}

// New composes the replicator as a process; nothing runs yet.
func New(options Options) (*process.App, error) {
	if err := options.Validate(); err != nil {
		return nil, err
	}
	tenantNamespaces, err := labels.Parse(liqocorev1beta1.TenantNamespaceLabel)
	if err != nil {
		return nil, fmt.Errorf("selecting tenant namespaces: %w", err)
	}
	definition := process.Definition{
		Name:     "the replicator",
		NewCache: tenantsecrets.New,
		Cache: map[client.Object]cache.ByObject{
			&corev1.Namespace{}: {Label: tenantNamespaces},
		},
		Add: func(mgr ctrl.Manager) error { return Add(mgr, options) },
	}
	if options.LeaderElection {
		definition.Lease = LeaderElectionID
	}
	return process.New(&options.Options, definition)
}

// Add adds replication to a manager. The manager's cache needs the namespaces of tenants, and the
// Secrets in them.
func Add(mgr ctrl.Manager, options Options) error {
	local, err := dynamic.NewForConfig(deadline.Wrap(options.Config, 0))
	if err != nil {
		return fmt.Errorf("creating the client of the local cluster: %w", err)
	}
	reconciler := &replication.Reconciler{
		Client: mgr.GetClient(), Events: events.New(mgr, "longshore-replicator", time.Now),
		Options: replication.Options{
			Now:       time.Now,
			ClusterID: options.ClusterID,
			Resources: []schema.GroupVersionResource{
				offloadingv1beta1.GroupVersion.WithResource("namespacemaps"),
				authv1beta1.GroupVersion.WithResource("resourceslices"),
				authv1beta1.GroupVersion.WithResource("renews"),
			},
			Resync:  options.ResyncPeriod,
			Local:   local,
			Connect: func(config *rest.Config) (dynamic.Interface, error) { return dynamic.NewForConfig(config) },
		},
	}
	if err := reconciler.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("adding controller replication: %w", err)
	}
	return nil
}
