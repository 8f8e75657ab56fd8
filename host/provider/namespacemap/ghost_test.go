package namespacemap

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
	"github.com/longshore-dev/longshore/host/forge/provider"
	"github.com/longshore-dev/longshore/host/peering/authentication"
)

// foreign is a finalizer of the consumer's.
const foreign = "example.com/stays"

func tenantOf(name string, id liqocorev1beta1.ClusterID, change func(*authv1beta1.Tenant)) *authv1beta1.Tenant {
	tenant := &authv1beta1.Tenant{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: name}, Spec: authv1beta1.TenantSpec{ClusterID: id},
	}
	if change != nil {
		change(tenant)
	}
	return tenant
}

func drained(t *authv1beta1.Tenant) { t.Spec.TenantCondition = authv1beta1.TenantConditionDrained }

// Rights end with the deletion of the NamespaceMap and with the Tenant, whatever keeps the objects.
func TestRightsEndWhateverKeepsTheNamespaceMap(t *testing.T) {
	now := metav1.Now()
	deleted := func(nm *offloadingv1beta1.NamespaceMap) { nm.DeletionTimestamp = &now }
	for name, tc := range map[string]struct {
		change  func(*offloadingv1beta1.NamespaceMap)
		tenants []client.Object
		stays   bool
	}{
		"it is deleted":                           {change: deleted},
		"it is deleted, without labels":           {change: func(nm *offloadingv1beta1.NamespaceMap) { deleted(nm); nm.Labels = nil }},
		"it is deleted, without status":           {change: func(nm *offloadingv1beta1.NamespaceMap) { deleted(nm); nm.Status.CurrentMapping = nil }},
		"its Tenant is drained":                   {tenants: []client.Object{tenantOf("rome", "rome", drained)}},
		"its Tenant is being deleted":             {tenants: []client.Object{tenantOf("rome", "rome", func(t *authv1beta1.Tenant) { t.DeletionTimestamp, t.Finalizers = &now, []string{"x/y"} })}},
		"its Tenant is active":                    {tenants: []client.Object{tenantOf("rome", "rome", nil)}, stays: true},
		"its Tenant is cordoned":                  {tenants: []client.Object{tenantOf("rome", "rome", func(t *authv1beta1.Tenant) { t.Spec.TenantCondition = authv1beta1.TenantConditionCordoned })}, stays: true},
		"one of two Tenants is active":            {tenants: []client.Object{tenantOf("again", "rome", drained), tenantOf("rome", "rome", nil)}, stays: true},
		"the Tenant of another cluster has ended": {tenants: []client.Object{tenantOf("oslo", "oslo", drained)}, stays: true},
		"it was peered by hand":                   {stays: true},
	} {
		t.Run(name, func(t *testing.T) {
			nm, namespace, binding := accepted()
			nm.Finalizers = append(nm.Finalizers, foreign)
			if tc.change != nil {
				tc.change(nm)
			}
			// The deletion of the namespace takes as long as the consumer's finalizers.
			namespace.Finalizers = []string{foreign}
			c, _, err := reconcileOnce(t, nm, append(tc.tenants, namespace, binding)...)
			require.NoError(t, err)
			assert.Equal(t, tc.stays, len(bindingIn(t, c, "shop-rome").Subjects) == 1)
			current := &corev1.Namespace{}
			require.NoError(t, c.Get(t.Context(), client.ObjectKey{Name: "shop-rome"}, current))
			assert.Equal(t, tc.stays, current.DeletionTimestamp.IsZero())
		})
	}
}

// What must be done before a namespace is deleted may fail for long. Rights do not wait for it.
func TestRightsEndBeforeWhatMayFail(t *testing.T) {
	nm, namespace, binding := accepted()
	namespace.Labels, namespace.Annotations = nil, nil // only the RoleBinding says whose it is
	nm.Spec.DesiredMapping = nil
	c := fakeclient.Builder(nm, namespace, binding, authentication.TenantNamespace("rome")).Build()
	fails := errors.New("the volume is not kept")
	r := &Reconciler{Clock: clock.RealClock{}, Client: c, APIReader: c, Events: events.NewFakeRecorder(10), Retain: func(context.Context, string) error { return fails }}
	for range 2 {
		_, err := r.reconcileRequest(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(nm)})
		require.ErrorIs(t, err, fails)
		assert.Empty(t, bindingIn(t, c, "shop-rome").Subjects)
	}
	fails = nil
	_, err := r.reconcileRequest(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(nm)})
	require.NoError(t, err)
	assert.Error(t, c.Get(t.Context(), client.ObjectKeyFromObject(namespace), namespace), "the RoleBinding still says that it is the consumer's")
}

// A consumer that removes the finalizer, or makes its NamespaceMap look like one of the provider's own,
// leaves its namespaces without a NamespaceMap.
func TestRightsEndWhenTheNamespaceMapIsGone(t *testing.T) {
	for name, change := range map[string]func(*offloadingv1beta1.NamespaceMap){
		"it does not exist": func(nm *offloadingv1beta1.NamespaceMap) { nm.Name = "other" },
		"it has neither labels nor finalizer": func(nm *offloadingv1beta1.NamespaceMap) {
			nm.Labels, nm.Finalizers = nil, nil
		},
		"it looks like the provider's own": func(nm *offloadingv1beta1.NamespaceMap) {
			nm.Labels = map[string]string{liqocorev1beta1.ReplicationLabel: "true", liqocorev1beta1.RemoteIDLabel: "rome"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			nm, namespace, binding := accepted()
			key := client.ObjectKeyFromObject(nm)
			change(nm)
			spec := nm.Spec.DeepCopy()
			others := provider.RoleBinding(&offloadingv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-oslo", Name: "milan"}}, "oslo", "shop-oslo")
			c := fakeclient.Builder(nm, namespace, binding, others, authentication.TenantNamespace("rome")).Build()
			r := &Reconciler{Clock: clock.RealClock{}, Client: c, APIReader: c, Events: events.NewFakeRecorder(10)}
			_, err := r.reconcileRequest(t.Context(), reconcile.Request{NamespacedName: key})
			require.NoError(t, err)
			assert.Empty(t, bindingIn(t, c, "shop-rome").Subjects)
			require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(others), others))
			assert.Len(t, others.Subjects, 1)
			require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(namespace), namespace), "its data stay")

			again, _, _ := accepted()
			again.Spec = *spec
			if c.Get(t.Context(), client.ObjectKeyFromObject(nm), nm) == nil {
				nm.Finalizers = nil
				require.NoError(t, c.Update(t.Context(), nm))
				require.NoError(t, c.Delete(t.Context(), nm))
			}
			_, err = r.reconcileRequest(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(nm)})
			require.NoError(t, err)
			require.NoError(t, client.IgnoreAlreadyExists(c.Create(t.Context(), &offloadingv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{
				Namespace: key.Namespace, Name: key.Name, Labels: again.Labels, Finalizers: again.Finalizers,
			}, Spec: *spec})))
			_, err = r.reconcileRequest(t.Context(), reconcile.Request{NamespacedName: key})
			require.NoError(t, err)
			assert.Equal(t, []rbacv1.Subject{provider.ConsumerGroup("rome")}, bindingIn(t, c, "shop-rome").Subjects, "the same NamespaceMap gives them again")
		})
	}
}
