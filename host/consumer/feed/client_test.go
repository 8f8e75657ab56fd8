package feed

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/longshore-dev/longshore/host/kit/feed"
)

// rig is a Client whose feed and API server are played by the test.
type rig struct {
	client *Client
	now    time.Time
	// began receives the watches of the feed. opened are those that a test has received, direct the
	// namespaces that are watched without it, and listed those that are listed without it.
	began          chan *watch.FakeWatcher
	opened         []*watch.FakeWatcher
	direct, listed []string
	// initial is true if the last watch of the feed has initial events.
	initial bool
	// refusal is the error of the feed.
	refusal error
}

func newRig() *rig {
	r := &rig{now: time.Unix(1000, 0), began: make(chan *watch.FakeWatcher, 10)}
	c := fake.NewClientBuilder().Build()
	direct := interceptor.NewClient(c, interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, _ client.ObjectList, options ...client.ListOption) error {
			r.listed = append(r.listed, (&client.ListOptions{}).ApplyOptions(options).Namespace)
			return nil
		},
		Watch: func(_ context.Context, _ client.WithWatch, _ client.ObjectList, options ...client.ListOption) (watch.Interface, error) {
			r.direct = append(r.direct, (&client.ListOptions{}).ApplyOptions(options).Namespace)
			return watch.NewEmptyWatch(), nil
		},
	})
	r.client = New(direct, &Reader{}, NewStreams(func() time.Time { return r.now }))
	r.client.watch = func(_ context.Context, _ schema.GroupVersionKind, options *metav1.ListOptions) (watch.Interface, error) {
		if r.refusal != nil {
			return nil, r.refusal
		}
		r.initial = options.SendInitialEvents != nil && options.ResourceVersionMatch == metav1.ResourceVersionMatchNotOlderThan
		w := watch.NewFakeWithChanSize(1000, false)
		r.began <- w
		return w, nil
	}
	return r
}

func (r *rig) watch(t *testing.T, namespace, version string) (watch.Interface, error) {
	t.Helper()
	w, err := r.client.Watch(t.Context(), &corev1.ConfigMapList{}, &client.ListOptions{Namespace: namespace, Raw: &metav1.ListOptions{ResourceVersion: version}})
	if err == nil {
		t.Cleanup(w.Stop)
	}
	return w, err
}

// begin watches a namespace from a version while the feed announces its namespaces.
func (r *rig) begin(t *testing.T, namespace, version, announced string) watch.Interface {
	t.Helper()
	result := make(chan watch.Interface, 1)
	go func() {
		w, err := r.watch(t, namespace, version)
		assert.NoError(t, err)
		result <- w
	}()
	r.opened = append(r.opened, <-r.began)
	r.opened[0].Action(watch.Bookmark, announce(announced, version))
	return <-result
}

func announce(namespaces, version string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ResourceVersion: version, Annotations: map[string]string{feed.NamespacesAnnotation: namespaces}}}
}

func configMap(namespace, name, version string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, ResourceVersion: version}}
}

func next(t *testing.T, w watch.Interface) string {
	t.Helper()
	select {
	case e, ok := <-w.ResultChan():
		if !ok {
			return "end"
		}
		if object, ok := e.Object.(client.Object); ok {
			return strings.TrimSpace(string(e.Type) + " " + object.GetName() + " " + object.GetResourceVersion())
		}
		return string(e.Type)
	case <-time.After(time.Minute):
		return "nothing"
	}
}

func TestWatchesOfNamespacesShareTheWatchOfTheirKind(t *testing.T) {
	t.Parallel()
	r := newRig()
	one := r.begin(t, "one", "10", "one,two")
	r.opened[0].Add(configMap("two", "early", "11"))
	r.opened[0].Add(configMap("two", "late", "13"))
	r.opened[0].Add(configMap("one", "first", "14"))
	require.Equal(t, "ADDED first 14", next(t, one))
	two, err := r.watch(t, "two", "12")
	require.NoError(t, err)
	r.opened[0].Modify(configMap("two", "late", "15"))
	r.opened[0].Action(watch.Bookmark, configMap("", "", "20"))
	assert.Equal(t, "ADDED late 13", next(t, two), "the list at 12 has the object of 11")
	assert.Equal(t, "MODIFIED late 15", next(t, two))
	assert.Equal(t, "BOOKMARK  20", next(t, two))
	assert.Equal(t, "BOOKMARK  20", next(t, one))
	assert.Empty(t, r.began)
	assert.Empty(t, r.direct)
}

func TestAWatchThatTheFeedCannotContinueIsExpired(t *testing.T) {
	t.Parallel()
	r := newRig()
	one := r.begin(t, "one", "10", "one")
	_, err := r.watch(t, "one", "9")
	assert.True(t, apierrors.IsResourceExpired(err), "before the stream began: %v", err)

	r.opened[0].Add(configMap("one", "first", "11"))
	require.Equal(t, "ADDED first 11", next(t, one))
	r.opened[0].Action(watch.Bookmark, announce("one,two", "12"))
	r.opened[0].Action(watch.Bookmark, configMap("", "", "13"))
	require.Equal(t, "BOOKMARK  13", next(t, one))
	_, err = r.watch(t, "two", "11")
	assert.True(t, apierrors.IsResourceExpired(err), "before the feed had the namespace: %v", err)

	r.now = r.now.Add(recentTime + time.Second)
	r.opened[0].Action(watch.Bookmark, configMap("", "", "14"))
	require.Equal(t, "BOOKMARK  14", next(t, one))
	_, err = r.watch(t, "one", "10")
	assert.True(t, apierrors.IsResourceExpired(err), "after the event of 11 was dropped: %v", err)
	_, err = r.watch(t, "one", "11")
	assert.NoError(t, err)
}

func TestALostNamespaceEndsItsWatchOnly(t *testing.T) {
	t.Parallel()
	r := newRig()
	one := r.begin(t, "one", "10", "one,two")
	two, err := r.watch(t, "two", "10")
	require.NoError(t, err)
	r.opened[0].Action(watch.Bookmark, announce("one", "11"))
	r.opened[0].Add(configMap("one", "first", "12"))
	assert.Equal(t, "end", next(t, two))
	assert.Equal(t, "ADDED first 12", next(t, one))
}

func TestAllWatchesEndWithThatOfTheFeed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		end  func(w *watch.FakeWatcher)
		want []string
	}{
		"the connection ends": {func(w *watch.FakeWatcher) { w.Stop() }, []string{"BOOKMARK  10", "end"}},
		"the API server reports an error": {
			func(w *watch.FakeWatcher) { w.Error(&metav1.Status{Reason: metav1.StatusReasonExpired}) }, []string{"ERROR", "end"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig()
			one := r.begin(t, "one", "10", "one,two")
			two, err := r.watch(t, "two", "10")
			require.NoError(t, err)
			test.end(r.opened[0])
			for _, want := range test.want {
				assert.Equal(t, want, next(t, one))
				assert.Equal(t, want, next(t, two))
			}
		})
	}
}

// The watches of a stream that ended continue in the next one: none of them has to list again.
func TestWatchesContinueInTheNextStream(t *testing.T) {
	t.Parallel()
	r := newRig()
	one := r.begin(t, "one", "10", "one,two")
	two, err := r.watch(t, "two", "10")
	require.NoError(t, err)
	r.opened[0].Add(configMap("one", "first", "11"))
	require.Equal(t, "ADDED first 11", next(t, one))
	r.opened[0].Stop()
	require.Equal(t, "BOOKMARK  11", next(t, one))
	require.Equal(t, "BOOKMARK  11", next(t, two), "namespace two has no event up to version 11")
	require.Equal(t, "end", next(t, one))
	require.Equal(t, "end", next(t, two))
	r.opened = nil
	r.begin(t, "one", "11", "one,two")
	two, err = r.watch(t, "two", "11")
	require.NoError(t, err)
	r.opened[0].Add(configMap("two", "second", "12"))
	assert.Equal(t, "ADDED second 12", next(t, two))
}

// In a burst there are some hundred events a second, while hundreds of watches continue after the end of a
// stream.
func TestWatchesContinueBehindManyEvents(t *testing.T) {
	t.Parallel()
	r := newRig()
	one := r.begin(t, "one", "10", "one,two")
	for i := range 1000 {
		r.opened[0].Add(configMap("one", "burst", strconv.Itoa(11+i)))
		require.Equal(t, "ADDED burst "+strconv.Itoa(11+i), next(t, one))
	}
	_, err := r.watch(t, "two", "10")
	require.NoError(t, err)
	assert.Empty(t, r.direct)
}

func TestKeptEventsAreDroppedWithoutAnotherEvent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.client.streams.now = time.Now
		one := r.begin(t, "one", "10", "one")
		r.opened[0].Add(configMap("one", "first", "11"))
		require.Equal(t, "ADDED first 11", next(t, one))
		time.Sleep(2*recentTime + time.Second)
		synctest.Wait()
		_, err := r.watch(t, "one", "10")
		assert.True(t, apierrors.IsResourceExpired(err), "after the event of 11 was dropped: %v", err)
		r.opened[0].Stop()
	})
}

func TestTheWatchOfTheFeedEndsWithItsLastUser(t *testing.T) {
	t.Parallel()
	r := newRig()
	one := r.begin(t, "one", "10", "one,two")
	two, err := r.watch(t, "two", "10")
	require.NoError(t, err)
	one.Stop()
	one.Stop()
	assert.Len(t, r.client.streams.open, 1)
	two.Stop()
	assert.Empty(t, r.client.streams.open)
}

func TestNamespacesAreWatchedWithoutAFeedThatFails(t *testing.T) {
	t.Parallel()
	for name, refusal := range map[string]error{
		"no feed":   apierrors.NewNotFound(schema.GroupResource{}, ""),
		"no right":  apierrors.NewForbidden(schema.GroupResource{}, "", nil),
		"not ready": apierrors.NewServiceUnavailable("no endpoints"),
		"no answer": http.ErrServerClosed,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig()
			r.refusal = refusal
			for _, namespace := range []string{"one", "two"} {
				_, err := r.watch(t, namespace, "10")
				require.NoError(t, err)
			}
			assert.Equal(t, []string{"one", "two"}, r.direct)
			r.refusal = nil
			_, err := r.watch(t, "one", "10")
			require.NoError(t, err)
			assert.Empty(t, r.began, "the feed is not asked again at once")
			r.now = r.now.Add(retryAfter)
			assert.NotNil(t, r.begin(t, "one", "11", "one"))
		})
	}
	t.Run("a version that is too old is an error of the watch", func(t *testing.T) {
		t.Parallel()
		r := newRig()
		r.refusal = apierrors.NewResourceExpired("too old")
		_, err := r.watch(t, "one", "10")
		assert.True(t, apierrors.IsResourceExpired(err), "%v", err)
		assert.Empty(t, r.direct)
	})
}

func TestOtherWatchesDoNotUseTheFeed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		list client.ObjectList
		at   client.ListOptions
	}{
		"a kind without a resource of the feed": {&corev1.NodeList{}, client.ListOptions{Namespace: "one", Raw: &metav1.ListOptions{ResourceVersion: "10"}}},
		"all namespaces":                        {&corev1.ConfigMapList{}, client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "10"}}},
		"initial events":                        {&corev1.ConfigMapList{}, client.ListOptions{Namespace: "one"}},
		"any version":                           {&corev1.ConfigMapList{}, client.ListOptions{Namespace: "one", Raw: &metav1.ListOptions{ResourceVersion: "0"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig()
			_, err := r.client.Watch(t.Context(), test.list, &test.at)
			require.NoError(t, err)
			assert.Len(t, r.direct, 1)
			assert.Empty(t, r.began)
		})
	}
}

// list lists a namespace from a resource version and returns the names, with the version of the list.
func (r *rig) list(t *testing.T, namespace, version string) string {
	t.Helper()
	list := &corev1.ConfigMapList{}
	err := r.client.List(t.Context(), list, &client.ListOptions{
		Namespace: namespace, LabelSelector: labels.SelectorFromSet(labels.Set{"of": "rome"}), Raw: &metav1.ListOptions{ResourceVersion: version, Limit: 500},
	})
	if err != nil {
		return err.Error()
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	slices.Sort(names)
	return strings.TrimSpace(strings.Join(append([]string{list.ResourceVersion}, names...), " "))
}

// watchListed is watch with the selector of list.
func (r *rig) watchListed(t *testing.T, namespace, version string) (watch.Interface, error) {
	t.Helper()
	w, err := r.client.Watch(t.Context(), &corev1.ConfigMapList{}, &client.ListOptions{
		Namespace: namespace, LabelSelector: labels.SelectorFromSet(labels.Set{"of": "rome"}), Raw: &metav1.ListOptions{ResourceVersion: version},
	})
	if err == nil {
		t.Cleanup(w.Stop)
	}
	return w, err
}

// fill lists namespace one while the feed sends the initial events.
func (r *rig) fill(t *testing.T, announced string, objects ...*corev1.ConfigMap) string {
	t.Helper()
	result := make(chan string, 1)
	go func() { result <- r.list(t, "one", "0") }()
	w := <-r.began
	r.opened = append(r.opened, w)
	require.True(t, r.initial)
	w.Action(watch.Bookmark, announce(announced, ""))
	for _, object := range objects {
		w.Add(object)
	}
	end := configMap("", "", "20")
	end.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	w.Action(watch.Bookmark, end)
	return <-result
}

func TestFirstListsAreMadeOfTheInitialEvents(t *testing.T) {
	t.Parallel()
	r := newRig()
	assert.Equal(t, "20 a b", r.fill(t, "one,three,two", configMap("one", "b", "7"), configMap("two", "c", "5"), configMap("one", "a", "9"), configMap("two", "d", "6")))
	one, err := r.watchListed(t, "one", "20")
	require.NoError(t, err)
	// Namespace two is listed after later events, and has them.
	r.opened[0].Delete(configMap("two", "c", "21"))
	r.opened[0].Add(configMap("two", "e", "22"))
	r.opened[0].Add(configMap("one", "f", "23"))
	require.Equal(t, "ADDED f 23", next(t, one))
	assert.Equal(t, "23 d e", r.list(t, "two", "0"))
	two, err := r.watchListed(t, "two", "23")
	require.NoError(t, err)
	r.opened[0].Modify(configMap("two", "d", "24"))
	assert.Equal(t, "MODIFIED d 24", next(t, two), "nothing of the list comes again")
	assert.Equal(t, "24", r.list(t, "three", "24"), "an empty namespace")
	assert.Empty(t, r.listed)
	assert.Empty(t, r.direct)
	assert.Empty(t, r.began, "one watch serves all")
}

// A list that is not made of the initial events is one of the API server.
func TestOtherListsDoNotUseTheFeed(t *testing.T) {
	t.Parallel()
	for name, list := range map[string]func(t *testing.T, r *rig){
		"a namespace for the second time":   func(t *testing.T, r *rig) { r.list(t, "one", "0") },
		"a namespace that the feed has not": func(t *testing.T, r *rig) { r.list(t, "other", "0") },
		"a namespace that the feed has later": func(t *testing.T, r *rig) {
			r.opened[0].Action(watch.Bookmark, announce("late,one,two", "21"))
			r.list(t, "late", "0")
		},
		"what must be current": func(t *testing.T, r *rig) { r.list(t, "two", "") },
		"a later version":      func(t *testing.T, r *rig) { r.list(t, "two", "25") },
		"after a while": func(t *testing.T, r *rig) {
			r.now = r.now.Add(initialTimeout + time.Second)
			r.list(t, "two", "0")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig()
			require.Equal(t, "20", r.fill(t, "one,two"))
			list(t, r)
			assert.Len(t, r.listed, 1)
			assert.Empty(t, r.began)
		})
	}
	t.Run("no labels", func(t *testing.T) {
		t.Parallel()
		r := newRig()
		require.NoError(t, r.client.List(t.Context(), &corev1.ConfigMapList{}, &client.ListOptions{Namespace: "one", Raw: &metav1.ListOptions{ResourceVersion: "0"}}))
		assert.Len(t, r.listed, 1)
	})
}

// Watches share the feed also if it has no initial events, like that of an API server without them.
func TestNamespacesAreListedWithoutInitialEvents(t *testing.T) {
	t.Parallel()
	r := newRig()
	r.refusal = apierrors.NewBadRequest("sendInitialEvents is forbidden")
	for range 2 {
		r.list(t, "one", "0")
	}
	assert.Equal(t, []string{"one", "one"}, r.listed)
	r.refusal = nil
	r.list(t, "one", "0")
	assert.Empty(t, r.began, "the feed is not asked again at once")
	assert.NotNil(t, r.begin(t, "one", "10", "one"))
	assert.False(t, r.initial)
	assert.Empty(t, r.direct)
}

func TestAStreamThatEndsDuringTheInitialEventsFailsNoList(t *testing.T) {
	t.Parallel()
	r := newRig()
	result := make(chan string, 1)
	go func() { result <- r.list(t, "one", "0") }()
	w := <-r.began
	w.Action(watch.Bookmark, announce("one", ""))
	w.Add(configMap("one", "a", "7"))
	w.Stop()
	assert.Empty(t, <-result)
	assert.Equal(t, []string{"one"}, r.listed)
	assert.Empty(t, r.client.streams.open)
}

// The watch of the feed ends when its initial events are not needed, and no watch follows.
func TestInitialEventsAreDropped(t *testing.T) {
	t.Parallel()
	for name, drop := range map[string]func(t *testing.T, r *rig){
		"all are listed": func(t *testing.T, r *rig) { r.list(t, "two", "0") },
		"after a while":  func(_ *testing.T, r *rig) { r.now = r.now.Add(initialTimeout + time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig()
			require.Equal(t, "20 a", r.fill(t, "one,two", configMap("one", "a", "7")))
			drop(t, r)
			one, err := r.watchListed(t, "one", "20")
			require.NoError(t, err)
			r.opened[0].Action(watch.Bookmark, configMap("", "", "30"))
			require.Equal(t, "BOOKMARK  30", next(t, one))
			one.Stop()
			require.Eventually(t, func() bool {
				r.client.streams.mu.Lock()
				defer r.client.streams.mu.Unlock()
				return len(r.client.streams.open) == 0
			}, time.Minute, time.Millisecond)
		})
	}
}
