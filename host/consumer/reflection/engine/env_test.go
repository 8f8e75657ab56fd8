package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
)

const (
	home     = "rome"
	provider = "milan"
	nodeName = "milan-node"
	tenant   = "liqo-tenant-milan"

	// soon bounds the wait for what must happen.
	soon = time.Minute
	tick = 5 * time.Millisecond
)

// cluster is a fake cluster that counts requests and fails them on demand. Its watches
// honor selectors and begin with the present objects, as a real server's.
type cluster struct {
	client.WithWatch
	mu     sync.Mutex
	counts map[string]int
	faults map[string][]error
	// denied are namespaces of which nothing can be read, and why.
	denied map[string]error
	muted  map[string]bool
	// held are the kinds whose events wait until the channel is closed.
	held map[string]chan struct{}
	// hidden are names of objects that a stale first list does not hold.
	hidden map[string]bool
	// beforeAnswer is called with what a patch has written, before the caller gets it.
	beforeAnswer func(client.Object)
	// watches counts the open watches.
	watches int
}

func newCluster(objects ...client.Object) *cluster {
	c := &cluster{counts: map[string]int{}, faults: map[string][]error{}, denied: map[string]error{}, muted: map[string]bool{}, held: map[string]chan struct{}{}, hidden: map[string]bool{}}
	nodeOf := func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }
	inner := fakeclient.Builder().WithGlobalResourceVersionCounter().WithReturnManagedFields().WithIndex(&corev1.Pod{}, "spec.nodeName", nodeOf).
		// Resource version 1 stands for "absent" in creations: no object has it.
		WithObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "first"}}).WithObjects(objects...).Build()
	c.WithWatch = interceptor.NewClient(inner, interceptor.Funcs{
		Create: func(ctx context.Context, w client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if err := c.request("create", o); err != nil {
				return err
			}
			return w.Create(ctx, o, opts...)
		},
		Get: func(ctx context.Context, w client.WithWatch, k client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if err := c.request("get", o); err != nil {
				return err
			}
			return w.Get(ctx, k, o, opts...)
		},
		Patch: func(ctx context.Context, w client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if err := c.request("patch", o); err != nil {
				return err
			}
			err := w.Patch(ctx, o, creating{p}, opts...)
			if c.beforeAnswer != nil {
				c.beforeAnswer(o)
			}
			return err
		},
		SubResourcePatch: func(ctx context.Context, w client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			if err := c.request("patch/"+sub, o); err != nil {
				return err
			}
			return w.SubResource(sub).Patch(ctx, o, p, opts...)
		},
		Delete: func(ctx context.Context, w client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if err := c.request("delete", o); err != nil {
				return err
			}
			return w.Delete(ctx, o, opts...)
		},
		List: func(ctx context.Context, w client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if err := c.read("list", list, opts...); err != nil {
				return err
			}
			if err := w.List(ctx, list, opts...); err != nil {
				return err
			}
			return c.makeFirst(list, opts...)
		},
		Watch: c.watch,
	})
	return c
}

// creating is an apply of which the fake cluster makes what a real server makes: what is
// created gets a version of its own, not the one of the precondition. The fake cluster
// writes it into the object before it asks for the patch.
type creating struct{ client.Patch }

func (p creating) Data(object client.Object) ([]byte, error) {
	body, err := p.Patch.Data(object)
	if err != nil || p.Type() != types.ApplyPatchType || object.GetResourceVersion() == "" {
		return body, err
	}
	content := &unstructured.Unstructured{}
	if err := json.Unmarshal(body, &content.Object); err != nil {
		return nil, err
	}
	content.SetResourceVersion(object.GetResourceVersion())
	return json.Marshal(content.Object)
}

// request counts a request and answers the next fault of its verb and kind, if any.
func (c *cluster) request(verb string, object any) error {
	kind := fmt.Sprintf("%T", object)
	key := verb + " " + kind[strings.LastIndex(kind, ".")+1:]
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[key]++
	if faults := c.faults[key]; len(faults) > 0 {
		c.faults[key] = faults[1:]
		return faults[0]
	}
	return nil
}

// read is request for what reads a whole namespace.
func (c *cluster) read(verb string, list client.ObjectList, opts ...client.ListOption) error {
	if err := c.request(verb, list); err != nil {
		return err
	}
	options := client.ListOptions{}
	options.ApplyOptions(opts)
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.denied[options.Namespace]
}

// deny answers everything that reads a whole namespace with an error, or again without.
func (c *cluster) deny(namespace string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.denied[namespace] = err
}

func (c *cluster) fail(key string, errs ...error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults[key] = append(c.faults[key], errs...)
}

func (c *cluster) count(key string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts[key]
}

// mute drops the events of a kind from now on.
func (c *cluster) mute(kind string, muted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.muted[kind] = muted
}

// hold holds back the events of a kind from now on, until release is called.
func (c *cluster) hold(kind string) (release func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	held := make(chan struct{})
	c.held[kind] = held
	return func() { close(held) }
}

// delivers waits while events of a kind are held back, and reports whether they are sent then.
func (c *cluster) delivers(ctx context.Context, kind string) bool {
	c.mu.Lock()
	isMuted, held := c.muted[kind], c.held[kind]
	c.mu.Unlock()
	if held != nil {
		select {
		case <-held:
		case <-ctx.Done():
		}
	}
	return !isMuted
}

// hide leaves an object out of first lists, as an API server does that is behind.
func (c *cluster) hide(name string, hidden bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hidden[name] = hidden
}

func (c *cluster) hides(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hidden[name]
}

// makeFirst makes a list one of an API server that is behind, if it is the first one of an informer.
func (c *cluster) makeFirst(list client.ObjectList, opts ...client.ListOption) error {
	options := (&client.ListOptions{}).ApplyOptions(opts)
	if options.Raw == nil || options.Raw.ResourceVersion != "0" {
		return nil
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return err
	}
	list.SetResourceVersion(newest(items))
	return meta.SetList(list, slices.DeleteFunc(items, func(item runtime.Object) bool { return c.hides(item.(client.Object).GetName()) }))
}

func (c *cluster) openWatches() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.watches
}

// watch implements the streaming list: present objects, a bookmark, then what happens. A watch after a
// list has only what is later than the list.
func (c *cluster) watch(ctx context.Context, inner client.WithWatch, list client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
	if err := c.read("watch", list, opts...); err != nil {
		return nil, err
	}
	options := client.ListOptions{}
	options.ApplyOptions(opts)
	source, err := inner.Watch(ctx, list, client.InNamespace(options.Namespace))
	if err != nil {
		return nil, err
	}
	present := list.DeepCopyObject().(client.ObjectList)
	if err := inner.List(ctx, present, client.InNamespace(options.Namespace)); err != nil {
		return nil, err
	}
	items, err := meta.ExtractList(present)
	if err != nil {
		return nil, err
	}
	out := make(chan watch.Event)
	c.mu.Lock()
	c.watches++
	c.mu.Unlock()
	go func() {
		defer close(out)
		defer func() {
			source.Stop()
			c.mu.Lock()
			c.watches--
			c.mu.Unlock()
		}()
		send := func(event watch.Event) bool {
			select {
			case out <- event:
				return true
			case <-ctx.Done():
				return false
			}
		}
		isStreaming, last := options.Raw == nil || options.Raw.SendInitialEvents != nil, map[client.ObjectKey]client.Object{}
		for _, item := range items {
			object := item.(client.Object)
			if isStreaming && c.hides(object.GetName()) || !selects(options, object) {
				continue
			}
			last[client.ObjectKeyFromObject(object)] = object
			isLater := isStreaming || newerVersion(object.GetResourceVersion(), options.Raw.ResourceVersion)
			if isLater && !send(watch.Event{Type: watch.Added, Object: item.DeepCopyObject()}) {
				return
			}
		}
		mark := newItem(list)
		mark.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
		mark.SetResourceVersion(newest(items))
		kind := fmt.Sprintf("%T", mark)
		if isStreaming && !send(watch.Event{Type: watch.Bookmark, Object: mark}) {
			return
		}
		for {
			select {
			case <-ctx.Done():
				return
			case event, ok := <-source.ResultChan():
				if !ok {
					return
				}
				if !c.delivers(ctx, kind[strings.LastIndex(kind, ".")+1:]) || !asSelected(&event, options, last) {
					continue
				}
				if _, isUntyped := list.(*unstructured.UnstructuredList); isUntyped {
					event.Object = untype(event.Object, mark.GetObjectKind().GroupVersionKind())
				}
				if !send(event) {
					return
				}
			}
		}
	}()
	return watch.NewProxyWatcher(out), nil
}

// asSelected makes of an event the one that a watch with a selector gets, and reports whether it gets one.
// last has the selected objects. One that is not selected any more is deleted for the watch, which gets it
// as it was.
func asSelected(event *watch.Event, options client.ListOptions, last map[client.ObjectKey]client.Object) bool {
	object := event.Object.(client.Object)
	key := client.ObjectKeyFromObject(object)
	before := last[key]
	delete(last, key)
	switch {
	case selects(options, object):
		if event.Type != watch.Deleted {
			last[key] = object.DeepCopyObject().(client.Object)
		}
		return true
	case before == nil:
		return false
	}
	before.SetResourceVersion(object.GetResourceVersion())
	event.Type, event.Object = watch.Deleted, before
	return true
}

// untype does what the fake cluster does not: its watches answer with Go types.
func untype(object runtime.Object, kind schema.GroupVersionKind) runtime.Object {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		panic(err)
	}
	out := &unstructured.Unstructured{Object: content}
	out.SetGroupVersionKind(kind)
	return out
}

// newest is the resource version of a list: that of its youngest object, or "absent".
func newest(items []runtime.Object) string {
	version := absentVersion
	for _, item := range items {
		if v := item.(client.Object).GetResourceVersion(); newerVersion(v, version) {
			version = v
		}
	}
	return version
}

func selects(options client.ListOptions, object client.Object) bool {
	if options.LabelSelector != nil && !options.LabelSelector.Matches(labels.Set(object.GetLabels())) {
		return false
	}
	if pod, ok := object.(*corev1.Pod); ok && options.FieldSelector != nil {
		return options.FieldSelector.Matches(fields.Set{"spec.nodeName": pod.Spec.NodeName})
	}
	return true
}

func newItem(list client.ObjectList) client.Object {
	switch list.(type) {
	case *corev1.PodList:
		return &corev1.Pod{}
	case *corev1.ConfigMapList:
		return &corev1.ConfigMap{}
	case *corev1.SecretList:
		return &corev1.Secret{}
	case *unstructured.UnstructuredList:
		item := &unstructured.Unstructured{}
		kind := list.GetObjectKind().GroupVersionKind()
		kind.Kind = strings.TrimSuffix(kind.Kind, "List")
		item.SetGroupVersionKind(kind)
		return item
	case *offloadingv1beta1.ShadowPodList:
		return &offloadingv1beta1.ShadowPod{}
	default:
		return &offloadingv1beta1.NamespaceMap{}
	}
}

// journal records events as "namespace/name Reason".
type journal struct {
	mu     sync.Mutex
	events []string
}

func (j *journal) Event(object runtime.Object, _, reason, _ string) {
	o := object.(client.Object)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.events = append(j.events, o.GetNamespace()+"/"+o.GetName()+" "+reason)
}

func (j *journal) all() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]string(nil), j.events...)
}

// env is a consumer, a provider and an engine between them.
type env struct {
	local, remote *cluster
	journal       *journal
	engine        *Engine
	stop          context.CancelFunc
	done          chan error
}

func namespaceMap(mapping map[string]string) *offloadingv1beta1.NamespaceMap {
	nm := &offloadingv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{
		Name: provider, Namespace: tenant,
		Labels: map[string]string{liqocorev1beta1.RemoteClusterIDLabel: provider, liqocorev1beta1.RemoteIDLabel: provider},
	}}
	nm.Spec.DesiredMapping = mapping
	nm.Status.CurrentMapping = map[string]offloadingv1beta1.RemoteNamespaceStatus{}
	for from, to := range mapping {
		nm.Status.CurrentMapping[from] = offloadingv1beta1.RemoteNamespaceStatus{RemoteNamespace: to, Phase: offloadingv1beta1.MappingAccepted}
	}
	return nm
}

// start runs an engine until the test ends.
func start(t *testing.T, local, remote *cluster, definitions ...Definition) *env {
	t.Helper()
	return startWith(t, local, remote, func(*Options) {}, definitions...)
}

func (w *env) remap(t *testing.T, mapping map[string]string) {
	t.Helper()
	nm := &offloadingv1beta1.NamespaceMap{}
	require.NoError(t, w.local.Get(t.Context(), client.ObjectKey{Namespace: tenant, Name: provider}, nm))
	wanted := namespaceMap(mapping)
	nm.Spec = wanted.Spec
	require.NoError(t, w.local.Update(t.Context(), nm))
	nm.Status = wanted.Status
	require.NoError(t, w.local.Status().Update(t.Context(), nm))
}

// get returns an object, or nil.
func get[T client.Object](ctx context.Context, c client.Client, namespace, name string, into T) (T, bool) {
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, into)
	return into, err == nil
}
