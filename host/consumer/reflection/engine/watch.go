package engine

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/remotecluster"
	"github.com/longshore-dev/longshore/host/kit/restore"
)

// listRetry is the pause before a list that failed is repeated.
const listRetry = 5 * time.Second

// namespaceMapKind is the kind whose status lists the mapped namespaces.
var namespaceMapKind = Kind{
	New:     func() client.Object { return &offloadingv1beta1.NamespaceMap{} },
	NewList: func() client.ObjectList { return &offloadingv1beta1.NamespaceMapList{} },
}

// source lists and watches the objects of a selection. All informers are filled through it. read is called
// with the result of each list, and with nil when a watch began. A list that is more than is read of another
// cluster fails after [overflowPause].
//
// Objects that a field selector selects are listed before they are watched: an API server has an index of
// the pods of a node for lists. For the initial events of a watch it compares all pods of the cluster.
func (s *selection) source(read func(error)) cache.ListerWatcher {
	var semantics any = s.client
	if s.options.FieldSelector != nil {
		semantics = listing{}
	}
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, raw metav1.ListOptions) (runtime.Object, error) {
			list, err := s.list(ctx, raw)
			read(err)
			pauseAfter(ctx, err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, raw metav1.ListOptions) (watch.Interface, error) {
			o := s.options
			o.Raw = &raw
			w, err := s.client.Watch(ctx, s.kind.NewList(), &o)
			if err == nil {
				read(nil)
			}
			return w, err //nolint:wrapcheck // The reflector inspects it.
		},
	}, semantics)
}

func (s *selection) list(ctx context.Context, raw metav1.ListOptions) (client.ObjectList, error) {
	list := s.kind.NewList()
	o := s.options
	remotecluster.AskWhole(&raw)
	o.Raw, o.Limit, o.Continue = &raw, raw.Limit, raw.Continue
	if err := s.client.List(ctx, list, &o); err != nil {
		return list, err //nolint:wrapcheck // That of the API server.
	}
	return list, remotecluster.CheckWhole(&raw, list)
}

// listing makes a reflector list before it watches.
type listing struct{}

// IsWatchListSemanticsUnSupported is called by client-go's reflector.
func (listing) IsWatchListSemanticsUnSupported() bool { return true }

// watchSelected keeps the store up to date until the context ends.
//
// It retries within seconds, not within the minute of client-go's default, so that pods do
// not wait after an outage. A streaming list that fails is followed by a plain list. After more than is
// kept of another cluster, the next list is after [overflowPause], and the store has what it had.
func watchSelected(ctx context.Context, s *selection, into *store, read func(error)) {
	lw := restore.DetectWith(s.source(read), func(server, _ string) bool { return into.detectRestore(server) })
	for ctx.Err() == nil {
		watching, stop := context.WithCancel(ctx)
		overflow := into.begin(stop)
		cache.NewReflectorWithOptions(lw, s.kind.New(), into, cache.ReflectorOptions{
			Name:    "reflection",
			Backoff: &wait.Backoff{Duration: 200 * time.Millisecond, Cap: 5 * time.Second, Factor: 2, Steps: 8, Jitter: 0.5},
		}).RunWithContext(watching)
		stop()
		if err := overflow(); err != nil {
			read(err)
			pauseAfter(ctx, err)
		}
	}
}

// listSelected fills the store with one list. It repeats a list that failed, unless an operator must
// resolve the error.
func listSelected(ctx context.Context, s *selection, into *store, read func(error)) {
	source := cache.ToListerWatcherWithContext(s.source(read))
	_ = wait.PollUntilContextCancel(ctx, listRetry, true, func(ctx context.Context) (bool, error) {
		list, err := source.ListWithContext(ctx, metav1.ListOptions{})
		if err != nil {
			return isPermanent(err), nil
		}
		objects, version, err := itemsOf(list)
		if err != nil {
			return false, nil
		}
		if err := into.Replace(objects, version); err != nil {
			read(err)
			pauseAfter(ctx, err)
			return false, nil
		}
		return true, nil
	})
}

// itemsOf returns the objects and the resource version of a list.
func itemsOf(list runtime.Object) (objects []any, version string, err error) {
	accessor, err := meta.ListAccessor(list)
	if err != nil {
		return nil, "", fmt.Errorf("reading the resource version of a list: %w", err)
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return nil, "", fmt.Errorf("reading the objects of a list: %w", err)
	}
	objects = make([]any, 0, len(items))
	for _, item := range items {
		objects = append(objects, item)
	}
	return objects, accessor.GetResourceVersion(), nil
}

// waitFor waits until all channels are closed. It returns false if the context ends first.
func waitFor(ctx context.Context, channels ...<-chan struct{}) bool {
	for _, channel := range channels {
		select {
		case <-channel:
		case <-ctx.Done():
			return false
		}
	}
	return true
}
