package engine

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// An API server that cannot send its events ends the watch of the feed, and so that of each namespace.
func TestWatchesThatEndTogetherAskOnceForTheVersionOfTheServer(t *testing.T) {
	const namespaces = 50
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var watches []*watch.FakeWatcher
		questions, opened, answer := 0, 0, make(chan struct{})
		c := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
			List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				list.SetResourceVersion("40")
				if (&client.ListOptions{}).ApplyOptions(opts).Limit != 1 {
					return nil
				}
				mu.Lock()
				questions++
				mu.Unlock()
				<-answer
				return nil
			},
			Watch: func(_ context.Context, _ client.WithWatch, _ client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
				if (&client.ListOptions{}).ApplyOptions(opts).Raw.SendInitialEvents != nil {
					return nil, apierrors.NewBadRequest("not supported")
				}
				mu.Lock()
				defer mu.Unlock()
				opened++
				watches = append(watches, watch.NewFake())
				return watches[len(watches)-1], nil
			},
		})
		ctx, cancel := context.WithCancel(t.Context())
		informers := NewInformers(ctx)
		for i := range namespaces {
			informers.follow(ctx, new(identified(selection{
				client: c, isRemote: true, kind: maps{}.Resource().Remote, options: client.ListOptions{Namespace: fmt.Sprintf("shop-%d", i)},
			})), func(client.Object) {})
		}
		synctest.Wait()
		assert.Equal(t, namespaces, opened)
		for _, w := range watches {
			w.Modify(&corev1.ConfigMap{}) // else the watch is too short
			w.Stop()
		}
		synctest.Wait()
		assert.Equal(t, 1, questions)
		answer <- struct{}{}
		synctest.Wait()
		answer <- struct{}{}
		synctest.Wait()
		assert.Equal(t, 2, questions, "the second one is of all but the first")
		assert.Equal(t, 2*namespaces, opened)
		cancel()
		informers.Wait()
	})
}
