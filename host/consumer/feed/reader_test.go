package feed

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/feed"
)

const expired = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}`

var (
	configMaps = corev1.SchemeGroupVersion.WithKind("ConfigMap")
	shadowPods = offloadingv1beta1.GroupVersion.WithKind("ShadowPod")
)

// response is what a feed answers to a watch.
type response struct {
	code              int
	contentType, body string
}

// read returns the events of a watch.
func read(t *testing.T, kind schema.GroupVersionKind, r response) []watch.Event {
	t.Helper()
	w, err := open(t, kind, r)
	require.NoError(t, err)
	defer w.Stop()
	var events []watch.Event
	for e := range w.ResultChan() {
		events = append(events, e)
	}
	return events
}

// open watches a kind of which a feed has only JSON if it is a custom resource.
func open(t *testing.T, kind schema.GroupVersionKind, answer response) (watch.Interface, error) {
	t.Helper()
	path, accepted := "/prefix/apis/feed.longshore.dev/v1alpha1/configmaps", "application/vnd.kubernetes.protobuf,application/json"
	if kind == shadowPods {
		path, accepted = "/prefix/apis/feed.longshore.dev/v1alpha1/shadowpods", "application/json"
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, path, r.URL.Path)
		assert.Equal(t, "allowWatchBookmarks=true&labelSelector=a%3Db&resourceVersionMatch=NotOlderThan&sendInitialEvents=true&watch=true", r.URL.RawQuery)
		assert.Equal(t, accepted, r.Header.Get("Accept"))
		w.Header().Set("Content-Type", answer.contentType)
		w.WriteHeader(answer.code)
		_, _ = w.Write([]byte(answer.body))
	}))
	t.Cleanup(server.Close)
	scheme := runtime.NewScheme()
	require.NoError(t, errors.Join(clientgoscheme.AddToScheme(scheme), offloadingv1beta1.AddToScheme(scheme)))
	reader, err := NewReader(&rest.Config{Host: server.URL + "/prefix"}, scheme)
	require.NoError(t, err)
	return reader.watch(t.Context(), kind, &metav1.ListOptions{
		LabelSelector: "a=b", AllowWatchBookmarks: true, SendInitialEvents: ptr.To(true), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	})
}

func inJSON(body string) response { return response{http.StatusOK, "application/json", body} }

func TestTheEventsOfCustomResources(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		body string
		want []watch.Event
	}{
		"objects": {
			`{"type":"ADDED","object":{"kind":"ShadowPod","metadata":{"namespace":"one","name":"a","labels":{"Text":"ERROR"}}}}` + "\n" +
				`{"type":"DELETED","object":{"kind":"ShadowPod","metadata":{"namespace":"one","name":"a"}}}` + "\n",
			[]watch.Event{
				{Type: watch.Added, Object: &offloadingv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Namespace: "one", Name: "a", Labels: map[string]string{"Text": "ERROR"}}}},
				{Type: watch.Deleted, Object: &offloadingv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Namespace: "one", Name: "a"}}},
			},
		},
		"a bookmark of the feed, whose type is last": {
			`{"object":{"kind":"ShadowPod","metadata":{"resourceVersion":"7","annotations":{"feed.longshore.dev/namespaces":"one"}}},"type":"BOOKMARK"}` + "\n",
			[]watch.Event{{Type: watch.Bookmark, Object: &offloadingv1beta1.ShadowPod{ObjectMeta: announce("one", "7").ObjectMeta}}},
		},
		"an error": {
			`{"type":"ERROR","object":` + expired + `}` + "\n",
			[]watch.Event{{Type: watch.Error, Object: &metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonExpired, Code: http.StatusGone}}},
		},
		"a connection that is cut": {`{"type":"ADDED","object":{"metadata":{"name":"a"`, nil},
		"the end":                  {"", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, test.want, read(t, shadowPods, inJSON(test.body)))
		})
	}
}

// A provider whose Longshore is older answers with JSON.
func TestTheEventsOfBuiltInKinds(t *testing.T) {
	t.Parallel()
	typed := configMap("one", "a", "3")
	typed.SetGroupVersionKind(configMaps)
	bookmark := func(encoding feed.Encoding) string {
		raw, err := encoding.Bookmark(configMaps, "7", []string{"one"})
		require.NoError(t, err)
		return string(raw)
	}
	event := func(kind watch.EventType, object runtime.Object) string {
		raw, err := feed.ProtobufEvent(kind, object)
		require.NoError(t, err)
		return string(raw)
	}
	failure := metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonExpired, Code: http.StatusGone}
	failed := failure.DeepCopy()
	failed.SetGroupVersionKind(metav1.Unversioned.WithKind("Status"))
	want := []watch.Event{
		{Type: watch.Bookmark, Object: announce("one", "7")},
		{Type: watch.Added, Object: configMap("one", "a", "3")},
		{Type: watch.Error, Object: &failure},
	}
	for name, r := range map[string]response{
		"Protocol Buffers": {http.StatusOK, feed.Protobuf.ContentType(), bookmark(feed.Protobuf) + event(watch.Added, typed) + event(watch.Error, failed)},
		"JSON": inJSON(bookmark(feed.JSON) +
			`{"type":"ADDED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"namespace":"one","name":"a","resourceVersion":"3"}}}` + "\n" +
			`{"type":"ERROR","object":` + expired + `}` + "\n"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, want, read(t, configMaps, r))
		})
	}
}

func TestWhatIsNotAnEventEndsTheWatchWithAnError(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"no JSON":         "<html>",
		"another kind":    `{"type":"ADDED","object":{"spec":[]}}`,
		"an unknown type": `{"type":"OTHER","object":{}}`,
		"no type":         `{}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			events := read(t, shadowPods, inJSON(body+"\n"+strings.Repeat(" ", 10)+"\n"))
			require.Len(t, events, 1)
			assert.Equal(t, watch.Error, events[0].Type)
			status, ok := events[0].Object.(*metav1.Status)
			require.True(t, ok)
			assert.True(t, apierrors.HasStatusCause(apierrors.FromObject(status), metav1.CauseTypeUnexpectedServerResponse))
		})
	}
}

func TestARefusedWatchKeepsItsReason(t *testing.T) {
	t.Parallel()
	for _, kind := range []schema.GroupVersionKind{configMaps, shadowPods} {
		_, err := open(t, kind, response{http.StatusGone, "application/json", expired})
		assert.True(t, apierrors.IsResourceExpired(err), err)
	}
}
