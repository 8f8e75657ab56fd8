package tenant

import (
	"context"
	"errors"
	"fmt"
	"slices"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/provider"
	"github.com/longshore-dev/longshore/host/peering/authentication"
)

// bindControlPlane binds the role in the tenant namespace. A binding that exists with other
// subjects or another role gives a wrong party rights, so it is replaced (S6).
func (r *Reconciler) bindControlPlane(ctx context.Context, tenant *authv1beta1.Tenant) error {
	want := authentication.RoleBinding(tenant.Namespace, tenant.Spec.ClusterID)
	if err := controllerutil.SetControllerReference(tenant, want, r.Client.Scheme()); err != nil {
		return fmt.Errorf("setting the owner of RoleBinding %q: %w", want.Name, err)
	}
	have := &rbacv1.RoleBinding{}
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(want), have)
	return r.bind(ctx, want, have, err, have.RoleRef == want.RoleRef && equality.Semantic.DeepEqual(have.Subjects, want.Subjects))
}

// bindVirtualKubelets binds the role in the cluster.
func (r *Reconciler) bindVirtualKubelets(ctx context.Context, tenant *authv1beta1.Tenant) error {
	want := authentication.ClusterRoleBinding(tenant.Spec.ClusterID)
	have := &rbacv1.ClusterRoleBinding{}
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(want), have)
	return r.bind(ctx, want, have, err, have.RoleRef == want.RoleRef && equality.Semantic.DeepEqual(have.Subjects, want.Subjects))
}

// isolate keeps the priority level of the consumer's requests. An administrator may give it other shares.
//
// +kubebuilder:rbac:groups=flowcontrol.apiserver.k8s.io,resources=flowschemas;prioritylevelconfigurations,verbs=get;list;watch;create;delete
func (r *Reconciler) isolate(ctx context.Context, tenant *authv1beta1.Tenant) error {
	level, schema := authentication.Isolation(tenant.Spec.ClusterID)
	haveLevel, haveSchema := &flowcontrolv1.PriorityLevelConfiguration{}, &flowcontrolv1.FlowSchema{}
	return errors.Join(
		r.bind(ctx, level, haveLevel, r.Client.Get(ctx, client.ObjectKeyFromObject(level), haveLevel), true),
		r.bind(ctx, schema, haveSchema, r.Client.Get(ctx, client.ObjectKeyFromObject(schema), haveSchema), true),
	)
}

// endIsolation removes it; no garbage collector does.
func (r *Reconciler) endIsolation(ctx context.Context, tenant *authv1beta1.Tenant) error {
	level, schema := authentication.Isolation(tenant.Spec.ClusterID)
	for _, object := range []client.Object{schema, level} {
		if err := r.Client.Delete(ctx, object); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting %s %q: %w", object.GetObjectKind().GroupVersionKind().Kind, object.GetName(), err)
		}
	}
	return nil
}

// bind creates a binding, or replaces one that differs; err is that of reading it.
func (r *Reconciler) bind(ctx context.Context, want, have client.Object, err error, equal bool) error {
	kind := want.GetObjectKind().GroupVersionKind().Kind
	switch {
	case err == nil && equal:
		return nil
	case err == nil:
		if err := r.Client.Delete(ctx, have); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting %s %q, which binds something else: %w", kind, have.GetName(), err)
		}
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("reading %s %q: %w", kind, want.GetName(), err)
	}
	if err := r.Client.Create(ctx, want); err != nil {
		return fmt.Errorf("creating %s %q: %w", kind, want.GetName(), err)
	}
	return nil
}

// unbindVirtualKubelets removes the binding in the cluster, which no garbage collector removes
// with the Tenant.
func (r *Reconciler) unbindVirtualKubelets(ctx context.Context, tenant *authv1beta1.Tenant) error {
	binding := authentication.ClusterRoleBinding(tenant.Spec.ClusterID)
	if err := r.Client.Delete(ctx, binding); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting ClusterRoleBinding %q: %w", binding.Name, err)
	}
	return nil
}

// unbindNamespaces takes the rights of a consumer in its remote namespaces, whatever NamespaceMap they
// belong to. Package namespacemap withdraws the namespaces, and restores no rights of an ended Tenant.
func (r *Reconciler) unbindNamespaces(ctx context.Context, tenant *authv1beta1.Tenant) error {
	list := &rbacv1.RoleBindingList{}
	if err := r.Client.List(ctx, list); err != nil {
		return fmt.Errorf("listing RoleBindings: %w", err)
	}
	group := authentication.SliceSubject(tenant.Spec.ClusterID, "").Group
	var errs []error
	for i := range list.Items {
		binding := &list.Items[i]
		if binding.RoleRef.Name == provider.NamespaceRole && slices.ContainsFunc(binding.Subjects, func(s rbacv1.Subject) bool {
			return s.Kind == rbacv1.GroupKind && s.Name == group
		}) {
			errs = append(errs, authentication.EndAccess(ctx, r.Client, binding))
		}
	}
	return errors.Join(errs...)
}

func (r *Reconciler) unbindControlPlane(ctx context.Context, tenant *authv1beta1.Tenant) error {
	binding := authentication.RoleBinding(tenant.Namespace, tenant.Spec.ClusterID)
	if err := r.Client.Delete(ctx, binding); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting RoleBinding %q: %w", binding.Name, err)
	}
	return nil
}
