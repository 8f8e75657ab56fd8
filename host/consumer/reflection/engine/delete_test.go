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

// endingPods are pods whose end shows in their phase.
type endingPods struct{ pods }

func (p endingPods) Resource() Resource {
	r := p.pods.Resource()
	dependent := *r.Dependent
	dependent.HasEnded = func(o client.Object) bool { return o.(*corev1.Pod).Status.Phase == corev1.PodSucceeded }
	r.Dependent = &dependent
	return r
}

// A dependent object that leaves the watch may exist without its labels. The provider is asked about one
// whose end was not seen, and about no other.
func TestADependentThatLeavesTheWatchIsAskedFor(t *testing.T) {
	for name, tc := range map[string]struct {
		leave func(t *testing.T, remote *cluster, pod *corev1.Pod)
		asked bool
	}{
		"it loses its labels, and ends": {func(t *testing.T, remote *cluster, pod *corev1.Pod) {
			t.Helper()
			pod.Labels = nil
			require.NoError(t, remote.Update(t.Context(), pod))
			require.Eventually(t, func() bool { return remote.count("get Pod") > 2 }, soon, tick, "it is asked for until it is gone")
			require.NoError(t, remote.Delete(t.Context(), pod))
		}, true},
		"it loses its labels, and gets them back": {func(t *testing.T, remote *cluster, pod *corev1.Pod) {
			t.Helper()
			labels := pod.Labels
			pod.Labels = nil
			require.NoError(t, remote.Update(t.Context(), pod))
			require.Eventually(t, func() bool { return remote.count("get Pod") > 0 }, soon, tick)
			pod.Labels, pod.Status.Phase = labels, corev1.PodSucceeded
			require.NoError(t, remote.Update(t.Context(), pod))
			require.NoError(t, remote.Status().Update(t.Context(), pod))
			require.NoError(t, remote.Delete(t.Context(), pod))
		}, true},
		"it is removed before it has ended": {func(t *testing.T, remote *cluster, pod *corev1.Pod) {
			t.Helper()
			require.NoError(t, remote.Delete(t.Context(), pod))
		}, true},
		"it ends": {func(t *testing.T, remote *cluster, pod *corev1.Pod) {
			t.Helper()
			pod.Status.Phase = corev1.PodSucceeded
			require.NoError(t, remote.Status().Update(t.Context(), pod))
			require.NoError(t, remote.Delete(t.Context(), pod))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			local, remote := mapped(t, localPod("shop", "web"))
			pod := localPod("shop-rome", "web")
			pod.UID = "remote-1"
			pod.Labels = labels.Merge(owned, labels.Set{offloadingv1beta1.NodeNameLabel: nodeName})
			require.NoError(t, remote.Create(t.Context(), pod))
			var seen atomic.Bool
			start(t, local, remote, endingPods{pods{decide: func(in Input) ([]Action, error) {
				switch {
				case in.Local == nil || in.Dependent != nil:
					seen.Store(in.Dependent != nil)
					return []Action{Keep{}}, nil
				case in.IsDependentLost:
					return []Action{AskDependent{
						IsOwn: func(o client.Object) bool { return o.GetUID() == "remote-1" },
						Gone:  []Action{DeleteLocal{}}, Exists: []Action{Requeue{After: tick}},
					}}, nil
				default:
					return []Action{DeleteLocal{}}, nil
				}
			}}})
			require.Eventually(t, seen.Load, soon, tick)
			tc.leave(t, remote, pod)
			require.Eventually(t, func() bool {
				_, exists := get(t.Context(), local.WithWatch, "shop", "web", &corev1.Pod{})
				return !exists
			}, soon, tick)
			assert.Equal(t, tc.asked, remote.count("get Pod") > 0)
			_, exists := get(t.Context(), remote.WithWatch, "shop-rome", "web", &corev1.Pod{})
			assert.False(t, exists, "the local pod stays while the remote one exists")
		})
	}
}
