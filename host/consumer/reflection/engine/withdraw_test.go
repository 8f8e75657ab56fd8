package engine

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// A remote object is marked and deleted in one pass. That it is gone when it is to be
// marked is nobody's mistake.
func TestARemoteObjectIsMarkedAndDeletedInTheForeground(t *testing.T) {
	local, remote := mapped(t)
	var policy atomic.Pointer[metav1.DeletionPropagation]
	remote.WithWatch = interceptor.NewClient(remote.WithWatch, interceptor.Funcs{
		Delete: func(ctx context.Context, w client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			policy.Store((&client.DeleteOptions{}).ApplyOptions(opts).PropagationPolicy)
			return w.Delete(ctx, o, opts...)
		},
	})
	remote.fail("patch ShadowPod", apierrors.NewNotFound(schema.GroupResource{Resource: "shadowpods"}, "web"))
	five := "5"
	w := start(t, local, remote, pods{decide: func(in Input) ([]Action, error) {
		switch {
		case in.Remote == nil && in.Local != nil:
			return []Action{Create{Object: shadow(in)}}, nil
		case in.Local == nil && in.Remote != nil && in.Remote.GetDeletionTimestamp() == nil:
			return []Action{PatchRemote{Annotations: map[string]*string{"period": &five}}, DeleteRemote{Foreground: true}}, nil
		default:
			return []Action{Keep{}}, nil
		}
	}})
	there := func() bool {
		_, ok := get(t.Context(), remote.WithWatch, "shop-rome", "web", &offloadingv1beta1.ShadowPod{})
		return ok
	}
	source := localPod("shop", "web")
	require.NoError(t, local.Create(t.Context(), source))
	require.Eventually(t, there, soon, tick)
	require.NoError(t, local.Delete(t.Context(), source))
	require.Eventually(t, func() bool { return !there() }, soon, tick)
	assert.Equal(t, 2, remote.count("patch ShadowPod"))
	require.NotNil(t, policy.Load())
	assert.Equal(t, metav1.DeletePropagationForeground, *policy.Load())
	assert.Empty(t, w.journal.all(), "nobody is told")
}
