package manager

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/validation"
	clientevents "k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/longshore-dev/longshore/host/consumer/storage"
	"github.com/longshore-dev/longshore/host/provider/retention"
)

// StorageOptions configure the volumes of claims with a virtual storage class. The names are
// those of the command's flags.
type StorageOptions struct {
	// Enabled provisions volumes, and offers the storage classes of this cluster to consumers.
	Enabled bool
	// RealClass is the class of volumes in this cluster, and the default of consumers; empty is
	// the cluster's default class.
	RealClass string
	// Namespace has the claims of volumes in this cluster.
	Namespace string
}

func (o *StorageOptions) validate() error {
	if !o.Enabled {
		return nil
	}
	var errs []error
	for _, problem := range validation.ValidateNamespaceName(o.Namespace, false) {
		errs = append(errs, fmt.Errorf("invalid --storage-namespace %q: %s", o.Namespace, problem))
	}
	return errors.Join(errs...)
}

// retain returns what keeps the data of consumers when a namespace is deleted; nil without
// storage: consumers have no claims.
func (o *StorageOptions) retain(mgr ctrl.Manager) func(ctx context.Context, namespace string) error {
	if !o.Enabled {
		return nil
	}
	return (&retention.Volumes{Client: mgr.GetClient(), APIReader: mgr.GetAPIReader()}).Retain
}

func addStorage(mgr ctrl.Manager, o *StorageOptions, recorder clientevents.EventRecorder) error {
	if !o.Enabled {
		return nil
	}
	return errors.Join(
		wrapSetup("storage-claim", (&storage.Claims{
			Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Events: recorder, RealClass: o.RealClass, Namespace: o.Namespace,
		}).SetupWithManager(mgr)),
		wrapSetup("storage-volume", (&storage.Volumes{
			Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Namespace: o.Namespace,
		}).SetupWithManager(mgr)),
	)
}
