package undecodable_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme"
	"github.com/longshore-dev/longshore/host/kit/undecodable"
)

// server serves a list of ResourceSlices, then the events of a watch.
type server struct {
	mu    sync.Mutex
	items []string
	// watches has a channel of events for each watch.
	watches []chan string
}

// set sets what is listed from now on.
func (s *server) set(items ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.items = items
}

// send sends events to a watch once it has begun.
func (s *server) send(t *testing.T, watch int, events ...string) {
	t.Helper()
	var to chan string
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.watches) <= watch {
			return false
		}
		to = s.watches[watch]
		return true
	}, time.Minute, time.Millisecond)
	for _, event := range events {
		to <- event
	}
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Query().Get("watch") == "" {
		s.mu.Lock()
		defer s.mu.Unlock()
		items := make([]json.RawMessage, len(s.items))
		for i, item := range s.items {
			items[i] = json.RawMessage(item)
		}
		_ = json.NewEncoder(w).Encode(map[string]any{
			"apiVersion": "authentication.liqo.io/v1beta1", "kind": "ResourceSliceList",
			"metadata": map[string]any{"resourceVersion": "9"}, "items": items,
		})
		return
	}
	if r.URL.Query().Get("sendInitialEvents") != "" { // As an API server that does not know it.
		w.WriteHeader(http.StatusUnprocessableEntity)
		_ = json.NewEncoder(w).Encode(apierrors.NewInvalid(schema.GroupKind{}, "", nil).Status())
		return
	}
	flush := http.NewResponseController(w)
	_ = flush.Flush()
	events := make(chan string)
	s.mu.Lock()
	s.watches = append(s.watches, events)
	s.mu.Unlock()
	for {
		select {
		case event := <-events:
			_, _ = fmt.Fprintln(w, event)
			_ = flush.Flush()
		case <-r.Context().Done():
			return
		}
	}
}

func object(name, version, spec string) string {
	return fmt.Sprintf(`{"apiVersion":"authentication.liqo.io/v1beta1","kind":"ResourceSlice","metadata":{"name":%[1]q,"namespace":"tenant","uid":%[1]q,"resourceVersion":%[2]q},"spec":%[3]s}`, name, version, spec)
}

func event(kind, name, version, spec string) string {
	return fmt.Sprintf(`{"type":%q,"object":%s}`, kind, object(name, version, spec))
}

const (
	good = `{"resources":{"cpu":"1"}}`
	bad  = `{"resources":{"cpu":"1e1.5"}}`
)

// start returns an informer of the server's slices, with what the filter reports.
func start(t *testing.T, s *server) (cache.SharedIndexInformer, *events.FakeRecorder) {
	t.Helper()
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	types, err := scheme.New()
	require.NoError(t, err)
	filter := undecodable.New(types)
	recorder := events.NewFakeRecorder(10)
	filter.ReportTo(recorder)
	config := filter.Wrap(&rest.Config{Host: web.URL})
	config.GroupVersion, config.APIPath = &authv1beta1.GroupVersion, "/apis"
	config.NegotiatedSerializer = codecs(types)
	api, err := rest.RESTClientFor(config)
	require.NoError(t, err)
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list := &authv1beta1.ResourceSliceList{}
			return list, api.Get().Resource("resourceslices").VersionedParams(&options, metav1.ParameterCodec).Do(ctx).Into(list)
		},
		WatchFuncWithContext: watchFunc(api),
	}
	informer := filter.NewInformer(lw, &authv1beta1.ResourceSlice{}, 0, cache.Indexers{})
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { informer.RunWithContext(ctx) })
	t.Cleanup(func() { cancel(); done.Wait() })
	return informer, recorder
}

func has(t *testing.T, informer cache.SharedIndexInformer, want ...string) {
	t.Helper()
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		assert.ElementsMatch(t, want, informer.GetStore().ListKeys())
	}, time.Minute, time.Millisecond)
}

func TestAnObjectThatCannotBeDecodedIsLeftOut(t *testing.T) {
	s := &server{items: []string{object("bad", "1", bad), object("good", "2", good)}}
	informer, recorder := start(t, s)
	has(t, informer, "tenant/good")
	assert.Contains(t, <-recorder.Events, "spec.resources.cpu: ")
	s.send(t, 0, event("MODIFIED", "bad", "10", good))
	has(t, informer, "tenant/good", "tenant/bad")
	s.send(t, 0, event("ADDED", "late", "12", good))
	s.send(t, 0, event("DELETED", "bad", "13", bad))
	s.send(t, 0, event("DELETED", "good", "14", good))
	has(t, informer, "tenant/late")
}

// An object that cannot be decoded any more stays as it was, whether an event or a list says so. It is gone when it
// is deleted, and when another one has its name.
func TestAnObjectThatCannotBeDecodedAnyMoreStaysAsItWas(t *testing.T) {
	s := &server{items: []string{object("bad", "1", good), object("good", "2", good)}}
	informer, recorder := start(t, s)
	has(t, informer, "tenant/good", "tenant/bad")
	isAsBefore := func(version string) {
		t.Helper()
		stored, _, err := informer.GetStore().GetByKey("tenant/bad")
		require.NoError(t, err)
		slice, _ := stored.(*authv1beta1.ResourceSlice)
		require.NotNil(t, slice)
		assert.Equal(t, "1", slice.Spec.Resources.Cpu().String())
		assert.Equal(t, version, slice.ResourceVersion)
	}
	s.set(object("bad", "10", bad), object("good", "2", good))
	s.send(t, 0, event("MODIFIED", "bad", "10", bad)) // The list that follows has it, too.
	assert.Contains(t, <-recorder.Events, "spec.resources.cpu: ")
	s.send(t, 1, event("MODIFIED", "bad", "11", bad), event("ADDED", "late", "12", good))
	has(t, informer, "tenant/good", "tenant/bad", "tenant/late")
	isAsBefore("1")
	assert.Contains(t, <-recorder.Events, "spec.resources.cpu: ")
	s.send(t, 1, event("MODIFIED", "bad", "13", good), event("MODIFIED", "bad", "14", bad), event("DELETED", "late", "15", good))
	has(t, informer, "tenant/good", "tenant/bad")
	isAsBefore("13")
	s.send(t, 1, event("DELETED", "bad", "16", bad))
	has(t, informer, "tenant/good")
	s.set(strings.ReplaceAll(object("good", "20", bad), `"uid":"good"`, `"uid":"another"`))
	s.send(t, 1, `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}}`)
	has(t, informer)
}

// A watch that began while all objects could be decoded goes on.
func TestAWatchGoesOnAfterAnObjectThatCannotBeDecoded(t *testing.T) {
	s := &server{items: []string{object("good", "2", good)}}
	informer, recorder := start(t, s)
	has(t, informer, "tenant/good")
	s.set(object("good", "2", good), object("bad", "10", bad))
	s.send(t, 0, event("ADDED", "bad", "10", bad))
	s.send(t, 1, event("ADDED", "late", "12", good))
	has(t, informer, "tenant/good", "tenant/late")
	assert.Contains(t, <-recorder.Events, "spec.resources.cpu: ")
}

// An amount that takes long to parse is refused before that, where objects are filtered.
func TestAnAmountThatTakesLongIsLeftOut(t *testing.T) {
	s := &server{items: []string{object("bad", "1", bad), object("long", "1", `{"resources":{"cpu":"1e200"}}`), object("good", "2", good)}}
	informer, _ := start(t, s)
	has(t, informer, "tenant/good")
}
