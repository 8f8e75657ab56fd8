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
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

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

// labelSelecting is the manager's cache: it has no Secret without the identity label.
func labelSelecting(c client.WithWatch) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if err := c.Get(ctx, key, obj, opts...); err != nil {
				return err
			}
			if _, ok := obj.(*corev1.Secret); ok && obj.GetLabels()[authv1beta1.IdentityTypeLabel] == "" {
				return apierrors.NewNotFound(corev1.Resource("secrets"), key.Name)
			}
			return nil
		},
	})
}

func TestASecretWithoutItsIdentityLabelIsReleased(t *testing.T) {
	w := newFixture(t, dynamicClient(), dynamicClient(), secret())
	w.Reconciler.Client = labelSelecting(w.Client.(client.WithWatch))
	_, err := w.pass(t)
	require.NoError(t, err)
	require.Len(t, w.running, 1)
	require.NoError(t, w.Client.Update(t.Context(), secret(func(s *corev1.Secret) { delete(s.Labels, authv1beta1.IdentityTypeLabel) })))
	_, err = w.pass(t)
	require.NoError(t, err)
	assert.Empty(t, w.running)
	current := &corev1.Secret{}
	require.NoError(t, w.APIReader.Get(t.Context(), client.ObjectKeyFromObject(secret()), current))
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

func TestASecretThatLostItsLabelBeforeTheStartIsReleased(t *testing.T) {
	lost := secret(func(s *corev1.Secret) { delete(s.Labels, authv1beta1.IdentityTypeLabel) })
	w := newFixture(t, dynamicClient(), dynamicClient(), lost, secret(func(s *corev1.Secret) { s.Name = "another" }))
	w.Reconciler.Client = labelSelecting(w.Client.(client.WithWatch))
	require.NoError(t, w.releaseOrphans(t.Context()))
	current := &corev1.Secret{}
	require.NoError(t, w.APIReader.Get(t.Context(), client.ObjectKeyFromObject(lost), current))
	assert.Empty(t, current.Finalizers)
	require.NoError(t, w.APIReader.Get(t.Context(), client.ObjectKey{Namespace: lost.Namespace, Name: "another"}, current))
	assert.NotEmpty(t, current.Finalizers)
}
