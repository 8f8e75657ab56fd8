package namespacemap

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
	"github.com/longshore-dev/longshore/host/peering/authentication"
)

// keptPlane is a provider with a namespace that is kept.
type keptPlane struct {
	client.Client

	// isGranted is whether the API server knows the RoleBinding of the cleanup.
	isGranted bool
	events    *events.FakeRecorder
}

func newKeptPlane(objects ...client.Object) *keptPlane {
	nm, namespace, binding := accepted()
	namespace.Annotations[offloadingv1beta1.KeepNamespaceAnnotation] = "true"
	nm.Spec.DesiredMapping = nil
	p := &keptPlane{isGranted: true, events: events.NewFakeRecorder(10)}
	p.Client = fakeclient.Builder(nm, namespace, binding, authentication.TenantNamespace("rome")).WithObjects(objects...).
		WithInterceptorFuncs(interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			switch review := object.(type) {
			case *authenticationv1.SelfSubjectReview:
				review.Status.UserInfo.Username = "manager"
				return nil
			case *authorizationv1.SelfSubjectAccessReview:
				review.Status.Allowed = p.isGranted
				return nil
			}
			return c.Create(ctx, object, options...)
		}}).Build()
	return p
}

// reconcile makes one pass, with the desired mapping.
func (p *keptPlane) reconcile(t *testing.T, desired map[string]string) error {
	t.Helper()
	nm := &offloadingv1beta1.NamespaceMap{}
	require.NoError(t, p.Get(t.Context(), client.ObjectKey{Namespace: "liqo-tenant-rome", Name: "milan"}, nm))
	nm.Spec.DesiredMapping = desired
	require.NoError(t, p.Update(t.Context(), nm))
	_, err := (&Reconciler{Clock: clock.RealClock{}, Client: p, APIReader: p, Events: p.events}).Reconcile(t.Context(), nm)
	return err
}

func (p *keptPlane) bindings(t *testing.T) []string {
	t.Helper()
	list := &rbacv1.RoleBindingList{}
	require.NoError(t, p.List(t.Context(), list))
	var names []string
	for _, binding := range list.Items {
		names = append(names, binding.Name)
	}
	return names
}

func (p *keptPlane) exists(t *testing.T, object client.Object) bool {
	t.Helper()
	err := p.Get(t.Context(), client.ObjectKeyFromObject(object), object)
	require.NoError(t, client.IgnoreNotFound(err))
	return err == nil
}

func inShop(name string, of *metav1.ObjectMeta, origin string) {
	of.Namespace, of.Name = "shop-rome", name
	if origin != "" {
		of.Labels = map[string]string{offloadingv1beta1.OriginLabel: origin}
	}
}

// contents are the objects of the namespace: those that are deleted, and those that stay.
func contents() (deleted, kept []client.Object) {
	settings, token, web, shadow, slice := &corev1.ConfigMap{}, &corev1.Secret{}, &corev1.Service{}, &offloadingv1beta1.ShadowPod{}, &offloadingv1beta1.ShadowEndpointSlice{}
	inShop("settings", &settings.ObjectMeta, "rome")
	inShop("web-token", &token.ObjectMeta, "rome")
	inShop("web", &web.ObjectMeta, "rome")
	inShop("web-0", &shadow.ObjectMeta, "")
	inShop("web-1", &slice.ObjectMeta, "")
	held, heldSlice, of := shadow.DeepCopy(), slice.DeepCopy(), &corev1.Secret{}
	held.Name, held.Finalizers = "held", []string{foreign, metav1.FinalizerOrphanDependents}
	heldSlice.Name, heldSlice.Finalizers = "held", []string{foreign}
	inShop("of-a-service-account", &of.ObjectMeta, "")
	of.Type, of.Annotations = corev1.SecretTypeServiceAccountToken, map[string]string{corev1.ServiceAccountNameKey: "default"}
	scratch, data := &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolumeClaim{}
	inShop("scratch", &scratch.ObjectMeta, "rome")
	inShop("data", &data.ObjectMeta, "rome")
	scratch.Annotations = map[string]string{offloadingv1beta1.ReclaimPolicyAnnotation: "Delete"}
	data.Annotations = map[string]string{offloadingv1beta1.ReclaimPolicyAnnotation: "Retain"}
	own, other, ca := &corev1.ConfigMap{}, &corev1.Secret{}, &corev1.ConfigMap{}
	inShop("of-an-administrator", &own.ObjectMeta, "")
	inShop("of-another-consumer", &other.ObjectMeta, "oslo")
	inShop("kube-root-ca.crt", &ca.ObjectMeta, "")
	elsewhere := settings.DeepCopy()
	elsewhere.Namespace = "bazaar-rome"
	return []client.Object{settings, token, web, shadow, slice, scratch, held, heldSlice, of}, []client.Object{data, own, other, ca, elsewhere}
}

func TestAKeptNamespaceLosesTheObjectsOfTheConsumer(t *testing.T) {
	deleted, kept := contents()
	p := newKeptPlane(slices.Concat(deleted, kept)...)
	require.NoError(t, p.reconcile(t, nil))
	for _, object := range deleted {
		assert.False(t, p.exists(t, object), "%T %s", object, object.GetName())
	}
	for _, object := range kept {
		assert.True(t, p.exists(t, object), "%T %s", object, object.GetName())
	}
	assert.Empty(t, p.bindings(t), "neither the consumer nor the manager has access")
	assert.Empty(t, statusOf(t, p), "the consumer does not wait for the namespace")
	require.Len(t, p.events.Events, 1)
	assert.Contains(t, <-p.events.Events, "NamespaceKept")

	t.Run("later reconciles leave it alone", func(t *testing.T) {
		require.NoError(t, p.reconcile(t, nil))
		assert.Empty(t, p.events.Events)
	})
	t.Run("it can be offloaded again", func(t *testing.T) {
		require.NoError(t, p.reconcile(t, map[string]string{"shop": "shop-rome"}))
		assert.Equal(t, offloadingv1beta1.MappingAccepted, statusOf(t, p)["shop"].Phase)
		assert.Equal(t, []string{"liqo-tenant-rome"}, p.bindings(t))
		require.NoError(t, p.reconcile(t, nil))
		assert.Empty(t, p.bindings(t))
	})
	t.Run("without the annotation it is deleted", func(t *testing.T) {
		namespace := &corev1.Namespace{}
		require.NoError(t, p.Get(t.Context(), client.ObjectKey{Name: "shop-rome"}, namespace))
		delete(namespace.Annotations, offloadingv1beta1.KeepNamespaceAnnotation)
		require.NoError(t, p.Update(t.Context(), namespace))
		require.NoError(t, p.reconcile(t, nil))
		assert.True(t, apierrors.IsNotFound(p.Get(t.Context(), client.ObjectKey{Name: "shop-rome"}, namespace)))
	})
}

// The consumer's access ends first. The cleanup goes on when the API server knows its RoleBinding.
func TestACleanupWaitsForItsAccess(t *testing.T) {
	deleted, _ := contents()
	p := newKeptPlane(deleted...)
	p.isGranted = false
	require.ErrorIs(t, p.reconcile(t, nil), errAccessPending)
	assert.Equal(t, []string{"longshore-cleanup"}, p.bindings(t))
	assert.True(t, p.exists(t, deleted[0]))
	assert.NotEmpty(t, statusOf(t, p), "the consumer waits")

	p.isGranted = true
	require.NoError(t, p.reconcile(t, nil))
	assert.False(t, p.exists(t, deleted[0]))
	assert.Empty(t, p.bindings(t))
	assert.Empty(t, statusOf(t, p))
}
