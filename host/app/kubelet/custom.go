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
	"github.com/longshore-dev/longshore/host/policysource/report"
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
func (v *virtualNode) newFollower(config *rest.Config, reflector *engine.Engine, compose func(...engine.Definition) (*engine.Engine, error)) (*custom.Follower, error) {
	local, err := custom.NewEnd(v.config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the consumer: %w", err)
	}
	remote, err := custom.NewEnd(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the provider: %w", err)
	}
	o := v.options
	return custom.New(custom.Options{
		Local: local, Remote: remote, ProviderClusterID: o.ForeignClusterID, Component: o.component(v.client).Name,
		RemoteSelector: labels.SelectorFromSet(labels.Set{
			offloadingv1beta1.OriginLabel: o.HomeClusterID, offloadingv1beta1.DestinationLabel: o.ForeignClusterID,
		}).String(),
		List: v.listReflections, Namespaces: reflector.Namespaces, Report: v.reportReflections, IsStandby: v.isStandby,
		New: func(kind mirror.CustomResource, policy offloadingv1beta1.ReflectionType) (custom.Reflection, error) {
			return compose(kind.Define(mirror.Options{Origin: v.origin(), Policy: policy, Workers: customWorkers}))
		},
	}), nil
}

func (v *virtualNode) listReflections(ctx context.Context) ([]policyv1alpha1.ResourceReflection, error) {
	list := &policyv1alpha1.ResourceReflectionList{}
	if err := v.manager.GetClient().List(ctx, list); err != nil {
		return nil, fmt.Errorf("listing ResourceReflections: %w", err)
	}
	return list.Items, nil
}

// isStandby reports whether another virtual node of a shared process reflects the shared objects.
func (v *virtualNode) isStandby() bool { return v.leadership != nil && !v.leadership.IsChosen(v) }

// reportReflections reports the observations of this virtual node's session. In a shared process,
// those of the virtual node that reflects for all are reported.
func (v *virtualNode) reportReflections(ctx context.Context, observations []policyv1alpha1.ReflectionObservation) error {
	if v.leadership != nil && !v.keepReport(observations) {
		return nil
	}
	return v.writeReflections(ctx, observations)
}

// writeReflections writes the observations into the PolicyComponent of this virtual kubelet. The
// source of its policies owns the other fields.
func (v *virtualNode) writeReflections(ctx context.Context, observations []policyv1alpha1.ReflectionObservation) error {
	return v.applyComponent(ctx, reflectionsManager, v.options.component(v.client), nil, policyv1alpha1.PolicyComponentStatus{Reflections: observations})
}

// applyComponent writes the fields of a manager into the PolicyComponent of this process.
func (s *shared) applyComponent(ctx context.Context, manager client.FieldOwner, identity report.Identity, owners []metav1.OwnerReference, status policyv1alpha1.PolicyComponentStatus) error {
	key := identity.Object
	status.Component = identity.Name
	object := &policyv1alpha1.PolicyComponent{
		TypeMeta:   metav1.TypeMeta{APIVersion: policyv1alpha1.GroupVersion.String(), Kind: "PolicyComponent"},
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, OwnerReferences: owners},
		Status:     status,
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return fmt.Errorf("encoding PolicyComponent %s: %w", key, err)
	}
	unstructured.RemoveNestedField(fields, "metadata", "creationTimestamp")
	err = s.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(&unstructured.Unstructured{Object: fields}),
		manager, client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("writing PolicyComponent %s: %w", key, err)
	}
	return nil
}

// watchReflections calls the current session's follower after changes of ResourceReflections,
// until the context ends. It never stops the virtual kubelet: pods do not depend on it.
func (v *virtualNode) watchReflections(ctx context.Context) {
	changed := func() {
		if current := v.currentSession(); current != nil {
			current.custom.Changed()
		}
	}
	handler := toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { changed() },
		UpdateFunc: func(before, after any) {
			// The status is written by the manager.
			b, isObject := before.(client.Object)
			a, isObjectToo := after.(client.Object)
			if !isObject || !isObjectToo || b.GetGeneration() != a.GetGeneration() || b.GetUID() != a.GetUID() {
				changed()
			}
		},
		DeleteFunc: func(any) { changed() },
	}
	_ = wait.PollUntilContextCancel(ctx, watchRetry, true, func(ctx context.Context) (bool, error) {
		informer, err := v.manager.GetCache().GetInformer(ctx, &policyv1alpha1.ResourceReflection{})
		var registration toolscache.ResourceEventHandlerRegistration
		if err == nil {
			registration, err = informer.AddEventHandler(handler)
		}
		if err == nil {
			removeOnEnd(ctx, informer, registration)
		} else {
			ctrl.LoggerFrom(ctx).Error(err, "Watching ResourceReflections failed, trying again")
		}
		return err == nil, nil
	})
}
