package engine

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// namespaceMapKind is the kind that says which namespaces are mapped.
var namespaceMapKind = Kind{
	New:     func() client.Object { return &offloadingv1beta1.NamespaceMap{} },
	NewList: func() client.ObjectList { return &offloadingv1beta1.NamespaceMapList{} },
}

// watchKind fills the store until the context ends. A reflector without a queue behind
// it: the store is the cache, and decisions are triggered as events come in.
//
// After a failure it tries again within seconds, not within the minute of client-go's
// default: a link that is back should not leave pods waiting. read, which may be nil, is
// told how each try went; a streaming list that is refused is followed by a plain one, and
// only that counts.
func watchKind(ctx context.Context, c client.WithWatch, kind Kind, options client.ListOptions, into *store, read func(error)) {
	lw := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, raw metav1.ListOptions) (runtime.Object, error) {
			list := kind.NewList()
			o := options
			o.Raw = &raw
			o.Limit, o.Continue = raw.Limit, raw.Continue
			err := c.List(ctx, list, &o)
			if read != nil {
				read(err)
			}
			return list, err //nolint:wrapcheck // The reflector looks into it.
		},
		WatchFuncWithContext: func(ctx context.Context, raw metav1.ListOptions) (watch.Interface, error) {
			if raw.SendInitialEvents == nil && isBehind(ctx, c, kind, options, into) {
				return nil, apierrors.NewResourceExpired("the server is at a lower resource version than before: its data was restored")
			}
			o := options
			o.Raw = &raw
			w, err := c.Watch(ctx, kind.NewList(), &o)
			if read != nil && err == nil {
				read(nil)
			}
			return w, err //nolint:wrapcheck // The reflector looks into it.
		},
	}, c)
	cache.NewReflectorWithOptions(lw, kind.New(), into, cache.ReflectorOptions{
		Name:    "reflection",
		Backoff: &wait.Backoff{Duration: 200 * time.Millisecond, Cap: 5 * time.Second, Factor: 2, Steps: 8, Jitter: 0.5},
	}).RunWithContext(ctx)
}

// isBehind asks whether the server is behind what the store has seen of it: its data was
// restored from a backup. A watch that goes on from there succeeds and shows nothing until
// the server has reached that resource version again, and never what it missed.
func isBehind(ctx context.Context, c client.WithWatch, kind Kind, options client.ListOptions, into *store) bool {
	list := kind.NewList()
	options.Limit = 1
	// After an error the watch meets the same one, or needs no right to list.
	return c.List(ctx, list, &options) == nil && into.wentBack(list.GetResourceVersion())
}

// waitFor waits for all channels, or reports false when the context ends first.
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
