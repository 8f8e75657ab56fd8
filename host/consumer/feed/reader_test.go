package feed

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
)

const expired = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}`

// read returns the events of a watch whose response is body.
func read(t *testing.T, body string) []watch.Event {
	t.Helper()
	w, err := open(t, http.StatusOK, body)
	require.NoError(t, err)
	defer w.Stop()
	var events []watch.Event
	for e := range w.ResultChan() {
		events = append(events, e)
	}
	return events
}

func open(t *testing.T, code int, body string) (watch.Interface, error) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "/prefix/apis/feed.longshore.dev/v1alpha1/configmaps", r.URL.Path)
		assert.Equal(t, "allowWatchBookmarks=true&labelSelector=a%3Db&resourceVersionMatch=NotOlderThan&sendInitialEvents=true&watch=true", r.URL.RawQuery)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(server.Close)
	reader, err := NewReader(&rest.Config{Host: server.URL + "/prefix"}, clientgoscheme.Scheme)
	require.NoError(t, err)
	return reader.watch(t.Context(), corev1.SchemeGroupVersion.WithKind("ConfigMap"), &metav1.ListOptions{
		LabelSelector: "a=b", AllowWatchBookmarks: true, SendInitialEvents: ptr.To(true), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	})
}

func TestTheEventsOfAFeed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		body string
		want []watch.Event
	}{
		"objects": {
			`{"type":"ADDED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"namespace":"one","name":"a"},"data":{"Text":"ERROR"}}}` + "\n" +
				`{"type":"DELETED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"namespace":"one","name":"a"}}}` + "\n",
			[]watch.Event{
				{Type: watch.Added, Object: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "one", Name: "a"}, Data: map[string]string{"Text": "ERROR"}}},
				{Type: watch.Deleted, Object: configMap("one", "a", "")},
			},
		},
		"a bookmark of the feed, whose type is last": {
			`{"object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"7","annotations":{"feed.longshore.dev/namespaces":"one"}}},"type":"BOOKMARK"}` + "\n",
			[]watch.Event{{Type: watch.Bookmark, Object: announce("one", "7")}},
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
			assert.Equal(t, test.want, read(t, test.body))
		})
	}
}

func TestWhatIsNotAnEventEndsTheWatchWithAnError(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"no JSON":         "<html>",
		"another kind":    `{"type":"ADDED","object":{"data":[]}}`,
		"an unknown type": `{"type":"OTHER","object":{}}`,
		"no type":         `{}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			events := read(t, body+"\n"+strings.Repeat(" ", 10)+"\n")
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
	_, err := open(t, http.StatusGone, expired)
	assert.True(t, apierrors.IsResourceExpired(err), err)
}
