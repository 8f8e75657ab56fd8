package namespacemap

import (
	"context"
	"errors"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/provider"
)

// cleanupBinding is the RoleBinding that gives the manager the rights of the consumer in a kept
// namespace, for as long as it deletes the consumer's objects.
const cleanupBinding = "longshore-cleanup"

// errAccessPending is the error of a cleanup whose RoleBinding is not yet in effect.
var errAccessPending = errors.New("the API server does not grant the access yet")

// consumerKind is a kind of objects that a consumer creates in its remote namespaces.
type consumerKind struct {
	schema.GroupVersionKind

	// isAlwaysRemote means that only consumers create objects of the kind. Of others, those with the
	// origin label are the consumer's.
	isAlwaysRemote bool
}

// consumerKinds are in the order of deletion: pods end before what they use.
func consumerKinds() []consumerKind {
	core := corev1.SchemeGroupVersion.WithKind
	return []consumerKind{
		{offloadingv1beta1.GroupVersion.WithKind("ShadowPod"), true},
		{offloadingv1beta1.GroupVersion.WithKind("ShadowEndpointSlice"), true},
		{networkingv1.SchemeGroupVersion.WithKind("Ingress"), false},
		{core("Service"), false},
		{core("Secret"), false},
		{core("ConfigMap"), false},
		{core("PersistentVolumeClaim"), false},
	}
}

// isKept reports whether the provider keeps a namespace that is no longer offloaded.
func isKept(namespace *corev1.Namespace) bool {
	return namespace.Annotations[offloadingv1beta1.KeepNamespaceAnnotation] == "true" && namespace.DeletionTimestamp.IsZero()
}

// isReleased reports whether a namespace is kept and the consumer has nothing in it.
func (p *pass) isReleased(ctx context.Context, namespace *corev1.Namespace) (bool, error) {
	if !isKept(namespace) {
		return false, nil
	}
	for _, name := range []string{p.nm.Namespace, cleanupBinding} {
		exists, err := p.hasBinding(ctx, namespace.Name, name)
		if err != nil || exists {
			return false, err
		}
	}
	return true, nil
}

// hasBinding reads a RoleBinding without the cache, which may not have the last change of this
// controller.
func (p *pass) hasBinding(ctx context.Context, namespace, name string) (bool, error) {
	err := p.r.APIReader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &rbacv1.RoleBinding{})
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading RoleBinding %s/%s: %w", namespace, name, err)
	}
	return err == nil, nil
}

// release ends the consumer's access to a kept namespace and deletes the consumer's objects in it. It
// reports whether that is done. The manager has no right to these kinds of its own: it binds the
// consumer's role to itself in this namespace. This RoleBinding is also the record that the cleanup is
// not complete.
func (p *pass) release(ctx context.Context, namespace *corev1.Namespace) (bool, error) {
	if released, err := p.isReleased(ctx, namespace); err != nil || released {
		return released, err
	}
	name := namespace.Name
	if err := p.bindCleanup(ctx, name); err != nil {
		return false, err
	}
	if err := p.deleteBinding(ctx, name, p.nm.Namespace); err != nil {
		return false, err
	}
	if err := p.checkAccess(ctx, name); err != nil {
		return false, err
	}
	for _, kind := range consumerKinds() {
		if err := p.deleteObjects(ctx, name, kind); err != nil {
			return false, err
		}
	}
	if err := p.deleteBinding(ctx, name, cleanupBinding); err != nil {
		return false, err
	}
	p.r.Events.Eventf(p.nm, namespace, corev1.EventTypeNormal, reasonKept, actionMapNamespace,
		"Namespace %q is no longer offloaded and is kept. The consumer's objects in it were deleted, and tokens of service accounts that the consumer could read. Remove the annotation %s to delete the namespace.",
		name, offloadingv1beta1.KeepNamespaceAnnotation)
	return true, nil
}

// bindCleanup binds the consumer's role to the manager in a namespace.
func (p *pass) bindCleanup(ctx context.Context, namespace string) error {
	review := &authenticationv1.SelfSubjectReview{}
	if err := p.r.Client.Create(ctx, review); err != nil {
		return fmt.Errorf("reading the manager's own user: %w", err)
	}
	err := p.r.Client.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{
			Name: cleanupBinding, Namespace: namespace, Labels: map[string]string{liqocorev1beta1.ManagedByLabel: liqocorev1beta1.ManagedByValue},
		},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: provider.NamespaceRole},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: review.Status.UserInfo.Username}},
	})
	if client.IgnoreAlreadyExists(err) != nil {
		return fmt.Errorf("creating RoleBinding %s/%s: %w", namespace, cleanupBinding, err)
	}
	return nil
}

func (p *pass) deleteBinding(ctx context.Context, namespace, name string) error {
	err := p.r.Client.Delete(ctx, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting RoleBinding %s/%s: %w", namespace, name, err)
	}
	return nil
}

// checkAccess returns an error unless the API server already knows the RoleBinding of the cleanup.
func (p *pass) checkAccess(ctx context.Context, namespace string) error {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "delete", Resource: "configmaps"},
	}}
	if err := p.r.Client.Create(ctx, review); err != nil {
		return fmt.Errorf("reviewing the access to namespace %q: %w", namespace, err)
	}
	if !review.Status.Allowed {
		return fmt.Errorf("RoleBinding %s/%s: %w", namespace, cleanupBinding, errAccessPending)
	}
	return nil
}

// deleteObjects deletes the consumer's objects of a kind. It reads their metadata only. Claims whose
// reclaim policy in the consumer is Retain stay, with their data.
func (p *pass) deleteObjects(ctx context.Context, namespace string, kind consumerKind) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := p.r.APIReader.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("listing objects of kind %s in namespace %q: %w", kind.Kind, namespace, err)
	}
	var errs []error
	for i := range list.Items {
		object := &list.Items[i]
		if !p.isOfConsumer(object, kind) {
			continue
		}
		if kind.Kind == "PersistentVolumeClaim" && object.Annotations[offloadingv1beta1.ReclaimPolicyAnnotation] == string(corev1.PersistentVolumeReclaimRetain) {
			continue
		}
		object.SetGroupVersionKind(kind.GroupVersionKind)
		if err := p.deleteObject(ctx, object, kind); client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("deleting %s %s/%s: %w", kind.Kind, namespace, object.Name, err))
		}
	}
	return errors.Join(errs...)
}

// isOfConsumer reports whether an object in a kept namespace goes with the consumer. A Secret with the
// token of a service account goes, also that of an administrator: the consumer could read it, and could create one
// without a label.
func (p *pass) isOfConsumer(object client.Object, kind consumerKind) bool {
	return kind.isAlwaysRemote || object.GetLabels()[offloadingv1beta1.OriginLabel] == p.origin ||
		kind.Kind == "Secret" && object.GetAnnotations()[corev1.ServiceAccountNameKey] != ""
}

// deleteObject deletes an object. The pod of a ShadowPod ends when the ShadowPod is gone: finalizers of others, which
// consumers could set before the API server refused it, do not keep it.
func (p *pass) deleteObject(ctx context.Context, object *metav1.PartialObjectMetadata, kind consumerKind) error {
	err := p.r.Client.Delete(ctx, object, client.Preconditions{UID: &object.UID}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if err != nil || !kind.isAlwaysRemote || len(object.Finalizers) == 0 {
		return err //nolint:wrapcheck // the caller adds what was being done
	}
	return p.r.Client.Patch(ctx, object, client.RawPatch(types.MergePatchType, //nolint:wrapcheck // likewise
		fmt.Appendf(nil, `{"metadata":{"uid":%q,"finalizers":null}}`, object.UID)))
}
