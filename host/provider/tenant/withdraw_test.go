package tenant

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
	"github.com/longshore-dev/longshore/host/forge/provider"
	"github.com/longshore-dev/longshore/host/peering/authentication"
)

// TestWhatADeletedTenantTakesBack holds S9 of the wire: certificates cannot be revoked, so what
// they give rights on must go.
func TestWhatADeletedTenantTakesBack(t *testing.T) {
	const namespace = "liqo-tenant-rome"
	named := func(name string, labels map[string]string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}
	}
	copied := map[string]string{liqocorev1beta1.ReplicatedLabel: "true", liqocorev1beta1.OriginIDLabel: "rome"}
	own := map[string]string{liqocorev1beta1.ReplicationLabel: "true", liqocorev1beta1.RemoteIDLabel: "rome"}
	tenantOf := func(name string, cluster liqocorev1beta1.ClusterID, accepted string) *authv1beta1.Tenant {
		return &authv1beta1.Tenant{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Finalizers: []string{authv1beta1.TenantFinalizer}},
			Spec:       authv1beta1.TenantSpec{ClusterID: cluster}, Status: authv1beta1.TenantStatus{TenantNamespace: accepted},
		}
	}
	for name, tc := range map[string]struct {
		deleted   *authv1beta1.Tenant
		others    []client.Object
		relabeled bool
		taken     bool
	}{
		"the Tenant of the consumer":                                {deleted: tenantOf("rome", "rome", namespace), taken: true},
		"one that was never accepted":                               {deleted: tenantOf("rome", "rome", ""), taken: true},
		"one whose namespace has lost its labels":                   {deleted: tenantOf("rome", "rome", namespace), relabeled: true, taken: true},
		"one of another cluster, which was never accepted":          {deleted: tenantOf("oslo", "oslo", "")},
		"a second one of the same cluster":                          {deleted: tenantOf("again", "rome", ""), others: []client.Object{tenantOf("rome", "rome", namespace)}},
		"the Tenant of the consumer beside that of another cluster": {deleted: tenantOf("rome", "rome", namespace), others: []client.Object{tenantOf("oslo", "oslo", "")}, taken: true},
	} {
		t.Run(name, func(t *testing.T) {
			home := authentication.TenantNamespace("rome")
			if tc.relabeled {
				home.Labels = nil
			}
			inShop := func(subject string) *rbacv1.RoleBinding {
				return &rbacv1.RoleBinding{
					ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: subject},
					RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: provider.NamespaceRole},
					Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: subject}},
				}
			}
			access, others := inShop("rome"), inShop("oslo")
			taken := []client.Object{
				// Whatever labels the consumer has given them.
				&authv1beta1.ResourceSlice{ObjectMeta: named("ghost", nil)}, &offloadingv1beta1.NamespaceMap{ObjectMeta: named("ghost", nil)},
				&offloadingv1beta1.NamespaceMap{ObjectMeta: named("disguised", map[string]string{liqocorev1beta1.ReplicatedLabel: "true", liqocorev1beta1.ReplicationLabel: "true"})},
				&authv1beta1.Renew{ObjectMeta: named("milan", copied)},
				&authv1beta1.ResourceSlice{ObjectMeta: named("milan", copied)}, &offloadingv1beta1.NamespaceMap{ObjectMeta: named("milan", copied)},
				authentication.RoleBinding(namespace, "rome"), authentication.ClusterRoleBinding("rome"),
			}
			level, schema := authentication.Isolation("rome")
			taken = append(taken, level, schema)
			kept := []client.Object{
				&authv1beta1.ResourceSlice{ObjectMeta: named("rome", own)}, &offloadingv1beta1.NamespaceMap{ObjectMeta: named("rome", own)},
				authentication.ClusterRoleBinding("oslo"), &authv1beta1.Renew{ObjectMeta: named("rome", own)}, access, others,
			}
			level, schema = authentication.Isolation("oslo")
			kept = append(kept, level, schema)
			deleted := tc.deleted.DeepCopy()
			deleted.UID = "deleted"
			c := fakeclient.Builder(home, deleted).WithObjects(tc.others...).WithObjects(taken...).WithObjects(kept...).Build()
			require.NoError(t, c.Delete(t.Context(), deleted))
			require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(deleted), deleted))
			r := &Reconciler{Client: c, Events: events.NewFakeRecorder(10), Clock: clocktesting.NewFakePassiveClock(time.Unix(1000, 0))}
			_, err := r.Reconcile(t.Context(), deleted)
			require.NoError(t, err)
			assert.True(t, apierrors.IsNotFound(c.Get(t.Context(), client.ObjectKeyFromObject(deleted), deleted)), "the Tenant is gone")
			for _, object := range taken {
				err := c.Get(t.Context(), client.ObjectKeyFromObject(object), object)
				assert.Equal(t, tc.taken, apierrors.IsNotFound(err), "%T %s", object, object.GetName())
			}
			require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(access), access))
			assert.Equal(t, tc.taken, len(access.Subjects) == 0, "its rights in remote namespaces end")
			require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(others), others))
			assert.Len(t, others.Subjects, 1)
			for _, object := range kept {
				assert.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(object), object), "%T %s", object, object.GetName())
			}
		})
	}
}
