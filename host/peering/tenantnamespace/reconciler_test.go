package tenantnamespace_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
	"github.com/longshore-dev/longshore/host/peering/tenantnamespace"
	"github.com/longshore-dev/longshore/host/peering/tenantsecrets"
)

const (
	name     = "liqo-tenant-milan"
	released = "released"
)

var accounts = []client.ObjectKey{{Namespace: "longshore", Name: "longshore-manager"}, {Namespace: "longshore", Name: "longshore-replicator"}}

func namespace(labels map[string]string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
}

func tenant() *corev1.Namespace {
	return namespace(map[string]string{"liqo.io/tenant-namespace": "true", "liqo.io/remote-cluster-id": "milan"})
}

func ending() *corev1.Namespace {
	ending, now := tenant(), metav1.Now()
	ending.DeletionTimestamp, ending.Finalizers = &now, []string{"kubernetes"}
	return ending
}

func subject(account string) rbacv1.Subject {
	return rbacv1.Subject{Kind: "ServiceAccount", Namespace: "longshore", Name: account}
}

func binding(change func(*rbacv1.RoleBinding)) *rbacv1.RoleBinding {
	b := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: tenantnamespace.Role, Namespace: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: tenantnamespace.Role},
		Subjects:   []rbacv1.Subject{subject("longshore-manager"), subject("longshore-replicator")},
	}
	if change != nil {
		change(b)
	}
	return b
}

func held(b *rbacv1.RoleBinding) { b.Finalizers = []string{tenantnamespace.Finalizer} }

func deleted(b *rbacv1.RoleBinding) {
	now := metav1.Now()
	held(b)
	b.DeletionTimestamp = &now
}

func kubeconfig(change func(*corev1.Secret)) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "kubeconfig-controlplane-milan", Namespace: name, Labels: map[string]string{"liqo.io/identity-type": "ControlPlane"}}}
	if change != nil {
		change(s)
	}
	return s
}

func finalized(s *corev1.Secret) { s.Finalizers = []string{"crdreplicator.liqo.io/operator"} }

func finalizedAndDeleted(s *corev1.Secret) {
	now := metav1.Now()
	finalized(s)
	s.DeletionTimestamp = &now
}

func TestTheRightsInATenantNamespace(t *testing.T) {
	milan := metav1.ObjectMeta{Name: "milan", Namespace: name}
	virtualNode, identity := &offloadingv1beta1.VirtualNode{ObjectMeta: milan}, &authv1beta1.Identity{ObjectMeta: milan}
	peer, slice := &authv1beta1.Tenant{ObjectMeta: milan}, &authv1beta1.ResourceSlice{ObjectMeta: milan}
	for sentence, tc := range map[string]struct {
		namespace *corev1.Namespace
		objects   []client.Object
		notReady  bool
		want      string // "held", released, or "none" if there is no binding.
	}{
		"a tenant namespace gets the rights":                                    {tenant(), nil, false, released},
		"another namespace gets none":                                           {namespace(nil), nil, false, "none"},
		"a namespace that is being deleted gets none":                           {ending(), nil, false, "none"},
		"the rights are held for the kubeconfig of a control plane":             {tenant(), []client.Object{binding(nil), kubeconfig(nil)}, false, "held"},
		"they are held from the start":                                          {tenant(), []client.Object{kubeconfig(nil)}, false, "held"},
		"they are held for VirtualNodes":                                        {tenant(), []client.Object{binding(nil), virtualNode}, false, "held"},
		"they are held for an Identity, whose kubeconfig is written":            {tenant(), []client.Object{binding(nil), identity}, false, "held"},
		"they are held for a Tenant, whose certificate is read":                 {tenant(), []client.Object{binding(nil), peer}, false, "held"},
		"they are held for a ResourceSlice, whose certificate is read":          {tenant(), []client.Object{binding(nil), slice}, false, "held"},
		"the deletion of a namespace waits for a Tenant":                        {ending(), []client.Object{binding(deleted), peer}, false, "held"},
		"a Tenant does not hold them in a namespace without the labels":         {namespace(nil), []client.Object{binding(deleted), peer}, false, "none"},
		"they are not held for the Secrets of a handshake":                      {tenant(), []client.Object{binding(held), kubeconfig(func(s *corev1.Secret) { s.Labels = nil })}, false, released},
		"they stay as they are while Secrets cannot be read":                    {tenant(), []client.Object{binding(held)}, true, "held"},
		"a binding of an earlier version gets all accounts":                     {tenant(), []client.Object{binding(func(b *rbacv1.RoleBinding) { b.Subjects = b.Subjects[:1] })}, false, released},
		"a binding to another role is deleted":                                  {tenant(), []client.Object{binding(func(b *rbacv1.RoleBinding) { b.RoleRef.Name = "view" })}, false, "none"},
		"the deletion of a namespace waits for the finalizer of a Secret":       {ending(), []client.Object{binding(deleted), kubeconfig(finalizedAndDeleted)}, false, "held"},
		"it waits for VirtualNodes":                                             {ending(), []client.Object{binding(deleted), virtualNode}, false, "held"},
		"the rights end with the last of them":                                  {ending(), []client.Object{binding(deleted)}, false, "none"},
		"a namespace without the labels loses the rights":                       {namespace(nil), []client.Object{binding(nil)}, false, "none"},
		"it loses them after the finalizer of a Secret":                         {namespace(nil), []client.Object{binding(deleted), kubeconfig(finalized)}, false, "held"},
		"a kubeconfig that replication has released does not hold them there":   {namespace(nil), []client.Object{binding(deleted), kubeconfig(nil)}, false, "none"},
		"a binding that a user deletes is deleted, and made again by its event": {tenant(), []client.Object{binding(deleted)}, false, "none"},
	} {
		t.Run(sentence, func(t *testing.T) {
			c := interceptor.NewClient(fakeclient.Builder(append(tc.objects, tc.namespace)...).Build(), interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
					if _, ok := list.(*corev1.SecretList); ok && tc.notReady {
						return tenantsecrets.ErrNotReady
					}
					return c.List(ctx, list, options...)
				},
			})
			r := &tenantnamespace.Reconciler{Client: c, ServiceAccounts: accounts}
			_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: name}})
			require.NoError(t, err)
			got := &rbacv1.RoleBinding{}
			err = c.Get(t.Context(), client.ObjectKey{Namespace: name, Name: tenantnamespace.Role}, got)
			if tc.want == "none" {
				assert.True(t, apierrors.IsNotFound(err), "got %+v", got)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tenantnamespace.Role, got.RoleRef.Name)
			assert.Equal(t, []rbacv1.Subject{subject("longshore-manager"), subject("longshore-replicator")}, got.Subjects)
			assert.Equal(t, tc.want == "held", len(got.Finalizers) == 1, "finalizers: %v", got.Finalizers)
		})
	}
}

func TestABindingToAnotherRoleThatIsHeldIsReleasedFirst(t *testing.T) {
	other := binding(func(b *rbacv1.RoleBinding) { held(b); b.RoleRef.Name = "view" })
	c := fakeclient.Builder(tenant(), other).Build()
	r := &tenantnamespace.Reconciler{Client: c, ServiceAccounts: accounts}
	got := &rbacv1.RoleBinding{}
	for range 3 {
		_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: name}})
		require.NoError(t, err)
	}
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(other), got))
	assert.Equal(t, tenantnamespace.Role, got.RoleRef.Name)
}
