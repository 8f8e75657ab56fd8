// Package feed serves one watch per kind with the objects of all namespaces of a consumer.
//
// A virtual kubelet needs a watch for each kind and mapped namespace without it. The feed stores
// nothing: it opens the watch at the API server with its own rights, and passes the events of the
// namespaces in which the caller may watch the kind. It does not serve lists, which virtual kubelets
// request of the API server for each namespace.
package feed

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-logr/logr"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/authentication/user"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"

	"github.com/longshore-dev/longshore/host/kit/feed"
)

// maxError bounds what is read of a response with an error.
const maxError = 1 << 20

var errNoNamespace = errors.New("the groups of the caller may watch this kind in no namespace")

// Handler serves the feed while it runs.
type Handler struct {
	callers  *frontProxy
	bindings *Bindings
	access   authorizationclient.SubjectAccessReviewInterface
	// server is the URL of the API server, and http the client for it.
	server *url.URL
	http   *http.Client
	// ended is closed when the process stops.
	ended chan struct{}
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
	version := asked.Get("resourceVersion")
	switch {
	case asked.Get("watch") != "true" && asked.Get("watch") != "1":
		return nil, apierrors.NewBadRequest("the feed has watches and no lists: list the objects of a namespace at the API server")
	case version == "" || version == "0" || asked.Has("sendInitialEvents"):
		return nil, apierrors.NewBadRequest("the feed has no initial events: begin the watch at the resource version of a list")
	}
	query := url.Values{"watch": {"true"}, "allowWatchBookmarks": {"true"}, "resourceVersion": {version}}
	for _, key := range []string{"labelSelector", "fieldSelector", "timeoutSeconds"} {
		if asked.Has(key) {
			query.Set(key, asked.Get(key))
		}
	}
	return query, nil
}

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
	bound, changed := h.bindings.Of(caller.GetGroups())
	s := newScope(h.reviewer(caller, resource))
	s.update(ctx, bound)
	if h.hasEnded() {
		writeEnded(w)
		return
	}
	if len(s.allowed) == 0 {
		writeError(w, apierrors.NewForbidden(groupResource(resource), "", errNoNamespace))
		return
	}
	upstream, err := h.open(ctx, uri)
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
	w.Header().Set("Content-Type", "application/json")
	position := r.URL.Query().Get("resourceVersion")
	out := &stream{w: w, control: http.NewResponseController(w), resource: resource, position: position}
	events := make(chan event)
	go func() {
		defer close(events)
		receive(ctx, upstream.Body, events)
	}()
	groups := func() (map[string]string, <-chan struct{}) { return h.bindings.Of(caller.GetGroups()) }
	out.run(ctx, s, events, groups, changed)
}

// open opens a watch at the API server.
func (h *Handler) open(ctx context.Context, uri string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(h.server.String(), "/")+uri, http.NoBody)
	if err != nil {
		return nil, err //nolint:wrapcheck // The caller logs it with the resource.
	}
	request.Header.Set("Accept", "application/json")
	return h.http.Do(request) //nolint:wrapcheck // The caller logs it with the resource.
}

// reviewer returns the check of a caller's right to watch a resource in a namespace.
func (h *Handler) reviewer(caller user.Info, resource string) review {
	kind, _ := feed.KindOf(resource)
	extra := map[string]authorizationv1.ExtraValue{}
	for key, values := range caller.GetExtra() {
		extra[key] = values
	}
	return func(ctx context.Context, namespace string) bool {
		result, err := h.access.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: caller.GetName(), UID: caller.GetUID(), Groups: caller.GetGroups(), Extra: extra,
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: namespace, Verb: "watch", Group: kind.Group, Version: kind.Version, Resource: resource,
			},
		}}, metav1.CreateOptions{})
		return err == nil && result.Status.Allowed && !result.Status.Denied
	}
}

// receive sends the events of a watch until it ends.
func receive(ctx context.Context, body io.Reader, events chan<- event) {
	for decoder := json.NewDecoder(body); ; {
		var raw json.RawMessage
		if err := decoder.Decode(&raw); err != nil {
			return
		}
		e, err := parse(raw)
		if err != nil {
			return
		}
		select {
		case events <- e:
		case <-ctx.Done():
			return
		}
	}
}

// stream writes the events of one watch.
type stream struct {
	w        io.Writer
	control  *http.ResponseController
	resource string
	// position is the resource version of the last event of the API server.
	position string
}

// run passes events until the watch ends or the caller may see nothing any more.
func (o *stream) run(ctx context.Context, s *scope, events <-chan event, bindings func() (map[string]string, <-chan struct{}), changed <-chan struct{}) {
	if !o.announce(s) {
		return
	}
	all := time.NewTicker(reviewAll)
	defer all.Stop()
	retry := s.next()
	for {
		select {
		case <-ctx.Done():
			return
		case e, ok := <-events:
			if !ok || !o.pass(e, s) {
				return
			}
			continue
		case <-changed:
		case <-retry:
		case <-all.C:
			s.forget()
		}
		var bound map[string]string
		bound, changed = bindings()
		hasChanged := s.update(ctx, bound)
		retry = s.next()
		if len(s.allowed) == 0 || hasChanged && !o.announce(s) {
			return
		}
	}
}

// announce writes a bookmark with the namespaces that are shown from here on.
func (o *stream) announce(s *scope) bool {
	raw, err := feed.Bookmark(o.resource, o.position, s.namespaces())
	return err == nil && o.write(raw)
}

// pass writes an event that the caller may see. It returns false at the end of the watch.
func (o *stream) pass(e event, s *scope) bool {
	if e.kind != watch.Error && e.version != "" {
		o.position = e.version
	}
	return !passes(e, s.shows) || o.write(e.raw)
}

func (o *stream) write(raw []byte) bool {
	if _, err := o.w.Write(append(raw, '\n')); err != nil {
		return false
	}
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
