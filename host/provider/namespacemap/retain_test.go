package namespacemap

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A namespace is deleted only after the data that must outlive it is safe.
func TestDataIsRetainedBeforeANamespaceIsDeleted(t *testing.T) {
	nm, namespace, _ := accepted()
	c, _, err := reconcileOnce(t, nm, namespace)
	require.NoError(t, err)
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(namespace), namespace))
	var asked []string
	fails := errors.New("the API server does not answer")
	p := (&Reconciler{Clock: clock.RealClock{}, Client: c, APIReader: c, Retain: func(_ context.Context, name string) error {
		asked = append(asked, name)
		return fails
	}}).newPass(t.Context(), nm)
	require.ErrorIs(t, p.delete(t.Context(), namespace), fails)
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(namespace), &corev1.Namespace{}))

	fails = nil
	require.NoError(t, p.delete(t.Context(), namespace))
	assert.True(t, apierrors.IsNotFound(c.Get(t.Context(), client.ObjectKeyFromObject(namespace), &corev1.Namespace{})))
	assert.Equal(t, []string{"shop-rome", "shop-rome"}, asked)
}
