package kubelet

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/custom"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/consumer/reflection/mirror"
)

const (
	// customWorkers is the number of objects of a custom kind that are handled at once.
	customWorkers = 10
	// reflectionsManager owns the observations of ResourceReflections in the PolicyComponent.
	reflectionsManager = client.FieldOwner("longshore-reflections")
	// watchRetry is the pause before ResourceReflections are watched again after an error.
	watchRetry = 10 * time.Second
)

// newFollower returns what reflects the kinds of ResourceReflections in a session. compose makes
// an engine for the session's clusters.
func (a *App) newFollower(config *rest.Config, reflector *engine.Engine, compose func(...engine.Definition) (*engine.Engine, error)) (*custom.Follower, error) {
	local, err := custom.NewEnd(a.config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the consumer: %w", err)
	}
	remote, err := custom.NewEnd(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the provider: %w", err)
	}
	o := a.options
	return custom.New(custom.Options{
		Local: local, Remote: remote, ProviderClusterID: o.ForeignClusterID, Component: o.component(a.client).Name,
		RemoteSelector: labels.SelectorFromSet(labels.Set{
			offloadingv1beta1.OriginLabel: o.HomeClusterID, offloadingv1beta1.DestinationLabel: o.ForeignClusterID,
		}).String(),
		List: a.listReflections, Namespaces: reflector.Namespaces, Report: a.reportReflections,
		New: func(kind mirror.CustomResource, policy offloadingv1beta1.ReflectionType) (custom.Reflection, error) {
			return compose(kind.Define(mirror.Options{Origin: a.origin(), Policy: policy, Workers: customWorkers}))
		},
	}), nil
}

func (a *App) listReflections(ctx context.Context) ([]policyv1alpha1.ResourceReflection, error) {
	list := &policyv1alpha1.ResourceReflectionList{}
	if err := a.manager.GetClient().List(ctx, list); err != nil {
		return nil, fmt.Errorf("listing ResourceReflections: %w", err)
	}
	return list.Items, nil
}

// reportReflections writes the observations into the PolicyComponent of this virtual kubelet. The
// source of its policies owns the other fields.
func (a *App) reportReflections(ctx context.Context, observations []policyv1alpha1.ReflectionObservation) error {
	identity := a.options.component(a.client)
	key := identity.Object
	object := &policyv1alpha1.PolicyComponent{
		TypeMeta:   metav1.TypeMeta{APIVersion: policyv1alpha1.GroupVersion.String(), Kind: "PolicyComponent"},
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
		Status:     policyv1alpha1.PolicyComponentStatus{Component: identity.Name, Reflections: observations},
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return fmt.Errorf("encoding PolicyComponent %s: %w", key, err)
	}
	unstructured.RemoveNestedField(fields, "metadata", "creationTimestamp")
	err = a.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(&unstructured.Unstructured{Object: fields}),
		reflectionsManager, client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("writing PolicyComponent %s: %w", key, err)
	}
	return nil
}

// watchReflections calls the current session's follower after changes of ResourceReflections,
// until the context ends. It never stops the virtual kubelet: pods do not depend on it.
func (a *App) watchReflections(ctx context.Context) {
	changed := func() {
		if current := a.currentSession(); current != nil {
			current.custom.Changed()
		}
	}
	handler := toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { changed() },
		UpdateFunc: func(before, after any) {
			// The status is written by the manager.
			was, isObject := before.(client.Object)
			is, isObjectToo := after.(client.Object)
			if !isObject || !isObjectToo || was.GetGeneration() != is.GetGeneration() || was.GetUID() != is.GetUID() {
				changed()
			}
		},
		DeleteFunc: func(any) { changed() },
	}
	_ = wait.PollUntilContextCancel(ctx, watchRetry, true, func(ctx context.Context) (bool, error) {
		informer, err := a.manager.GetCache().GetInformer(ctx, &policyv1alpha1.ResourceReflection{})
		if err == nil {
			_, err = informer.AddEventHandler(handler)
		}
		if err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Watching ResourceReflections failed, trying again")
		}
		return err == nil, nil
	})
}
