package chart_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
)

// bindInTenantNamespace gives the manager, the replicator and the hook their rights in a tenant namespace,
// and waits until they have them.
func bindInTenantNamespace(t *testing.T, admin client.Client, namespace string) {
	t.Helper()
	var subjects []rbacv1.Subject
	for _, name := range []string{"longshore-manager", "longshore-replicator", hookName} {
		subjects = append(subjects, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "longshore", Name: name})
	}
	binding := bindIn("longshore-manager-tenant-namespace")
	binding.Name, binding.Namespace, binding.Subjects = "longshore-manager-tenant-namespace", namespace, subjects
	require.NoError(t, client.IgnoreAlreadyExists(admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: binding.Namespace}})))
	require.NoError(t, admin.Create(t.Context(), binding))
	for _, subject := range subjects {
		planetest.Until(t, func(t planetest.T) bool {
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User:               "system:serviceaccount:longshore:" + subject.Name,
				ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: binding.Namespace, Verb: "list", Resource: "secrets"},
			}}
			require.NoError(t, admin.Create(t.Context(), review))
			return review.Status.Allowed
		}, established, poll, "%s reads Secrets of the tenant namespace", subject.Name)
	}
}

// testRightsOnSecrets tries to reach Secrets where the accounts need them, and elsewhere.
func testRightsOnSecrets(t *testing.T, scheme *runtime.Scheme, config *rest.Config) {
	t.Helper()
	get := func(namespace, name string) func(client.Client) error {
		return func(c client.Client) error {
			return c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &corev1.Secret{})
		}
	}
	list := func(namespace string) func(client.Client) error {
		return func(c client.Client) error {
			return c.List(t.Context(), &corev1.SecretList{}, client.InNamespace(namespace))
		}
	}
	patch := func(c client.Client) error {
		return c.Patch(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "any", Namespace: "default"}}, client.RawPatch(types.MergePatchType, []byte(`{}`)))
	}
	isolate := func(namespace string) func(client.Client) error {
		return func(c client.Client) error {
			return c.Create(t.Context(), &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "any"}}, client.DryRunAll)
		}
	}
	for name, tc := range map[string]struct {
		who     string
		do      func(client.Client) error
		allowed bool
	}{
		"the manager lists Secrets of a tenant namespace":       {"longshore-manager", list("liqo-tenant-milan"), true},
		"the manager reads the cluster's key pair":              {"longshore-manager", get("longshore", "authentication-keys"), true},
		"the manager reads no other Secret beside it":           {"longshore-manager", get("longshore", "longshore-webhook-certs"), false},
		"the manager reads no Secret of another namespace":      {"longshore-manager", get("default", "any"), false},
		"the manager patches no Secret of another namespace":    {"longshore-manager", patch, false},
		"the manager does not list all Secrets":                 {"longshore-manager", list(""), false},
		"the manager isolates virtual kubelets":                 {"longshore-manager", isolate("liqo-tenant-milan"), true},
		"the manager isolates no pods of users":                 {"longshore-manager", isolate("default"), false},
		"the hook of helm uninstall lists such Secrets":         {hookName, list("liqo-tenant-milan"), true},
		"the hook of helm uninstall lists no other Secrets":     {hookName, list("default"), false},
		"the replicator lists Secrets of a tenant namespace":    {"longshore-replicator", list("liqo-tenant-milan"), true},
		"the replicator reads no Secret of another namespace":   {"longshore-replicator", get("default", "any"), false},
		"the replicator patches no Secret of another namespace": {"longshore-replicator", patch, false},
		"the replicator does not list all Secrets":              {"longshore-replicator", list(""), false},
		"the replicator does not read the cluster's key pair":   {"longshore-replicator", get("longshore", "authentication-keys"), false},
	} {
		t.Run(name, func(t *testing.T) {
			err := tc.do(asComponent(t, config, scheme, tc.who))
			if tc.allowed {
				assert.NoError(t, client.IgnoreNotFound(err))
				return
			}
			assert.True(t, apierrors.IsForbidden(err), "want Forbidden, got %v", err)
		})
	}
}
