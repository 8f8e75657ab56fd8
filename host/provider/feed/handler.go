// Package feed serves one watch per kind with the objects of all namespaces of a consumer.
//
// A virtual kubelet needs a watch for each kind and mapped namespace without it. The feed stores
// nothing: it opens the watch at the API server with its own rights, and passes the events of the
// namespaces in which RBAC lets the caller watch the kind (ADR 71). Events, bookmarks, errors, selectors
// and resource versions are those of the API server.
//
// A caller sees the namespaces in which a RoleBinding gives one of its groups the role of consumers,
// liqo-virtual-kubelet-remote, and the kinds that this role may watch. A caller without any namespace is
// refused, and its open watch ends. The front proxy of the API server passes the identity of callers in
// headers, which are accepted with a certificate of the authority for front proxies only. The tenant's
// ClusterRoleBinding of liqo-virtual-kubelet-remote-clusterwide gives the right to call the feed.
//
// A bookmark with [feed.NamespacesAnnotation] lists the namespaces whose events follow, from its resource
// version on: the first event of a watch, and again when the set changes. So a change ends no watch. The
// initial events (KEP-3157) are those of one set of namespaces: one that is added meanwhile is announced
// after their end. Objects are without managedFields, unless some are of an apply, and in Protocol Buffers if
// the caller accepts them and the API server has them. Events have no labels of the consumer, so that the
// feed reads those of all pods of the provider, once for each consumer.
//
// TestLongTheFeedOfTheChart runs webhook and virtual kubelet as processes with the rights of the chart: one
// watch for each kind, an orderly update and a crash of the webhook without a lost change, and no event
// after unpeering. TestAFeedThatIsSwitchedOffLeavesNothing upgrades the chart.
package feed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/longshore-dev/longshore/host/kit/feed"
)

const (
	// maxError bounds what is read of a response with an error.
	maxError = 1 << 20
	// maxWatches is how many watches one consumer may have at a replica. Each reads the events of all
	// consumers, in the process that also serves admission. A virtual kubelet has one for each kind.
	maxWatches = 256
	// ahead is how many events are kept while an earlier one is written; they are sent together. There are
	// few, because a consumer that does not read holds them in memory for each of its watches.
	ahead = 2
)

var errNoNamespace = errors.New("the groups of the caller may watch this kind in no namespace")

// Handler serves the feed while it runs.
type Handler struct {
	callers *frontProxy
	rights  *Rights
	// server is the URL of the API server, and http the client for it.
	server *url.URL
	http   *http.Client
	// ended is closed when the process stops.
	ended chan struct{}

	mu sync.Mutex
	// open is the number of watches of each consumer, by its group.
	open map[string]int
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.hasEnded() {
		writeEnded(w)
		return
	}
	caller, ok, err := h.callers.AuthenticateRequest(r)
	if err != nil || !ok {
		writeError(w, apierrors.NewUnauthorized("the request did not come through the API server"))
		return
	}
	resource := strings.Trim(strings.TrimPrefix(r.URL.Path, feed.Path), "/")
	if r.Method != http.MethodGet {
		writeError(w, apierrors.NewMethodNotSupported(groupResource(resource), r.Method))
		return
	}
	if resource == "" {
		writeJSON(w, http.StatusOK, resources(feed.Group+"/"+feed.Version))
		return
	}
	path, ok := feed.CollectionOf(resource)
	if !ok {
		writeError(w, apierrors.NewNotFound(groupResource(resource), ""))
		return
	}
	query, err := watchQuery(r.URL.Query())
	if err != nil {
		writeError(w, err)
		return
	}
	h.watch(w, r, caller.User, resource, path+"?"+query.Encode())
}

func groupResource(resource string) schema.GroupResource {
	return schema.GroupResource{Group: feed.Group, Resource: resource}
}

// watchQuery returns the query of the watch at the API server.
func watchQuery(asked url.Values) (url.Values, error) {
	if asked.Get("watch") != "true" && asked.Get("watch") != "1" {
		return nil, apierrors.NewBadRequest("the feed has watches and no lists: begin a watch with sendInitialEvents=true")
	}
	if version := asked.Get("resourceVersion"); !hasInitialEvents(asked) && (version == "" || version == "0") {
		return nil, apierrors.NewBadRequest("begin the watch with sendInitialEvents=true, or at the resource version of a list")
	}
	query := url.Values{"watch": {"true"}, "allowWatchBookmarks": {"true"}}
	for _, key := range []string{"resourceVersion", "resourceVersionMatch", "sendInitialEvents", "labelSelector", "fieldSelector", "timeoutSeconds"} {
		if asked.Has(key) {
			query.Set(key, asked.Get(key))
		}
	}
	return query, nil
}

func hasInitialEvents(query url.Values) bool { return query.Get("sendInitialEvents") == "true" }

// watch opens the watch at the API server and passes what the caller may see.
func (h *Handler) watch(w http.ResponseWriter, r *http.Request, caller user.Info, resource, uri string) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	go func() {
		select {
		case <-h.ended:
			cancel()
		case <-ctx.Done():
		}
	}()
	kind, _ := feed.KindOf(resource)
	out := &stream{
		w: w, control: http.NewResponseController(w), kind: kind,
		position: r.URL.Query().Get("resourceVersion"), isInitial: hasInitialEvents(r.URL.Query()),
		rights: func() (sets.Set[string], <-chan struct{}) {
			return h.rights.Of(caller.GetGroups(), schema.GroupResource{Group: kind.Group, Resource: resource})
		},
	}
	if out.shown, out.changed = out.rights(); out.shown.Len() == 0 {
		writeError(w, apierrors.NewForbidden(groupResource(resource), "", errNoNamespace))
		return
	}
	consumer := h.rights.consumer(caller.GetGroups())
	if !h.begin(consumer) {
		// Without the header Retry-After, client-go does not repeat it: the consumer watches namespaces.
		writeError(w, apierrors.NewTooManyRequestsError(fmt.Sprintf("%s has %d watches of the feed, which is the limit: watch each namespace", consumer, maxWatches)))
		return
	}
	defer h.end(consumer)
	upstream, err := h.request(ctx, uri, feed.Accepted(r.Header.Get("Accept")))
	if err != nil && h.hasEnded() {
		writeEnded(w)
		return
	}
	if err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "Watching the API server failed", "resource", resource)
		writeError(w, apierrors.NewServiceUnavailable("the feed cannot watch the API server"))
		return
	}
	defer upstream.Body.Close()
	if upstream.StatusCode != http.StatusOK {
		for _, header := range []string{"Content-Type", "Retry-After"} {
			w.Header()[header] = upstream.Header[header]
		}
		w.WriteHeader(upstream.StatusCode)
		_, _ = io.Copy(w, io.LimitReader(upstream.Body, maxError))
		return
	}
	out.encoding = feed.EncodingOf(upstream.Header.Get("Content-Type"))
	w.Header().Set("Content-Type", out.encoding.ContentType())
	events := make(chan event, ahead)
	go func() {
		defer close(events)
		if err := receive(ctx, out.encoding, upstream.Body, events); err != nil {
			logr.FromContextOrDiscard(ctx).Error(err, "Reading an event of the API server failed, the watch ends", "resource", resource)
		}
	}()
	out.run(ctx, events)
}

// begin counts a watch of a consumer, and reports whether it may have one more. The caller calls end.
func (h *Handler) begin(consumer string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open[consumer] >= maxWatches {
		return false
	}
	h.open[consumer]++
	return true
}

func (h *Handler) end(consumer string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open[consumer]--; h.open[consumer] == 0 {
		delete(h.open, consumer)
	}
}

// request begins a watch at the API server.
func (h *Handler) request(ctx context.Context, uri string, accepted feed.Encoding) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(h.server.String(), "/")+uri, http.NoBody)
	if err != nil {
		return nil, err //nolint:wrapcheck // The caller logs it with the resource.
	}
	request.Header.Set("Accept", accepted.Accept())
	return h.http.Do(request) //nolint:wrapcheck // The caller logs it with the resource.
}

// receive sends the events of a watch until it ends. Its error is that of an event that cannot be read.
func receive(ctx context.Context, encoding feed.Encoding, body io.Reader, events chan<- event) error {
	for received := encoding.Events(body); received.Scan(); {
		e, err := parse(encoding, received.Bytes())
		if err != nil {
			return err
		}
		select {
		case events <- e:
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

// stream writes the events of one watch.
type stream struct {
	w        io.Writer
	control  *http.ResponseController
	encoding feed.Encoding
	kind     schema.GroupVersionKind
	// rights returns the namespaces that the caller may see, and a channel that is closed when they may
	// have changed. shown and changed are its last results.
	rights  func() (sets.Set[string], <-chan struct{})
	shown   sets.Set[string]
	changed <-chan struct{}
	// position is the resource version of the last event of the API server.
	position string
	// isInitial is true during the initial events. They are those of one set of namespaces, like a list
	// with the rights at its start.
	isInitial bool
	// hasUnsent is true if something was written since the last flush.
	hasUnsent bool
}

// run passes events until the watch ends or the caller may see nothing any more.
func (o *stream) run(ctx context.Context, events <-chan event) {
	if !o.announce() {
		return
	}
	for {
		changed := o.changed
		if o.isInitial {
			changed = nil
		}
		select {
		case <-ctx.Done():
			return
		case e, ok := <-events:
			if !ok || !o.pass(e) || len(events) == 0 && !o.flush() {
				return
			}
		case <-changed:
			before := o.shown
			o.shown, o.changed = o.rights()
			if o.shown.Len() == 0 || !o.shown.Equal(before) && !o.announce() {
				return
			}
		}
	}
}

// announce sends a bookmark with the namespaces that are shown from here on.
func (o *stream) announce() bool {
	raw, err := o.encoding.Bookmark(o.kind, o.position, o.shown.UnsortedList())
	return err == nil && o.write(raw) && o.flush()
}

// pass writes an event that the caller may see. It returns false at the end of the watch.
func (o *stream) pass(e event) bool {
	if e.kind != watch.Error && e.version != "" {
		o.position = e.version
	}
	o.isInitial = o.isInitial && !e.endsInitial
	return !passes(e, o.shown.Has) || o.write(e.raw)
}

func (o *stream) write(raw []byte) bool {
	o.hasUnsent = true
	_, err := o.w.Write(raw)
	return err == nil
}

// flush sends what was written. Most events are those of other consumers, after which there is nothing.
func (o *stream) flush() bool {
	if !o.hasUnsent {
		return true
	}
	o.hasUnsent = false
	return o.control.Flush() == nil
}

func (h *Handler) hasEnded() bool {
	select {
	case <-h.ended:
		return true
	default:
		return false
	}
}

// writeEnded refers the caller to another replica, by another connection. client-go repeats the
// request after the second.
func writeEnded(w http.ResponseWriter) {
	w.Header().Set("Connection", "close")
	w.Header().Set("Retry-After", "1")
	writeError(w, apierrors.NewServiceUnavailable("this replica of the feed ends"))
}

func writeError(w http.ResponseWriter, err error) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		status = apierrors.NewInternalError(err)
	}
	result := status.Status()
	result.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	writeJSON(w, int(result.Code), result)
}

func writeJSON(w http.ResponseWriter, code int, object any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(object) // The caller is gone.
}
