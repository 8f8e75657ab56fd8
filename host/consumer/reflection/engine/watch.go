package engine

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/restore"
)

// listRetry is the pause before a list that failed is repeated.
const listRetry = 5 * time.Second

// namespaceMapKind is the kind whose status lists the mapped namespaces.
var namespaceMapKind = Kind{
	New:     func() client.Object { return &offloadingv1beta1.NamespaceMap{} },
	NewList: func() client.ObjectList { return &offloadingv1beta1.NamespaceMapList{} },
}

// watchKind keeps the store up to date until the context ends.
//
// It retries within seconds, not within the minute of client-go's default, so that pods do
// not wait after an outage. read is called with the result of each list, and with nil when a
// watch began. A streaming list that fails is followed by a plain list.
func watchKind(ctx context.Context, c client.WithWatch, kind Kind, options client.ListOptions, into *store, read func(error)) {
	lw := restore.DetectWith(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, raw metav1.ListOptions) (runtime.Object, error) {
			list := kind.NewList()
			o := options
			o.Raw = &raw
			o.Limit, o.Continue = raw.Limit, raw.Continue
			err := c.List(ctx, list, &o)
			read(err)
			return list, err //nolint:wrapcheck // The reflector inspects it.
		},
		WatchFuncWithContext: func(ctx context.Context, raw metav1.ListOptions) (watch.Interface, error) {
			o := options
			o.Raw = &raw
			w, err := c.Watch(ctx, kind.NewList(), &o)
			if err == nil {
				read(nil)
			}
			return w, err //nolint:wrapcheck // The reflector inspects it.
		},
	}, c), func(server, _ string) bool { return into.detectRestore(server) })
	cache.NewReflectorWithOptions(lw, kind.New(), into, cache.ReflectorOptions{
		Name:    "reflection",
		Backoff: &wait.Backoff{Duration: 200 * time.Millisecond, Cap: 5 * time.Second, Factor: 2, Steps: 8, Jitter: 0.5},
	}).RunWithContext(ctx)
}

// listKind fills the store with one list. It repeats a list that failed, unless an operator must
// resolve the error.
func listKind(ctx context.Context, c client.WithWatch, kind Kind, options client.ListOptions, into *store, read func(error)) {
	_ = wait.PollUntilContextCancel(ctx, listRetry, true, func(ctx context.Context) (bool, error) {
		list := kind.NewList()
		err := c.List(ctx, list, &options)
		read(err)
		if err != nil {
			return isPermanent(err), nil
		}
		items, err := meta.ExtractList(list)
		if err != nil {
			return false, nil //nolint:nilerr // a list of a known kind
		}
		objects := make([]any, len(items))
		for i, item := range items {
			objects[i] = item
		}
		return into.Replace(objects, list.GetResourceVersion()) == nil, nil
	})
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
