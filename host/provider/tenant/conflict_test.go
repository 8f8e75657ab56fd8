package tenant

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
	"github.com/longshore-dev/longshore/host/peering/authentication"
)

// TestAClusterIDIsNoNameOfAnotherUser holds S5 of the wire: a consumer chooses its cluster ID,
// which becomes a user and a group of the provider.
func TestAClusterIDIsNoNameOfAnotherUser(t *testing.T) {
	subjects := func(kind, name string) []rbacv1.Subject {
		return []rbacv1.Subject{{Kind: "User", Name: "alice"}, {Kind: kind, Name: name}}
	}
	admin := rbacv1.RoleRef{Kind: "ClusterRole", Name: "admin"}
	named := func(labels map[string]string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: "b", Namespace: "default", Labels: labels}
	}
	for name, tc := range map[string]struct {
		binding client.Object
		refused bool
	}{
		"a group of the cluster":         {&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "b"}, RoleRef: admin, Subjects: subjects("Group", "rome")}, true},
		"a user of a namespace":          {&rbacv1.RoleBinding{ObjectMeta: named(nil), RoleRef: admin, Subjects: subjects("User", "rome")}, true},
		"a binding of another consumer":  {&rbacv1.RoleBinding{ObjectMeta: named(map[string]string{"liqo.io/remote-cluster-id": "oslo"}), RoleRef: admin, Subjects: subjects("User", "rome")}, true},
		"a binding for this consumer":    {&rbacv1.RoleBinding{ObjectMeta: named(map[string]string{"liqo.io/remote-cluster-id": "rome"}), RoleRef: admin, Subjects: subjects("User", "rome")}, false},
		"a service account of that name": {&rbacv1.RoleBinding{ObjectMeta: named(nil), RoleRef: admin, Subjects: subjects("ServiceAccount", "rome")}, false},
		"another group":                  {&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "b"}, RoleRef: admin, Subjects: subjects("Group", "romes")}, false},
		"the binding of the peering":     {authentication.ClusterRoleBinding("rome"), false},
		"a binding made by hand":         {&rbacv1.RoleBinding{ObjectMeta: named(nil), RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "liqo-virtual-kubelet-remote"}, Subjects: subjects("Group", "rome")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			tenant := &authv1beta1.Tenant{
				ObjectMeta: metav1.ObjectMeta{Name: "rome", Namespace: "liqo-tenant-rome"},
				Spec:       authv1beta1.TenantSpec{ClusterID: "rome", AuthzPolicy: ptr.To(authv1beta1.TolerateNoHandshake)},
			}
			c := fakeclient.Builder(authentication.TenantNamespace("rome"), tenant, tc.binding).Build()
			r := &Reconciler{Client: c, Events: events.NewFakeRecorder(10), Clock: clocktesting.NewFakePassiveClock(time.Unix(1000, 0))}
			_, err := r.Reconcile(t.Context(), tenant)
			require.NoError(t, err)
			require.Len(t, tenant.Status.Conditions, 1)
			if !tc.refused {
				assert.Equal(t, reasonTolerated, tenant.Status.Conditions[0].Reason)
				return
			}
			assert.Equal(t, reasonIDInUse, tenant.Status.Conditions[0].Reason)
			assert.Contains(t, tenant.Status.Conditions[0].Message, "b gives rights to a user or group \"rome\"")

			tenant.Status.AuthParams = &authv1beta1.AuthParams{}
			refused, err := r.checkID(t.Context(), tenant)
			require.NoError(t, err)
			assert.Nil(t, refused, "a consumer that has credentials is not affected by later bindings")
		})
	}
}

// The namespace of a peering without longshorectl may get its labels after the Tenant.
func TestATenantOutsideOfItsNamespaceIsTriedAgain(t *testing.T) {
	tenant := &authv1beta1.Tenant{
		ObjectMeta: metav1.ObjectMeta{Name: "rome", Namespace: "liqo-tenant-rome"},
		Spec:       authv1beta1.TenantSpec{ClusterID: "rome", AuthzPolicy: ptr.To(authv1beta1.TolerateNoHandshake)},
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "liqo-tenant-rome"}}
	c := fakeclient.Builder(namespace, tenant).Build()
	r := &Reconciler{Client: c, Events: events.NewFakeRecorder(10), Clock: clocktesting.NewFakePassiveClock(time.Unix(1000, 0))}
	result, err := r.Reconcile(t.Context(), tenant)
	require.NoError(t, err)
	assert.Equal(t, reasonNotInTenantNamespace, tenant.Status.Conditions[0].Reason)
	assert.Positive(t, result.RequeueAfter)

	namespace.Labels = authentication.TenantNamespace("rome").Labels
	require.NoError(t, c.Update(t.Context(), namespace))
	_, err = r.Reconcile(t.Context(), tenant)
	require.NoError(t, err)
	assert.Equal(t, reasonTolerated, tenant.Status.Conditions[0].Reason)
}
