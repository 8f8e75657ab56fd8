package webhook

import (
	"context"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// selectName selects the object with the name, to which RBAC restricts the watch.
func selectName(name string) cache.ByObject {
	return cache.ByObject{Field: fields.OneTermEqualSelector(metav1.ObjectNameField, name)}
}

// watchConfigurations returns a channel that receives a value after events of the webhook
// configurations in the cache. A configuration that is recreated has no caBundle, and the webhook
// is not called until it has one.
func watchConfigurations(ctx context.Context, informers cache.Informers) (<-chan struct{}, error) {
	changes := make(chan struct{}, 1)
	notify := func(any) {
		select {
		case changes <- struct{}{}:
		default: // A value is pending.
		}
	}
	for _, kind := range []client.Object{&admissionregistrationv1.MutatingWebhookConfiguration{}, &admissionregistrationv1.ValidatingWebhookConfiguration{}} {
		informer, err := informers.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, fmt.Errorf("watching the webhook configurations: %w", err)
		}
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: notify, UpdateFunc: func(_, obj any) { notify(obj) },
		}); err != nil {
			return nil, fmt.Errorf("watching the webhook configurations: %w", err)
		}
	}
	return changes, nil
}
