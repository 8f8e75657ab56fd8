package engine

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// A remote object that is patched and deleted by the same decision may vanish in between.
func TestRemoteObjectVanishesBeforeItsPatch(t *testing.T) {
	local, remote := mapped(t)
	remote.fail("patch ShadowPod", apierrors.NewNotFound(schema.GroupResource{Resource: "shadowpods"}, "web"))
	five := "5"
	w := start(t, local, remote, pods{decide: func(in Input) ([]Action, error) {
		switch {
		case in.Remote == nil && in.Local != nil:
			return []Action{Create{Object: shadow(in)}}, nil
		case in.Local == nil && in.Remote != nil && in.Remote.GetDeletionTimestamp() == nil:
			return []Action{PatchRemote{Annotations: map[string]*string{"period": &five}}, DeleteRemote{}}, nil
		default:
			return []Action{Keep{}}, nil
		}
	}})
	exists := func() bool {
		_, ok := get(t.Context(), remote.WithWatch, "shop-rome", "web", &offloadingv1beta1.ShadowPod{})
		return ok
	}
	source := localPod("shop", "web")
	require.NoError(t, local.Create(t.Context(), source))
	require.Eventually(t, exists, soon, tick)
	require.NoError(t, local.Delete(t.Context(), source))
	require.Eventually(t, func() bool { return !exists() }, soon, tick)
	assert.Equal(t, 2, remote.count("patch ShadowPod"))
	assert.Empty(t, w.journal.all())
}

// The dependent object is deleted by UID with the grace period. A provider that does not grant the
// right does not stop the actions that follow.
func TestDeleteDependent(t *testing.T) {
	for name, answers := range map[string][]error{
		"granted":     nil,
		"not granted": {apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "web", assert.AnError)},
	} {
		t.Run(name, func(t *testing.T) {
			local, remote := mapped(t, localPod("shop", "web"))
			pod := localPod("shop-rome", "web")
			pod.UID = "remote-1"
			pod.Labels = labels.Merge(owned, labels.Set{offloadingv1beta1.NodeNameLabel: nodeName})
			require.NoError(t, remote.Create(t.Context(), pod))
			require.NoError(t, remote.Create(t.Context(), remoteShadow("web")))
			var sent atomic.Pointer[client.DeleteOptions]
			remote.WithWatch = interceptor.NewClient(remote.WithWatch, interceptor.Funcs{
				Delete: func(ctx context.Context, w client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
					if _, isPod := o.(*corev1.Pod); isPod {
						sent.Store((&client.DeleteOptions{}).ApplyOptions(opts))
					}
					return w.Delete(ctx, o, opts...)
				},
			})
			remote.fail("delete Pod", answers...)
			start(t, local, remote, pods{decide: func(in Input) ([]Action, error) {
				if in.Dependent == nil || in.Remote == nil {
					return []Action{Keep{}}, nil
				}
				return []Action{DeleteDependent{GracePeriodSeconds: 5}, DeleteRemote{}}, nil
			}})
			require.Eventually(t, func() bool {
				_, exists := get(t.Context(), remote.WithWatch, "shop-rome", "web", &offloadingv1beta1.ShadowPod{})
				return !exists
			}, soon, tick)
			require.NotNil(t, sent.Load())
			assert.EqualValues(t, 5, *sent.Load().GracePeriodSeconds)
			assert.Equal(t, pod.UID, *sent.Load().Preconditions.UID)
		})
	}
}
