package lease_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/longshore-dev/longshore/host/kit/lease"
)

func TestHoldReleasesTheLeaseAfterTheFunction(t *testing.T) {
	for name, result := range map[string]error{"it succeeds": nil, "it fails": errUnavailable} {
		t.Run(name, func(t *testing.T) {
			clientset := fake.NewClientset()
			holder := func() string {
				found, err := clientset.CoordinationV1().Leases("longshore").Get(t.Context(), "manager", metav1.GetOptions{})
				require.NoError(t, err)
				return *found.Spec.HolderIdentity
			}
			err := lease.Hold(t.Context(), newLock("a", clientset), time.Now, func(context.Context) error {
				assert.Equal(t, "a", holder())
				return result
			})
			require.ErrorIs(t, err, result)
			assert.Empty(t, holder())
		})
	}
}

func TestHoldDoesNotRunWithoutTheLease(t *testing.T) {
	clientset := fake.NewClientset()
	require.NoError(t, lease.Hold(t.Context(), newLock("a", clientset), time.Now, func(context.Context) error {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, lease.Hold(ctx, newLock("b", clientset), time.Now, func(context.Context) error {
			assert.Fail(t, "another holder has the lease")
			return nil
		}))
		return nil
	}))
}
