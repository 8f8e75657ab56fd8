package planetest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// rightsTimeout is how long AwaitRights waits for the API server and the controller manager.
const rightsTimeout = 2 * time.Minute

// AwaitRights waits until the bindings among the objects are in effect: the API server learns about
// them, and about their roles, a moment after they were created.
func AwaitRights(tb testing.TB, admin client.Client, objects ...client.Object) {
	tb.Helper()
	for _, object := range objects {
		ref, subjects := bindingOf(tb, object)
		for _, subject := range subjects {
			Until(tb, func(t T) bool {
				rules, err := rulesOfRole(t.Context(), admin, ref, object.GetNamespace())
				return err == nil && areInEffect(t.Context(), admin, rules, object.GetNamespace(), subject)
			}, rightsTimeout, poll, "%s %s has the rights of %s %s in namespace %q", subject.Kind, subject.Name, ref.Kind, ref.Name, object.GetNamespace())
		}
	}
}

// AwaitServiceAccounts waits until the namespaces among the objects have their default ServiceAccount,
// without which the API server refuses pods.
func AwaitServiceAccounts(tb testing.TB, admin client.Client, objects ...client.Object) {
	tb.Helper()
	for _, object := range objects {
		namespace, ok := object.(*corev1.Namespace)
		if !ok {
			continue
		}
		Until(tb, func(t T) bool {
			return admin.Get(t.Context(), client.ObjectKey{Namespace: namespace.Name, Name: "default"}, &corev1.ServiceAccount{}) == nil
		}, rightsTimeout, poll, "namespace %s has its default ServiceAccount", namespace.Name)
	}
}

// bindingOf returns the role of a binding and who has it. Another object has no subjects.
func bindingOf(tb testing.TB, object client.Object) (rbacv1.RoleRef, []rbacv1.Subject) {
	tb.Helper()
	switch binding := object.(type) {
	case *rbacv1.RoleBinding:
		return binding.RoleRef, binding.Subjects
	case *rbacv1.ClusterRoleBinding:
		return binding.RoleRef, binding.Subjects
	case *unstructured.Unstructured:
		if kind := binding.GetKind(); kind == "RoleBinding" || kind == "ClusterRoleBinding" {
			typed := &rbacv1.RoleBinding{} // The fields of both are the same.
			require.NoError(tb, runtime.DefaultUnstructuredConverter.FromUnstructured(binding.Object, typed))
			return typed.RoleRef, typed.Subjects
		}
	}
	return rbacv1.RoleRef{}, nil
}

// rulesOfRole reads the rules of the role of a binding in a namespace.
func rulesOfRole(ctx context.Context, admin client.Client, ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, error) {
	if ref.Kind == "Role" {
		role := &rbacv1.Role{}
		err := admin.Get(ctx, client.ObjectKey{Namespace: namespace, Name: ref.Name}, role)
		return role.Rules, err //nolint:wrapcheck // AwaitRights asks again.
	}
	role := &rbacv1.ClusterRole{}
	err := admin.Get(ctx, client.ObjectKey{Name: ref.Name}, role)
	return role.Rules, err //nolint:wrapcheck // AwaitRights asks again.
}

// areInEffect reports whether a subject may make a request of each rule.
func areInEffect(ctx context.Context, admin client.Client, rules []rbacv1.PolicyRule, namespace string, subject rbacv1.Subject) bool {
	for _, rule := range rules {
		review := reviewOf(rule, namespace)
		switch subject.Kind {
		case rbacv1.ServiceAccountKind:
			review.Spec.User = "system:serviceaccount:" + subject.Namespace + ":" + subject.Name
		case rbacv1.GroupKind:
			review.Spec.Groups = []string{subject.Name}
		default:
			review.Spec.User = subject.Name
		}
		if admin.Create(ctx, review) != nil || !review.Status.Allowed {
			return false
		}
	}
	return len(rules) > 0 // The controller manager fills in aggregated ClusterRoles.
}

// reviewOf returns a review of one request that a rule allows, without its user.
func reviewOf(rule rbacv1.PolicyRule, namespace string) *authorizationv1.SubjectAccessReview {
	review := &authorizationv1.SubjectAccessReview{}
	if len(rule.Resources) == 0 {
		review.Spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{
			Path: strings.TrimSuffix(rule.NonResourceURLs[0], "*"), Verb: rule.Verbs[0],
		}
		return review
	}
	resource, subresource, _ := strings.Cut(rule.Resources[0], "/")
	review.Spec.ResourceAttributes = &authorizationv1.ResourceAttributes{
		Namespace: namespace, Verb: rule.Verbs[0], Group: rule.APIGroups[0], Resource: resource, Subresource: subresource,
		Name: first(rule.ResourceNames),
	}
	return review
}

func first(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return names[0]
}
