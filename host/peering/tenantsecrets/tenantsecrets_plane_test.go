package tenantsecrets_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	"github.com/longshore-dev/longshore/host/app/scheme"
	"github.com/longshore-dev/longshore/host/internal/testkit/chartrights"
	"github.com/longshore-dev/longshore/host/peering/tenantnamespace"
	"github.com/longshore-dev/longshore/host/peering/tenantsecrets"
)

const (
	soon = 2 * time.Minute
	tick = 25 * time.Millisecond
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// seen are the names of the Secrets that a handler was given, and not taken again.
type seen struct {
	mu    sync.Mutex
	names []string
}

func (s *seen) OnAdd(object any, _ bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names = append(s.names, object.(*corev1.Secret).Name)
	slices.Sort(s.names)
}

func (s *seen) OnUpdate(any, any) {}

func (s *seen) OnDelete(object any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if unknown, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		object = unknown.Obj
	}
	s.names = slices.DeleteFunc(s.names, func(name string) bool { return name == object.(*corev1.Secret).Name })
}

func (s *seen) list() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.names)
}

func tenantOf(peer string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "liqo-tenant-" + peer, Labels: map[string]string{
		"liqo.io/tenant-namespace": "true", "liqo.io/remote-cluster-id": peer,
	}}}
}

func secret(namespace, name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// bindingOf gives the manager its rights in a tenant namespace.
func bindingOf(namespace string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: tenantnamespace.Role},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: tenantnamespace.Role},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: chartrights.Namespace, Name: chartrights.Manager}},
	}
}

// TestSecretsOfTenantNamespacesAreReadWhereTheRightIs runs a cache with the rights of the manager,
// which the test gives and takes by hand: a request that they do not permit fails it.
func TestSecretsOfTenantNamespacesAreReadWhereTheRightIs(t *testing.T) {
	plane := planetest.ForTest(t, "rome").RESTConfig()
	kinds, err := scheme.New()
	require.NoError(t, err)
	rome, err := client.New(plane, client.Options{Scheme: kinds})
	require.NoError(t, err)
	chartrights.Install(t, plane)
	create := func(objects ...client.Object) {
		t.Helper()
		for _, object := range objects {
			require.NoError(t, rome.Create(t.Context(), object))
		}
	}
	create(tenantOf("milan"), secret("liqo-tenant-milan", "early"), bindingOf("liqo-tenant-milan"), secret("default", "of-a-user"))

	mgr, err := ctrl.NewManager(chartrights.As(t, plane, chartrights.Namespace, chartrights.Manager), ctrl.Options{
		Scheme: kinds, Metrics: server.Options{BindAddress: "0"}, NewCache: tenantsecrets.New,
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { assert.NoError(t, mgr.Start(ctx)) })
	t.Cleanup(func() { cancel(); done.Wait() })
	require.True(t, mgr.GetCache().WaitForCacheSync(t.Context()))
	informer, err := mgr.GetCache().GetInformer(t.Context(), &corev1.Secret{})
	require.NoError(t, err)
	handler := &seen{}
	registration, err := informer.AddEventHandler(handler)
	require.NoError(t, err)
	sees := func(why string, names ...string) {
		t.Helper()
		planetest.Until(t, func(planetest.T) bool { return assert.ObjectsAreEqual(names, handler.list()) }, soon, tick, "%s: %v", why, names)
		planetest.Until(t, func(t planetest.T) bool {
			list := &corev1.SecretList{}
			require.NoError(t, mgr.GetClient().List(t.Context(), list))
			return len(list.Items) == len(names)
		}, soon, tick, "the list has %d", len(names))
	}
	get := func(reader client.Reader, namespace, name string) error {
		return reader.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &corev1.Secret{})
	}

	planetest.Until(t, func(planetest.T) bool { return registration.HasSynced() }, soon, tick, "the handler has what there was")
	<-registration.HasSyncedChecker().Done()
	sees("the Secrets of the tenant namespace and no others", "early")
	require.NoError(t, get(mgr.GetClient(), "liqo-tenant-milan", "early"))
	assert.True(t, apierrors.IsNotFound(get(mgr.GetClient(), "liqo-tenant-milan", "late")))
	assert.True(t, apierrors.IsNotFound(get(mgr.GetClient(), "default", "of-a-user")), "Secrets of users are not read")
	assert.True(t, apierrors.IsNotFound(get(tenantsecrets.Reader(mgr), "default", "of-a-user")))

	create(tenantOf("turin"), secret("liqo-tenant-turin", "late"))
	planetest.Until(t, func(planetest.T) bool {
		return errors.Is(get(mgr.GetClient(), "liqo-tenant-turin", "late"), tenantsecrets.ErrNotReady)
	}, soon, tick, "the namespace is known")
	require.ErrorIs(t, get(tenantsecrets.Reader(mgr), "liqo-tenant-turin", "late"), tenantsecrets.ErrNotReady)
	require.ErrorIs(t, mgr.GetClient().List(t.Context(), &corev1.SecretList{}, client.InNamespace("liqo-tenant-turin")), tenantsecrets.ErrNotReady)
	planetest.Until(t, func(planetest.T) bool { return registration.HasSynced() }, soon, tick, "a namespace without the right does not hold controllers up")
	create(bindingOf("liqo-tenant-turin"))
	sees("with the right", "early", "late")
	require.NoError(t, get(tenantsecrets.Reader(mgr), "liqo-tenant-turin", "late"))

	unlabel := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":null}}`))
	require.NoError(t, rome.Patch(t.Context(), tenantOf("turin"), unlabel))
	create(secret("liqo-tenant-turin", "later"))
	sees("a namespace without the label is read as long as there are Secrets and the right", "early", "late", "later")
	require.NoError(t, rome.Delete(t.Context(), bindingOf("liqo-tenant-turin")))
	sees("without label and right", "early")
	create(bindingOf("liqo-tenant-turin"))
	require.NoError(t, rome.Patch(t.Context(), tenantOf("turin"), client.RawPatch(types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"liqo.io/tenant-namespace":"true","liqo.io/remote-cluster-id":"turin"}}}`))))
	sees("with both again", "early", "late", "later")
	require.NoError(t, informer.RemoveEventHandler(registration))
	require.NoError(t, rome.Delete(t.Context(), tenantOf("turin")))
	planetest.Until(t, func(planetest.T) bool { return apierrors.IsNotFound(get(mgr.GetClient(), "liqo-tenant-turin", "late")) }, soon, tick, "a deleted namespace is forgotten")
	assert.Equal(t, []string{"early", "late", "later"}, handler.list(), "a handler that was removed is not called")
}
