package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
	"github.com/longshore-dev/longshore/host/kit/remotecluster"
	"github.com/longshore-dev/longshore/host/kit/undecodable"
)

var encodedConfigMaps = Kind{
	New: func() client.Object { return &corev1.ConfigMap{} }, NewList: func() client.ObjectList { return &corev1.ConfigMapList{} }, Encoded: true,
}

// kibibytes returns a ConfigMap that takes about so many KiB.
func kibibytes(name, version string, n int) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, ResourceVersion: version}, Data: map[string]string{"a": strings.Repeat("x", n<<10)},
	}
}

func roomyStore(r *room) (*store, *int) {
	changes := 0
	s := newStore(encodedConfigMaps, func(client.Object) { changes++ })
	s.room = r
	return s, &changes
}

func TestStoresKeepWhatThereIsRoomFor(t *testing.T) {
	shared := &room{limit: 100 << 10}
	s, changes := roomyStore(shared)
	other, _ := roomyStore(shared)
	require.NoError(t, s.Replace([]any{kibibytes("a", "1", 40)}, "1"))
	require.NoError(t, other.Replace([]any{kibibytes("a", "1", 20)}, "1"))
	require.NoError(t, s.Add(kibibytes("b", "2", 20)))
	before := *changes

	for name, send := range map[string]func() error{
		"one more":          func() error { return s.Add(kibibytes("c", "3", 40)) },
		"one that grows":    func() error { return s.Update(kibibytes("a", "3", 90)) },
		"a list of many":    func() error { return s.Replace([]any{kibibytes("d", "9", 50), kibibytes("e", "9", 50)}, "9") },
		"all in one object": func() error { return s.Add(kibibytes("f", "3", 500)) },
	} {
		t.Run(name, func(t *testing.T) {
			stopped := 0
			overflow := s.begin(func() { stopped++ })
			_ = send()
			require.NoError(t, s.Delete(kibibytes("a", "9", 40)))
			assert.EqualError(t, overflow(), "its objects take more than 0 MiB, a quarter of the memory limit")
			assert.Equal(t, 1, stopped, "the watch ends, and what it brings afterwards is left out")
			assert.Equal(t, before, *changes, "nothing seems to be gone")
			assert.ElementsMatch(t, []types.NamespacedName{{Namespace: "shop", Name: "a"}, {Namespace: "shop", Name: "b"}}, s.Names(""))
		})
	}

	assert.NoError(t, other.Add(kibibytes("small", "2", 1)), "others go on while there is room")
	s.begin(func() {})
	require.NoError(t, s.Delete(kibibytes("a", "5", 40)))
	assert.NoError(t, s.Add(kibibytes("c", "6", 40)), "what is gone makes room")
	s.leaveRoom()
	other.leaveRoom()
	assert.Zero(t, shared.used.Load())
}

func TestTheRoomIsAPartOfTheMemoryLimit(t *testing.T) {
	assert.EqualValues(t, 115<<20, newRoom(460<<20).limit)
	assert.EqualValues(t, 1<<30, newRoom(math.MaxInt64).limit)
	var without *room
	assert.False(t, without.lacks(1<<40))
}

// 5,000 pods of a virtual node, with what the provider adds, take less than half of the room that the
// chart's memory limit gives: 512 MiB, of which GOMEMLIMIT is nine tenths.
func TestTheRoomHoldsFiveThousandPods(t *testing.T) {
	r := newRoom(512 << 20 / 10 * 9)
	s := newStore(Kind{New: func() client.Object { return &corev1.Pod{} }, Encoded: true}, func(client.Object) {})
	s.room = r
	// 3 KiB are a Pod in Protocol Buffers with its status, 5 KiB a ShadowPod in JSON.
	text := strings.Repeat("x", 8<<10)
	for i := range 5000 {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint("pod-", i), ResourceVersion: "1", Annotations: map[string]string{"a": text}}}
		require.NoError(t, s.Add(pod))
	}
	t.Logf("5,000 pods take %d MiB of %d MiB", r.used.Load()>>20, r.limit>>20)
	assert.Less(t, 2*r.used.Load(), r.limit)
}

func TestTooMuchIsReadAgainAfterAPause(t *testing.T) {
	// One of them waits until some time after the last error of the process, which is not of the bubble.
	handlers := utilruntime.ErrorHandlers
	utilruntime.ErrorHandlers = nil
	t.Cleanup(func() { utilruntime.ErrorHandlers = handlers })
	for name, tc := range map[string]struct {
		items []corev1.ConfigMap
		err   error
		added *corev1.ConfigMap
	}{
		"an answer over the limit": {err: fmt.Errorf("reading: %w", &remotecluster.TooLargeError{Limit: 1 << 20})},
		"a list without room":      {items: []corev1.ConfigMap{*kibibytes("a", "1", 90)}},
		"a watch without room":     {added: kibibytes("a", "2", 90)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var lists, refused atomic.Int64
				c := interceptor.NewClient(fakeclient.Builder().Build(), interceptor.Funcs{
					List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
						if (&client.ListOptions{}).ApplyOptions(opts).Limit != 1 { // One object is for the resource version.
							lists.Add(1)
						}
						listed, _ := list.(*corev1.ConfigMapList)
						listed.ResourceVersion, listed.Items = "1", tc.items
						return tc.err
					},
					Watch: func(_ context.Context, _ client.WithWatch, _ client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
						if (&client.ListOptions{}).ApplyOptions(opts).Raw.SendInitialEvents != nil {
							return nil, apierrors.NewBadRequest("not supported")
						}
						w := watch.NewFakeWithChanSize(1, false)
						if tc.added != nil {
							w.Add(tc.added.DeepCopy())
						}
						return w, nil
					},
				})
				into, _ := roomyStore(&room{limit: 50 << 10})
				go watchSelected(ctx, &selection{client: c, kind: encodedConfigMaps}, into, func(err error) {
					if isTooMuch(err) {
						refused.Add(1)
					}
				})
				synctest.Wait()
				assert.Equal(t, int64(1), lists.Load())
				assert.EqualValues(t, 1, refused.Load())
				await(t, overflowPause/2)
				assert.EqualValues(t, 1, lists.Load(), "it waits")
				await(t, overflowPause)
				assert.EqualValues(t, 2, lists.Load())
				assert.EqualValues(t, 2, refused.Load())
				cancel()
				synctest.Wait()
			})
		})
	}
}

// await lets time pass in a synctest bubble.
func await(t *testing.T, pause time.Duration) {
	t.Helper()
	<-time.After(pause)
	synctest.Wait()
}

func TestWhatIsUnreadable(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"an amount":             {fmt.Errorf("reading: %w", &undecodable.AmountError{}), true},
		"an object":             {errors.New("json: cannot unmarshal number"), true},
		"too much":              {&remotecluster.TooLargeError{Limit: 1}, false},
		"without room":          {&overflowError{}, false},
		"a further page":        {&remotecluster.PagesError{}, false},
		"refused":               {apierrors.NewForbidden(corev1.Resource("pods"), "", nil), false},
		"away":                  {&url.Error{Op: "Get", Err: io.EOF}, false},
		"away during an answer": {errors.New("unexpected error when reading response body. Please retry. Original error: EOF"), false},
		"nothing":               {},
	} {
		assert.Equal(t, tc.want, IsUnreadable(tc.err), name)
	}
}

func TestWhatIsTooMuch(t *testing.T) {
	assert.True(t, isTooMuch(fmt.Errorf("reading: %w", &overflowError{})))
	assert.False(t, isTooMuch(errors.New("another")))
	assert.False(t, isTooMuch(nil))
}
