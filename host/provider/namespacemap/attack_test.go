package namespacemap

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/provider"
	"github.com/longshore-dev/longshore/host/peering/authentication"
)

func bindingIn(t *testing.T, c client.Client, namespace string) *rbacv1.RoleBinding {
	t.Helper()
	binding := &rbacv1.RoleBinding{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "liqo-tenant-rome"}, binding))
	return binding
}

func TestTheTenantNamespaceIdentifiesTheConsumer(t *testing.T) {
	nm := namespaceMap(map[string]string{"shop": "shop-rome"}, nil)
	nm.Labels[liqocorev1beta1.OriginIDLabel] = "oslo"
	nm.Labels[liqocorev1beta1.RemoteClusterIDLabel] = "oslo"
	c, _, err := reconcileOnce(t, nm)
	require.NoError(t, err)
	assert.Equal(t, "rome", bindingIn(t, c, "shop-rome").Subjects[0].Name, "the group that gets in")
	namespace := &corev1.Namespace{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Name: "shop-rome"}, namespace))
	assert.Equal(t, "rome", namespace.Labels[liqocorev1beta1.RemoteClusterIDLabel])
}

func TestANamespaceMapOutsideOfATenantNamespaceIsRejected(t *testing.T) {
	cases := map[string]func(*corev1.Namespace){
		"no tenant namespace":          func(n *corev1.Namespace) { n.Labels = nil },
		"the label is false":           func(n *corev1.Namespace) { n.Labels[liqocorev1beta1.TenantNamespaceLabel] = "false" },
		"one of no cluster":            func(n *corev1.Namespace) { delete(n.Labels, liqocorev1beta1.RemoteClusterIDLabel) },
		"one of a name that is no ID":  func(n *corev1.Namespace) { n.Labels[liqocorev1beta1.RemoteClusterIDLabel] = "Rome_1" },
		"one that the cache has not":   func(n *corev1.Namespace) { n.Name = "other" },
		"one that is another's prefix": func(n *corev1.Namespace) { n.Name = "liqo-tenant-rom" },
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			namespace := authentication.TenantNamespace("rome")
			change(namespace)
			nm := namespaceMap(map[string]string{"cart": "cart-rome", "shop": "shop-rome"}, mapping{
				"shop": {RemoteNamespace: "shop-rome", Phase: offloadingv1beta1.MappingAccepted},
				"gone": {RemoteNamespace: "gone-rome", Phase: offloadingv1beta1.MappingAccepted},
			})
			c, _, err := reconcileIn(t, nm, namespace, provider.Namespace(nm, "rome", "gone", "gone-rome"))
			require.Error(t, err)
			assert.True(t, apierrors.IsNotFound(c.Get(t.Context(), client.ObjectKey{Name: "cart-rome"}, &corev1.Namespace{})))
			require.NoError(t, c.Get(t.Context(), client.ObjectKey{Name: "gone-rome"}, &corev1.Namespace{}), "nothing is deleted")
			status := statusOf(t, c)
			assert.Equal(t, offloadingv1beta1.MappingCreationLoopBackOff, status["cart"].Phase)
			assert.NotEmpty(t, status["cart"].Message)
			assert.Equal(t, offloadingv1beta1.MappingAccepted, status["shop"].Phase, "its pods run")
		})
	}
}

func TestAReservedNameIsRejectedWithAMessage(t *testing.T) {
	for name, remote := range map[string]string{
		"the system's":                       "kube-dns",
		"a peer's tenant namespace to come":  "liqo-tenant-paris",
		"a name of another consumer":         "shop-oslo",
		"what exists and is the provider's":  "billing",
		"what exists and is another tenancy": "liqo-tenant-oslo",
	} {
		t.Run(name, func(t *testing.T) {
			billing := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "billing"}}
			c, seen, _ := reconcileOnce(t, namespaceMap(map[string]string{"shop": remote}, mapping{
				// The consumer may have written this itself.
				"shop": {RemoteNamespace: remote, Phase: offloadingv1beta1.MappingAccepted},
			}), billing)
			require.Len(t, seen, 1)
			status := statusOf(t, c)["shop"]
			assert.Equal(t, offloadingv1beta1.MappingCreationLoopBackOff, status.Phase)
			assert.Contains(t, status.Message, remote)
			bindings := &rbacv1.RoleBindingList{}
			require.NoError(t, c.List(t.Context(), bindings))
			assert.Empty(t, bindings.Items)
		})
	}
}

// accepted is a mapping that works, with its namespace and its binding.
func accepted() (*offloadingv1beta1.NamespaceMap, *corev1.Namespace, *rbacv1.RoleBinding) {
	nm := namespaceMap(map[string]string{"shop": "shop-rome"}, mapping{"shop": {RemoteNamespace: "shop-rome", Phase: offloadingv1beta1.MappingAccepted}})
	return nm, provider.Namespace(nm, "rome", "shop", "shop-rome"), provider.RoleBinding(nm, "rome", "shop-rome")
}

func TestChangesOfAManagedNamespaceAreReverted(t *testing.T) {
	cases := map[string]func(*corev1.Namespace, *rbacv1.RoleBinding){
		"its consumer's label is removed": func(n *corev1.Namespace, _ *rbacv1.RoleBinding) { n.Labels = nil },
		"its consumer's label is changed": func(n *corev1.Namespace, _ *rbacv1.RoleBinding) {
			n.Labels[liqocorev1beta1.RemoteClusterIDLabel] = "oslo"
		},
		"its NamespaceMap's name is removed": func(n *corev1.Namespace, _ *rbacv1.RoleBinding) {
			delete(n.Annotations, offloadingv1beta1.ManagedByNamespaceMapAnnotation)
		},
		"its NamespaceMap's name is changed": func(n *corev1.Namespace, _ *rbacv1.RoleBinding) {
			n.Annotations[offloadingv1beta1.ManagedByNamespaceMapAnnotation] = "a/b"
		},
		"its original name is removed": func(n *corev1.Namespace, _ *rbacv1.RoleBinding) {
			delete(n.Annotations, offloadingv1beta1.OriginalNameAnnotation)
		},
		"its original name is changed": func(n *corev1.Namespace, _ *rbacv1.RoleBinding) {
			n.Annotations[offloadingv1beta1.OriginalNameAnnotation] = "cart"
		},
		"all of it is replaced":             func(n *corev1.Namespace, _ *rbacv1.RoleBinding) { n.Labels, n.Annotations = nil, nil },
		"the binding's metadata is removed": func(_ *corev1.Namespace, b *rbacv1.RoleBinding) { b.Labels, b.Annotations = nil, nil },
		"another subject is in the binding": func(_ *corev1.Namespace, b *rbacv1.RoleBinding) {
			b.Subjects = append(b.Subjects, provider.ConsumerGroup("oslo"))
		},
		"the binding has no subject":             func(_ *corev1.Namespace, b *rbacv1.RoleBinding) { b.Subjects = nil },
		"metadata of others is none of our care": func(n *corev1.Namespace, b *rbacv1.RoleBinding) { n.Labels["team"], b.Labels["team"] = "x", "x" },
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			nm, namespace, binding := accepted()
			change(namespace, binding)
			kept := namespace.Labels["team"]
			c, _, err := reconcileOnce(t, nm, namespace, binding)
			require.NoError(t, err)
			assert.Equal(t, mapping{"shop": {RemoteNamespace: "shop-rome", Phase: offloadingv1beta1.MappingAccepted}}, statusOf(t, c))
			restored := &corev1.Namespace{}
			require.NoError(t, c.Get(t.Context(), client.ObjectKey{Name: "shop-rome"}, restored))
			assert.True(t, OwnedBy(restored, nm, "rome"))
			assert.Equal(t, "shop", restored.Annotations[offloadingv1beta1.OriginalNameAnnotation])
			assert.Equal(t, kept, restored.Labels["team"])
			got := bindingIn(t, c, "shop-rome")
			assert.True(t, OwnedBy(got, nm, "rome"))
			assert.Equal(t, []rbacv1.Subject{provider.ConsumerGroup("rome")}, got.Subjects)
		})
	}
}

func TestABindingToAnotherRoleIsReplaced(t *testing.T) {
	nm, namespace, binding := accepted()
	binding.RoleRef.Name = "cluster-admin"
	c, _, err := reconcileOnce(t, nm, namespace, binding)
	require.NoError(t, err)
	bindings := &rbacv1.RoleBindingList{}
	require.NoError(t, c.List(t.Context(), bindings))
	assert.Empty(t, bindings.Items, "its end is an event, and the next pass makes the right one")
}

func TestANamespaceWithChangedLabelsIsDeleted(t *testing.T) {
	nm, namespace, binding := accepted()
	nm.Spec.DesiredMapping = nil
	namespace.Labels, namespace.Annotations = nil, nil
	c, _, err := reconcileOnce(t, nm, namespace, binding)
	require.NoError(t, err)
	assert.True(t, apierrors.IsNotFound(c.Get(t.Context(), client.ObjectKey{Name: "shop-rome"}, &corev1.Namespace{})))
}

func TestANamespaceOfAFormerTenantIsNotAdopted(t *testing.T) {
	// The tenant namespace was rome's and is oslo's now.
	nm, namespace, binding := accepted()
	reused := authentication.TenantNamespace("oslo")
	reused.Name = "liqo-tenant-rome"
	c, _, err := reconcileIn(t, nm, namespace, binding, reused)
	require.ErrorIs(t, err, errNotManaged)
	assert.Equal(t, []rbacv1.Subject{provider.ConsumerGroup("rome")}, bindingIn(t, c, "shop-rome").Subjects)
}

func TestANamespaceThatIsNotInTheStatusIsDeleted(t *testing.T) {
	nm, namespace, binding := accepted()
	nm.Spec.DesiredMapping, nm.Status.CurrentMapping = nil, nil
	c, _, err := reconcileOnce(t, nm, namespace, binding)
	require.NoError(t, err)
	assert.True(t, apierrors.IsNotFound(c.Get(t.Context(), client.ObjectKey{Name: "shop-rome"}, &corev1.Namespace{})))

	nm, namespace, binding = accepted()
	now := metav1.Now()
	nm.DeletionTimestamp, nm.Status.CurrentMapping, nm.Labels = &now, nil, nil
	c, _, err = reconcileOnce(t, nm, namespace, binding)
	require.NoError(t, err)
	current := &offloadingv1beta1.NamespaceMap{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(nm), current), "it stays until its namespaces are gone, without labels as well")
}

func TestAStaleCacheDoesNotDeleteANamespaceThatIsNotInTheStatus(t *testing.T) {
	nm, namespace, binding := accepted()
	nm.Spec.DesiredMapping, nm.Status.CurrentMapping = nil, nil
	c, _, _ := reconcileOnce(t, namespaceMap(map[string]string{"shop": "shop-rome"}, nil), namespace, binding)
	live := &offloadingv1beta1.NamespaceMap{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(nm), live))
	nm.ResourceVersion = "1"
	require.NotEqual(t, live.ResourceVersion, nm.ResourceVersion)
	p := (&Reconciler{Clock: clock.RealClock{}, Client: c, APIReader: c}).newPass(t.Context(), nm)
	left, err := p.remove(t.Context(), nil)
	require.ErrorIs(t, err, errStale)
	assert.Equal(t, 1, left)
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Name: "shop-rome"}, &corev1.Namespace{}))
}
