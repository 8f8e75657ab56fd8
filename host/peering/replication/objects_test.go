package replication

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/watchlist"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/remotecluster"
)

// large returns a copy of almost a MiB.
func large(name string) *unstructured.Unstructured {
	u := copied()
	u.SetName(name)
	u.SetAnnotations(map[string]string{"padding": strings.Repeat("x", 1<<20-1<<14)})
	return u
}

// tooManyCopies returns more copies than the replicator keeps of a provider.
func tooManyCopies() []runtime.Object {
	copies := make([]runtime.Object, MaxCopies>>20+1)
	for i := range copies {
		copies[i] = large("copy-" + strconv.Itoa(i))
	}
	return copies
}

// TestCopiesAreLimited has a provider that sends more copies than the replicator keeps.
func TestCopiesAreLimited(t *testing.T) {
	var changed []string
	stopped := 0
	o := newObjects(source{resource: nsMaps, namespace: providerTenant, selector: "a=b", limit: 2 << 20}, func(name cache.ObjectName) { changed = append(changed, name.Name) })
	o.stop = func() { stopped++ }

	require.NoError(t, o.Replace([]any{large("one"), large("two")}, "1"))
	require.NoError(t, o.Update(large("two")), "a changed object counts once")
	require.True(t, o.hasSynced())
	changed = nil

	err := o.Update(large("three"))
	require.EqualError(t, err, `the namespacemaps.offloading.liqo.io in namespace "liqo-tenant-rome" with labels a=b have more than 2 MiB: delete there what is not needed`)
	assert.ElementsMatch(t, []string{"one", "two"}, changed, "their local objects report it")
	assert.Equal(t, 1, stopped)
	assert.False(t, o.hasSynced(), "a copy that is unknown is not missing")
	assert.Empty(t, o.names(providerTenant))
	assert.Equal(t, err, o.lastError())
	require.NoError(t, o.record(nil))
	assert.Equal(t, err, o.lastError(), "a watch that begins tells nothing about the size")

	require.Error(t, o.Replace([]any{large("one"), large("two"), large("three")}, "2"))
	assert.False(t, o.hasSynced())
	require.NoError(t, o.Replace([]any{large("one"), large("two")}, "3"))
	assert.True(t, o.hasSynced())
	require.NoError(t, o.lastError())
	require.NoError(t, o.Delete(large("one")))
	require.NoError(t, o.Update(large("three")))
	assert.ElementsMatch(t, []string{"two", "three"}, o.names(providerTenant))
}

// Many small values take a hundred times their text.
func TestCopiesOfManyValuesAreLimited(t *testing.T) {
	o := newObjects(source{resource: nsMaps, namespace: providerTenant, limit: MaxCopies}, func(cache.ObjectName) {})
	many := make([]any, 20_000)
	for i := range many {
		many[i] = map[string]any{"": int64(0)}
	}
	values := func(count int) *unstructured.Unstructured {
		object := large("many").DeepCopy()
		object.Object["spec"] = map[string]any{"x": many[:count]}
		return object
	}
	require.Error(t, o.Update(values(20_000)))
	assert.False(t, o.hasSynced())
	require.NoError(t, o.Update(values(5_000)))
}

// A NamespaceMap with all the mappings that it may have is small enough.
func TestTheLargestNamespaceMapIsCopied(t *testing.T) {
	o := newObjects(source{resource: nsMaps, namespace: providerTenant, limit: MaxCopies}, func(cache.ObjectName) {})
	desired, current := map[string]any{}, map[string]any{}
	for i := range offloadingv1beta1.MaxStatuses {
		name := fmt.Sprintf("%s-%04d", strings.Repeat("n", 58), i)
		current[name] = map[string]any{"remoteNamespace": name, "phase": "CreationLoopBackOff", "message": strings.Repeat("m", 600)}
		if i < offloadingv1beta1.MaxMappings {
			desired[name] = name
		}
	}
	nm := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": nsMaps.GroupVersion().String(), "kind": "NamespaceMap", "metadata": map[string]any{"name": "rome", "namespace": providerTenant},
		"spec": map[string]any{"desiredMapping": desired}, "status": map[string]any{"currentMapping": current},
	}}
	require.NoError(t, o.Replace([]any{nm}, "1"))
}

// A provider could send pages without end, all of which client-go would keep.
func TestCopiesAreNotListedInPages(t *testing.T) {
	remote := dynamicClient()
	var lists atomic.Int64
	remote.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		lists.Add(1)
		list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": nsMaps.GroupVersion().String(), "kind": "NamespaceMapList"}}
		list.SetResourceVersion("1")
		list.SetContinue("next")
		return true, list, nil
	})
	o := newObjects(source{client: remote, resource: nsMaps, namespace: metav1.NamespaceAll, limit: 2 << 20}, func(cache.ObjectName) {})
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	running.Go(func() { o.run(ctx, 0, patience) })
	planetest.Until(t, func(planetest.T) bool {
		err := &remotecluster.PagesError{}
		return errors.As(o.lastError(), &err)
	}, patience, every, "the page is refused")
	assert.False(t, o.hasSynced())
	assert.LessOrEqual(t, lists.Load(), int64(2), "no page is followed")
}

// Client-go keeps the first events of a watch that begins with all objects until their end, which another cluster need
// not send.
func TestCopiesAreListedBeforeTheyAreWatched(t *testing.T) {
	client, err := dynamic.NewForConfig(&rest.Config{})
	require.NoError(t, err)
	assert.True(t, watchlist.DoesClientNotSupportWatchListSemantics(source{client: client, limit: MaxCopies}))
	assert.False(t, watchlist.DoesClientNotSupportWatchListSemantics(source{client: client}), "this cluster's API server is trusted")
}

// TestTooManyCopiesAreListedAgain observes a provider that sends too much until it is deleted.
func TestTooManyCopiesAreListedAgain(t *testing.T) {
	remote := dynamicClient()
	var mu sync.Mutex
	lists, count := 0, 3
	remote.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		mu.Lock()
		defer mu.Unlock()
		lists++
		list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": nsMaps.GroupVersion().String(), "kind": "NamespaceMapList"}}
		list.SetResourceVersion(strconv.Itoa(lists))
		for i := range count {
			list.Items = append(list.Items, *large(strconv.Itoa(i)))
		}
		return true, list, nil
	})
	o := newObjects(source{client: remote, resource: nsMaps, namespace: metav1.NamespaceAll, limit: 2 << 20}, func(cache.ObjectName) {})
	var running sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	defer running.Wait()
	defer stop()
	running.Go(func() { o.run(ctx, 0, every) })
	planetest.Until(t, func(planetest.T) bool { return isOverflow(o.lastError()) }, patience, every, "the overflow is known")
	mu.Lock()
	before := lists
	count = 2
	mu.Unlock()
	planetest.Until(t, func(planetest.T) bool { return o.hasSynced() }, patience, every, "the copies are known")
	assert.Len(t, o.names(providerTenant), 2)
	mu.Lock()
	defer mu.Unlock()
	assert.Greater(t, lists, before)
}
