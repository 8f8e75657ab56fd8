package replication

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
)

func TestSelectSecret(t *testing.T) {
	day := func(d int) metav1.Time { return metav1.NewTime(time.Date(2026, 3, d, 0, 0, 0, 0, time.UTC)) }
	made := func(namespace, name string, d int) corev1.Secret {
		return *secret(func(s *corev1.Secret) { s.Namespace, s.Name, s.CreationTimestamp = namespace, name, day(d) })
	}
	for name, tc := range map[string]struct {
		secrets []corev1.Secret
		tenants map[string]bool
		want    string
	}{
		"none":                                       {},
		"none in a tenant namespace":                 {secrets: []corev1.Secret{made("a", "s", 1)}},
		"the one in the tenant namespace":            {secrets: []corev1.Secret{made("a", "s", 1), made("b", "s", 2)}, tenants: map[string]bool{"b": true}, want: "b/s"},
		"the oldest of two":                          {secrets: []corev1.Secret{made("a", "s", 2), made("b", "s", 1)}, tenants: map[string]bool{"a": true, "b": true}, want: "b/s"},
		"the first by name of two with the same age": {secrets: []corev1.Secret{made("b", "t", 1), made("b", "s", 1)}, tenants: map[string]bool{"b": true}, want: "b/s"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if selected := selectSecret(tc.secrets, tc.tenants); selected != nil {
				got = selected.Namespace + "/" + selected.Name
			}
			assert.Equal(t, tc.want, got)
		})
	}
}

func TestASecretWithoutItsIdentityLabelIsReleased(t *testing.T) {
	w := newFixture(t, dynamicClient(), dynamicClient(), secret())
	_, err := w.pass(t)
	require.NoError(t, err)
	require.Len(t, w.running, 1)
	require.NoError(t, w.Client.Update(t.Context(), secret(func(s *corev1.Secret) { delete(s.Labels, authv1beta1.IdentityTypeLabel) })))
	_, err = w.pass(t)
	require.NoError(t, err)
	assert.Empty(t, w.running)
	current := &corev1.Secret{}
	require.NoError(t, w.Client.Get(t.Context(), client.ObjectKeyFromObject(secret()), current))
	assert.Empty(t, current.Finalizers, "without the label no controller would remove it later")
}

func TestASecretThatIsNotSelectedIsKeptForItsReplicatedObjects(t *testing.T) {
	now := metav1.Now()
	w := newFixture(t, dynamicClient(ownObject(finalized, deleting)), dynamicClient(copied()),
		secret(func(s *corev1.Secret) { s.DeletionTimestamp = &now }))
	tenant := namespace(consumerTenant, "")
	require.NoError(t, w.Client.Update(t.Context(), tenant))
	result, err := w.pass(t)
	require.NoError(t, err)
	assert.Positive(t, result.RequeueAfter)
	assert.Contains(t, <-w.events.Events, "is not in the tenant namespace of cluster milan")
	require.NoError(t, w.Client.Get(t.Context(), client.ObjectKeyFromObject(secret()), &corev1.Secret{}))
	assert.NotNil(t, get(t, w.remote, providerTenant))
}

func TestSecretsThatConcernReplication(t *testing.T) {
	without := func(s *corev1.Secret) { delete(s.Labels, authv1beta1.IdentityTypeLabel) }
	released := func(s *corev1.Secret) { s.Finalizers = nil }
	for name, tc := range map[string]struct {
		secret *corev1.Secret
		want   bool
	}{
		"the kubeconfig of a control plane":                                   {secret(released), true},
		"one that lost its label while no replicator ran, with the finalizer": {secret(without), true},
		"one that lost its label and is released":                             {secret(without, released), false},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tc.want, isConcerned().Create(event.CreateEvent{Object: tc.secret}))
			assert.True(t, isConcerned().Update(event.UpdateEvent{ObjectOld: secret(), ObjectNew: tc.secret}), "it was one")
		})
	}
}

func TestASecretThatLostItsLabelBeforeTheStartIsReleased(t *testing.T) {
	lost := secret(func(s *corev1.Secret) { delete(s.Labels, authv1beta1.IdentityTypeLabel) })
	w := newFixture(t, dynamicClient(), dynamicClient(), lost)
	_, err := w.pass(t)
	require.NoError(t, err)
	current := &corev1.Secret{}
	require.NoError(t, w.Client.Get(t.Context(), client.ObjectKeyFromObject(lost), current))
	assert.Empty(t, current.Finalizers)
}

func TestASecretIsReleasedOnceThoughTheCacheIsStale(t *testing.T) {
	now := metav1.Now()
	w := newFixture(t, dynamicClient(), dynamicClient(), secret(func(s *corev1.Secret) { s.DeletionTimestamp = &now }))
	stale, patches := &corev1.Secret{}, 0
	require.NoError(t, w.Client.Get(t.Context(), client.ObjectKeyFromObject(secret()), stale))
	w.Client = interceptor.NewClient(w.Client.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if cached, ok := object.(*corev1.Secret); ok && stale != nil {
				stale.DeepCopyInto(cached)
				return nil
			}
			return c.Get(ctx, key, object, options...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			patches++
			return c.Patch(ctx, object, patch, options...)
		},
	})
	for range 2 {
		_, err := w.pass(t)
		require.NoError(t, err)
	}
	assert.Equal(t, 1, patches, "the rights in the namespace may be gone with the Secret")
	stale = nil
	_, err := w.pass(t)
	require.NoError(t, err)
	assert.Empty(t, w.released, "a Secret that is gone is forgotten")
}

// A Secret that was deleted by hand is released at once if it is made again; the credential that nothing
// would bring back stays until the copies are gone.
func TestADeletedSecretIsReleasedIfItsIdentityMakesItAgain(t *testing.T) {
	now := metav1.Now()
	identity := func(changes ...change) *unstructured.Unstructured {
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(authv1beta1.GroupVersion.WithKind("Identity"))
		u.SetNamespace(consumerTenant)
		u.SetName("controlplane-milan")
		u.SetUID("identity")
		for _, c := range changes {
			c(u)
		}
		return u
	}
	tenant := func(changes ...change) *unstructured.Unstructured {
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
		u.SetName(consumerTenant)
		for _, c := range changes {
			c(u)
		}
		return u
	}
	owned := func(s *corev1.Secret) {
		s.DeletionTimestamp = &now
		s.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: authv1beta1.GroupVersion.String(), Kind: "Identity", Name: "controlplane-milan", UID: "identity", Controller: ptr.To(true),
		}}
	}
	invalid := func(s *corev1.Secret) { s.Data = nil }
	for name, tc := range map[string]struct {
		secret     []func(*corev1.Secret)
		objects    []runtime.Object
		isReleased bool
	}{
		"its Identity stays":                                 {[]func(*corev1.Secret){owned}, []runtime.Object{identity(), tenant()}, true},
		"and the kubeconfig is broken":                       {[]func(*corev1.Secret){owned, invalid}, []runtime.Object{identity(), tenant()}, true},
		"its Identity is gone":                               {[]func(*corev1.Secret){owned}, []runtime.Object{tenant()}, false},
		"its Identity is gone, and the kubeconfig is broken": {[]func(*corev1.Secret){owned, invalid}, []runtime.Object{tenant()}, false},
		"its Identity is being deleted":                      {[]func(*corev1.Secret){owned}, []runtime.Object{identity(deleting), tenant()}, false},
		"an Identity of the same name is a later one":        {[]func(*corev1.Secret){owned}, []runtime.Object{identity(func(u *unstructured.Unstructured) { u.SetUID("later") }), tenant()}, false},
		"the namespace is being deleted":                     {[]func(*corev1.Secret){owned}, []runtime.Object{identity(), tenant(deleting)}, false},
		"it was made by hand":                                {[]func(*corev1.Secret){owned, func(s *corev1.Secret) { s.OwnerReferences = nil }}, []runtime.Object{identity(), tenant()}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t, dynamicClient(append(tc.objects, ownObject(finalized))...), dynamicClient(copied()), secret(tc.secret...))
			result, err := w.pass(t)
			require.NoError(t, err)
			err = w.Client.Get(t.Context(), client.ObjectKeyFromObject(secret()), &corev1.Secret{})
			if tc.isReleased {
				assert.True(t, apierrors.IsNotFound(err), err)
				return
			}
			require.NoError(t, err)
			assert.Positive(t, result.RequeueAfter)
			assert.Contains(t, <-w.events.Events, "longshorectl unpeer")
		})
	}
}
