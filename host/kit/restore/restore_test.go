package restore_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/longshore-dev/longshore/host/kit/restore"
)

var errUnavailable = errors.New("unavailable")

func TestDetect(t *testing.T) {
	for name, tc := range map[string]struct {
		options  metav1.ListOptions
		server   string
		err      error
		wantGone bool
		want     int // lists
	}{
		"the server is ahead":                         {options: metav1.ListOptions{ResourceVersion: "10"}, server: "11", want: 1},
		"the server has not changed":                  {options: metav1.ListOptions{ResourceVersion: "10"}, server: "10", want: 1},
		"the server was restored":                     {options: metav1.ListOptions{ResourceVersion: "10"}, server: "9", wantGone: true, want: 1},
		"numbers are not compared as texts":           {options: metav1.ListOptions{ResourceVersion: "9"}, server: "10", want: 1},
		"the first watch, with all objects":           {options: metav1.ListOptions{ResourceVersion: "10", SendInitialEvents: ptr.To(true)}, server: "9"},
		"a watch from no version":                     {server: "9", want: 1},
		"a server that is not known to be ahead":      {options: metav1.ListOptions{ResourceVersion: "10"}, err: errUnavailable, want: 1},
		"a server with versions that are not numbers": {options: metav1.ListOptions{ResourceVersion: "10"}, server: "x", want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			lists, watches := 0, 0
			detecting := cache.ToListerWatcherWithContext(restore.Detect(&cache.ListWatch{
				ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
					lists++
					return &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: tc.server}}, tc.err
				},
				WatchFuncWithContext: func(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
					watches++
					assert.Equal(t, tc.options, options)
					return watch.NewEmptyWatch(), nil
				},
			}))
			_, err := detecting.WatchWithContext(t.Context(), tc.options)
			assert.Equal(t, tc.want, lists)
			if tc.err != nil {
				require.ErrorIs(t, err, tc.err)
				assert.Zero(t, watches, "it could accept the watch a moment later")
				return
			}
			if tc.wantGone {
				assert.True(t, apierrors.IsResourceExpired(err), "%v", err)
				assert.Zero(t, watches)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, 1, watches)
		})
	}
}

// A server that was restored while it could not be reached may have reached the resource version
// again.
func TestAWatchDoesNotContinueAfterAnOutage(t *testing.T) {
	for name, tc := range map[string]struct {
		failure error
		want    bool
	}{
		"the server was down":            {failure: errUnavailable},
		"a proxy could not reach it":     {failure: apierrors.NewServiceUnavailable("no backend")},
		"the server was busy":            {failure: apierrors.NewTooManyRequests("busy", 1), want: true},
		"the server has not started yet": {failure: apierrors.NewForbidden(corev1.Resource("configmaps"), "", nil), want: true},
	} {
		t.Run(name, func(t *testing.T) {
			failing := false
			detecting := cache.ToListerWatcherWithContext(restore.Detect(&cache.ListWatch{
				ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
					if failing {
						return nil, tc.failure
					}
					return &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: "12"}}, nil
				},
				WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return watch.NewEmptyWatch(), nil },
			}))
			resume := func() error {
				_, err := detecting.WatchWithContext(t.Context(), metav1.ListOptions{ResourceVersion: "10"})
				return err
			}
			require.NoError(t, resume())
			failing = true
			require.ErrorIs(t, resume(), tc.failure)
			failing = false
			if tc.want {
				require.NoError(t, resume())
				return
			}
			assert.True(t, apierrors.IsResourceExpired(resume()))
			require.NoError(t, resume(), "the list that follows is recent")
		})
	}
}

// client-go repeats a read whose connection is lost, and the outage is seen in the time only.
func TestAWatchDoesNotContinueAfterAReadThatWasRepeated(t *testing.T) {
	for took, want := range map[time.Duration]bool{900 * time.Millisecond: true, time.Second: false} {
		now := time.Date(2026, 11, 29, 20, 0, 0, 0, time.UTC)
		detecting := cache.ToListerWatcherWithContext(restore.DetectAt(&cache.ListWatch{
			ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
				now = now.Add(took)
				return &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: "12"}}, nil
			},
			WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return watch.NewEmptyWatch(), nil },
		}, func() time.Time { return now }))
		_, err := detecting.WatchWithContext(t.Context(), metav1.ListOptions{ResourceVersion: "10"})
		assert.Equal(t, want, err == nil, "after %s: %v", took, err)
		assert.Equal(t, !want, apierrors.IsResourceExpired(err))
	}
}

// A watch that the API server has served until its timeout is not interrupted by a restore.
func TestAWatchContinuesWithoutAListAfterItsTimeout(t *testing.T) {
	for name, tc := range map[string]struct {
		timeout *int64
		after   time.Duration
		failure error // of an attempt to watch in between
		want    int   // lists for the second watch
	}{
		"it has reached its timeout":            {timeout: ptr.To[int64](300), after: 300 * time.Second},
		"it ended before":                       {timeout: ptr.To[int64](300), after: 299 * time.Second, want: 1},
		"there was a pause":                     {timeout: ptr.To[int64](300), after: 303 * time.Second, want: 1},
		"it had no timeout":                     {after: time.Second, want: 1},
		"the server could not be reached since": {timeout: ptr.To[int64](300), after: 300 * time.Second, failure: errUnavailable, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Date(2026, 11, 23, 21, 0, 0, 0, time.UTC)
			lists := 0
			var failure error
			detecting := cache.ToListerWatcherWithContext(restore.DetectAt(&cache.ListWatch{
				ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
					lists++
					return &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: "12"}}, nil
				},
				WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
					return watch.NewEmptyWatch(), failure
				},
			}, func() time.Time { return now }))
			resume := func() error {
				_, err := detecting.WatchWithContext(t.Context(), metav1.ListOptions{ResourceVersion: "10", TimeoutSeconds: tc.timeout})
				return err
			}
			require.NoError(t, resume())
			now = now.Add(tc.after)
			if failure = tc.failure; failure != nil {
				require.ErrorIs(t, resume(), failure)
				failure = nil
			}
			lists = 0
			err := resume()
			assert.Equal(t, tc.want, lists)
			if tc.failure != nil {
				assert.True(t, apierrors.IsResourceExpired(err), "%v", err)
				return
			}
			require.NoError(t, err)
		})
	}
}

// The watch that follows a list begins where the server is.
func TestAWatchBeginsWithoutAnotherListAfterAList(t *testing.T) {
	for name, tc := range map[string]struct {
		version string
		after   time.Duration
		failure error // of an attempt to watch in between
		want    int   // lists for the watch
	}{
		"right after the list":                  {version: "12", after: time.Second},
		"there was a pause":                     {version: "12", after: 3 * time.Second, want: 1},
		"it continues from another version":     {version: "11", after: time.Second, want: 1},
		"the server could not be reached since": {version: "12", after: time.Second, failure: errUnavailable, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Date(2026, 11, 24, 1, 0, 0, 0, time.UTC)
			lists := 0
			var failure error
			detecting := cache.ToListerWatcherWithContext(restore.DetectAt(&cache.ListWatch{
				ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
					lists++
					return &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: "12"}}, nil
				},
				WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
					return watch.NewEmptyWatch(), failure
				},
			}, func() time.Time { return now }))
			begin := func() error {
				_, err := detecting.WatchWithContext(t.Context(), metav1.ListOptions{ResourceVersion: tc.version})
				return err
			}
			_, err := detecting.ListWithContext(t.Context(), metav1.ListOptions{})
			require.NoError(t, err)
			now = now.Add(tc.after)
			if failure = tc.failure; failure != nil {
				require.ErrorIs(t, begin(), failure)
				failure = nil
			}
			lists = 0
			err = begin()
			assert.Equal(t, tc.want, lists)
			assert.Equal(t, tc.failure != nil, apierrors.IsResourceExpired(err), "%v", err)
		})
	}
}

// Objects are listed again after a watch has ended. The comparison is told first, and what is asked for is no
// state of before the outage.
func TestTheServerIsComparedBeforeAllObjectsAreListedAgain(t *testing.T) {
	for name, again := range map[string]func(cache.ListerWatcherWithContext, context.Context, metav1.ListOptions) error{
		"by a list": func(lw cache.ListerWatcherWithContext, ctx context.Context, o metav1.ListOptions) error {
			_, err := lw.ListWithContext(ctx, o)
			return err
		},
		"by a watch": func(lw cache.ListerWatcherWithContext, ctx context.Context, o metav1.ListOptions) error {
			o.SendInitialEvents = ptr.To(true)
			_, err := lw.WatchWithContext(ctx, o)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			var compared []string
			var failure error
			detecting := cache.ToListerWatcherWithContext(restore.DetectWith(&cache.ListWatch{
				ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
					return &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: "12"}}, failure
				},
				WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
					return watch.NewEmptyWatch(), failure
				},
			}, func(server, _ string) bool {
				compared = append(compared, server)
				return len(compared) == 3
			}))
			first := metav1.ListOptions{}
			require.NoError(t, again(detecting, t.Context(), first))
			assert.Empty(t, compared, "nothing can be lost before the first list")
			failure = errUnavailable
			require.ErrorIs(t, again(detecting, t.Context(), metav1.ListOptions{ResourceVersion: "10"}), errUnavailable)
			failure = nil
			for range 2 { // after an outage, and when the server is behind
				err := again(detecting, t.Context(), metav1.ListOptions{ResourceVersion: "10"})
				if len(compared) == 2 {
					require.NoError(t, err)
					err = again(detecting, t.Context(), metav1.ListOptions{ResourceVersion: "10"})
				}
				assert.True(t, apierrors.IsResourceExpired(err), "%v", err)
			}
			require.NoError(t, again(detecting, t.Context(), metav1.ListOptions{}))
			assert.Equal(t, []string{"12", "12", "12", "12"}, compared)
		})
	}
}

// A server that says in each watch that the version expired makes client-go list without a pause.
func TestListsAreNotRepeatedWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lists := 0
		detecting := cache.ToListerWatcherWithContext(restore.Detect(&cache.ListWatch{
			ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
				lists++
				return &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: "12"}}, nil
			},
		}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for ctx.Err() == nil {
			_, _ = detecting.ListWithContext(ctx, metav1.ListOptions{})
		}
		assert.InDelta(t, 2*(20+60), lists, 4, "each with one for the version")
	})
}

// listWatch lists before it watches.
type listWatch struct{ *cache.ListWatch }

// IsWatchListSemanticsUnSupported is called by client-go's reflector.
func (listWatch) IsWatchListSemanticsUnSupported() bool { return true }

// A list after an outage may hold another object of the same name, which a handler must not take
// for a change of the object before: predicates compare the two.
func TestAnObjectThatReplacesAnotherIsNoUpdate(t *testing.T) {
	object := func(uid types.UID, data string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: uid, ResourceVersion: "1"}, Data: map[string]string{"key": data}}
	}
	stored := object("before", "1")
	watches := make(chan *watch.FakeWatcher, 10)
	informer := restore.NewInformer(listWatch{&cache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			return &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: "12"}, Items: []corev1.ConfigMap{*stored}}, nil
		},
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
			w := watch.NewFake()
			watches <- w
			return w, nil
		},
	}}, &corev1.ConfigMap{}, 0, cache.Indexers{})
	register := map[string]func(cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error){
		"AddEventHandler": informer.AddEventHandler,
		"AddEventHandlerWithResyncPeriod": func(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
			return informer.AddEventHandlerWithResyncPeriod(h, time.Hour)
		},
		"AddEventHandlerWithOptions": func(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
			return informer.AddEventHandlerWithOptions(h, cache.HandlerOptions{})
		},
	}
	observed := map[string]chan string{}
	for name, add := range register {
		events := make(chan string, 10)
		observed[name] = events
		record := func(event string, object any) {
			cm, _ := object.(*corev1.ConfigMap)
			events <- event + " " + string(cm.UID) + " " + cm.Data["key"]
		}
		_, err := add(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(object any) { record("add", object) },
			UpdateFunc: func(_, object any) { record("update", object) },
			DeleteFunc: func(object any) { record("delete", object) },
		})
		require.NoError(t, err)
	}
	expect := func(events ...string) {
		t.Helper()
		for name, observed := range observed {
			for _, want := range events {
				select {
				case event := <-observed:
					assert.Equal(t, want, event, name)
				case <-time.After(time.Minute):
					require.Fail(t, "no event", "%s, want %s", name, want)
				}
			}
		}
	}
	go informer.RunWithContext(t.Context())
	expect("add before 1")
	w := <-watches
	w.Modify(object("before", "2"))
	expect("update before 2")
	stored = object("after", "2")
	w.Error(&apierrors.NewResourceExpired("restored").ErrStatus)
	expect("delete before 2", "add after 2")
}
