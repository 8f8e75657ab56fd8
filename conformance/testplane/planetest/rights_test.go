package planetest_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
)

func TestAwaitRightsReturnsWhenEveryRuleOfABindingIsInEffect(t *testing.T) {
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "remote"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"apps"}, Resources: []string{"deployments/scale"}, ResourceNames: []string{"web"}, Verbs: []string{"get", "update"}},
		{NonResourceURLs: []string{"/metrics/*"}, Verbs: []string{"get"}},
	}}
	ref := rbacv1.RoleRef{Kind: "ClusterRole", Name: "remote"}
	for sentence, tc := range map[string]struct {
		subject rbacv1.Subject
		user    string
		groups  []string
	}{
		"a ServiceAccount": {rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "longshore", Name: "manager"}, "system:serviceaccount:longshore:manager", nil},
		"a group":          {rbacv1.Subject{Kind: rbacv1.GroupKind, Name: "rome"}, "", []string{"rome"}},
		"a user":           {rbacv1.Subject{Kind: rbacv1.UserKind, Name: "milan"}, "milan", nil},
	} {
		t.Run(sentence, func(t *testing.T) {
			const denials = 3
			var reviews []authorizationv1.SubjectAccessReviewSpec
			admin := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(role).WithInterceptorFuncs(interceptor.Funcs{
				Create: func(_ context.Context, _ client.WithWatch, object client.Object, _ ...client.CreateOption) error {
					review := object.(*authorizationv1.SubjectAccessReview)
					reviews = append(reviews, review.Spec)
					review.Status.Allowed = len(reviews) > denials
					return nil
				},
			}).Build()
			planetest.AwaitRights(t, admin, &corev1.Namespace{}, &rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "remote"}, RoleRef: ref, Subjects: []rbacv1.Subject{tc.subject},
			})
			require.Len(t, reviews, denials+2, "it asks again until both rules allow a request")
			assert.Equal(t, []authorizationv1.SubjectAccessReviewSpec{
				{User: tc.user, Groups: tc.groups, ResourceAttributes: &authorizationv1.ResourceAttributes{
					Namespace: "shop", Verb: "get", Group: "apps", Resource: "deployments", Subresource: "scale", Name: "web",
				}},
				{User: tc.user, Groups: tc.groups, NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/metrics/", Verb: "get"}},
			}, reviews[denials:])
		})
	}
}

func TestAwaitServiceAccountsReturnsWhenANamespaceHasItsOwn(t *testing.T) {
	reads := 0
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "default"}}
	admin := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if reads++; reads == 3 {
				if err := c.Create(ctx, account); err != nil {
					return err
				}
			}
			return c.Get(ctx, key, object, options...)
		},
	}).Build()
	planetest.AwaitServiceAccounts(t, admin, &corev1.Pod{}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	assert.Equal(t, 3, reads)
}
