package feed

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"

	wire "github.com/longshore-dev/longshore/host/kit/feed"
	"github.com/longshore-dev/longshore/host/peering/authentication"
)

var configMaps = corev1.SchemeGroupVersion.WithKind("ConfigMap")

// newHandler returns a Handler whose caller is of the consumer rome, with the namespace web-rome, and
// which watches the server.
func newHandler(t *testing.T, server *httptest.Server) *Handler {
	t.Helper()
	h := &Handler{rights: NewRights(), ended: make(chan struct{}), open: map[string]int{}, callers: &frontProxy{
		Request: authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
			return &authenticator.Response{User: &user.DefaultInfo{Name: "node", Groups: []string{"rome"}}}, true, nil
		}),
	}}
	h.rights.set(roleOf(authentication.NamespaceRole, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"watch"}}))
	h.rights.set(bindingOf("web-rome", authentication.NamespaceRole, groupOf("rome")))
	if server != nil {
		h.http = server.Client()
		var err error
		h.server, err = url.Parse(server.URL)
		require.NoError(t, err)
	}
	return h
}

func serve(t *testing.T, h *Handler) *httptest.ResponseRecorder {
	t.Helper()
	response := httptest.NewRecorder()
	h.ServeHTTP(response, httptest.NewRequestWithContext(t.Context(), http.MethodGet, wire.Path+"/configmaps?watch=true&resourceVersion=1", http.NoBody))
	return response
}

// TestWatchesOfAConsumerAreLimited has a consumer that begins watches without end: each takes memory and
// CPU time of the process that serves admission.
func TestWatchesOfAConsumerAreLimited(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	h := newHandler(t, server)
	for range maxWatches {
		require.True(t, h.begin("rome"))
	}
	response := serve(t, h)
	assert.Equal(t, http.StatusTooManyRequests, response.Code)
	assert.Empty(t, response.Header().Get("Retry-After"), "client-go does not ask again, but watches namespaces")
	assert.Contains(t, response.Body.String(), "rome has 256 watches of the feed")
	assert.True(t, h.begin("oslo"), "another consumer is not concerned")
	h.end("rome")
	assert.Equal(t, http.StatusOK, serve(t, h).Code)
	assert.Equal(t, map[string]int{"rome": maxWatches - 1, "oslo": 1}, h.open, "a watch that has ended is not counted")
}

// A virtual kubelet that is refused watches each namespace for minutes. It must not be refused because
// a replica ends.
func TestAReplicaThatEndsRefersToAnother(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		before bool // the request
		during bool // the request to the API server
		want   int
	}{
		"before the request":          {before: true, want: http.StatusServiceUnavailable},
		"while the watch begins":      {during: true, want: http.StatusServiceUnavailable},
		"a replica that does not end": {want: http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var h *Handler
			server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if test.during {
					close(h.ended)
					<-r.Context().Done()
				}
			}))
			t.Cleanup(server.Close)
			h = newHandler(t, server)
			if test.before {
				close(h.ended)
			}
			response := serve(t, h)
			require.Equal(t, test.want, response.Code, response.Body.String())
			if test.want == http.StatusServiceUnavailable {
				assert.Equal(t, "1", response.Header().Get("Retry-After"), "client-go asks again")
				assert.Equal(t, "close", response.Header().Get("Connection"))
			}
		})
	}
}

// The namespaces of the initial events are those at the start of the watch: a namespace that is added
// meanwhile would lack the events before.
func TestInitialEventsAreThoseOfOneSetOfNamespaces(t *testing.T) {
	t.Parallel()
	added := func(namespace string) event {
		return event{kind: watch.Added, namespace: namespace, version: "3", raw: []byte(`"` + namespace + `"`)}
	}
	h := newHandler(t, nil)
	lines := make(lines)
	o := &stream{
		w: lines, control: http.NewResponseController(httptest.NewRecorder()), encoding: wire.JSON, kind: configMaps, isInitial: true,
		rights: func() (sets.Set[string], <-chan struct{}) {
			return h.rights.Of([]string{"rome"}, schema.GroupResource{Resource: "configmaps"})
		},
	}
	o.shown, o.changed = o.rights()
	events := make(chan event)
	go o.run(t.Context(), events)
	assert.Contains(t, <-lines, `"feed.longshore.dev/namespaces":"web-rome"`)
	h.rights.set(bindingOf("shop-rome", authentication.NamespaceRole, groupOf("rome")))
	events <- added("shop-rome")
	events <- added("web-rome")
	assert.Equal(t, `"web-rome"`, <-lines)
	events <- event{kind: watch.Bookmark, version: "9", endsInitial: true, raw: []byte(`"end"`)}
	assert.Equal(t, `"end"`, <-lines)
	assert.Contains(t, <-lines, `"resourceVersion":"9","annotations":{"feed.longshore.dev/namespaces":"shop-rome,web-rome"}`)
	events <- added("shop-rome")
	assert.Equal(t, `"shop-rome"`, <-lines)
}

// lines receives what a stream writes.
type lines chan string

func (l lines) Write(line []byte) (int, error) {
	l <- strings.TrimSuffix(string(line), "\n")
	return len(line), nil
}

// flushes is a response that separates by | what was sent together.
type flushes struct {
	http.ResponseWriter

	sent strings.Builder
}

func (f *flushes) Write(line []byte) (int, error) {
	return f.sent.WriteString(strings.TrimSpace(string(line)) + " ")
}

func (f *flushes) FlushError() error {
	f.sent.WriteString("| ")
	return nil
}

func TestEventsThatAreReadyAreSentTogether(t *testing.T) {
	t.Parallel()
	h := newHandler(t, nil)
	f := &flushes{}
	o := &stream{w: f, control: http.NewResponseController(f), encoding: wire.JSON, kind: configMaps, rights: func() (sets.Set[string], <-chan struct{}) {
		return h.rights.Of([]string{"rome"}, schema.GroupResource{Resource: "configmaps"})
	}}
	o.shown, _ = o.rights()
	events := make(chan event, 4)
	for _, e := range []struct{ namespace, raw string }{{"web-rome", "1"}, {"theirs", "2"}, {"web-rome", "3"}, {"theirs", "4"}} {
		events <- event{kind: watch.Added, namespace: e.namespace, raw: []byte(e.raw)}
	}
	close(events)
	o.run(t.Context(), events)
	_, afterBookmark, _ := strings.Cut(f.sent.String(), "| ")
	assert.Equal(t, "1 3 | ", afterBookmark)
	require.True(t, o.flush())
	assert.Equal(t, 2, strings.Count(f.sent.String(), "|"), "nothing is sent when nothing was written")
}

// A watch from a resource version that the API server no longer has fails as there, so that the
// client lists again.
func TestErrorsOfTheAPIServerReachTheCaller(t *testing.T) {
	t.Parallel()
	const status = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}`
	for name, test := range map[string]struct {
		code int
		body string
		want string
	}{
		"when the watch begins": {code: http.StatusGone, body: status, want: status},
		"later": {
			code: http.StatusOK, body: `{"type":"ERROR","object":` + status + `}` + "\n",
			want: `{"object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"1","annotations":{"feed.longshore.dev/namespaces":"web-rome"}}},"type":"BOOKMARK"}` + "\n" +
				`{"type":"ERROR","object":` + status + `}` + "\n",
		},
		"too many requests": {code: http.StatusTooManyRequests, body: "later", want: "later"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				assert.Equal(t, "/api/v1/configmaps?allowWatchBookmarks=true&resourceVersion=1&watch=true", r.URL.String())
				w.Header().Set("Retry-After", "3")
				w.WriteHeader(test.code)
				_, _ = w.Write([]byte(test.body))
			}))
			t.Cleanup(server.Close)
			response := serve(t, newHandler(t, server))
			assert.Equal(t, test.code, response.Code)
			assert.Equal(t, test.want, response.Body.String())
			if test.code == http.StatusTooManyRequests {
				assert.Equal(t, "3", response.Header().Get("Retry-After"), "client-go asks again")
			}
		})
	}
}
