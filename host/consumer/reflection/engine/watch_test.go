package engine

import (
	"cmp"
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
)

// restoredServer has objects at version 40, and then those of a backup at version 30. The first
// list after the restore is refused, as by an API server that has just started.
type restoredServer struct {
	mu       sync.Mutex
	restored bool
	refuse   int
	watched  []string
	// version is that of lists, if it is not that of the object.
	version string
	current *watch.FakeWatcher
}

func (s *restoredServer) list(_ context.Context, _ client.WithWatch, into client.ObjectList, _ ...client.ListOption) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuse > 0 {
		s.refuse--
		return apierrors.NewForbidden(corev1.Resource("configmaps"), "", nil)
	}
	list, _ := into.(*corev1.ConfigMapList)
	name, version := "later", "40"
	if s.restored {
		name, version = "earlier", "30"
	}
	list.ResourceVersion = version
	list.Items = []corev1.ConfigMap{*localMap(name, nil)}
	list.Items[0].ResourceVersion = version
	list.ResourceVersion = cmp.Or(s.version, version)
	return nil
}

func (s *restoredServer) watch(_ context.Context, _ client.WithWatch, _ client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	options := (&client.ListOptions{}).ApplyOptions(opts)
	if options.Raw.SendInitialEvents != nil {
		return nil, apierrors.NewBadRequest("not supported")
	}
	s.watched = append(s.watched, options.Raw.ResourceVersion)
	s.current = watch.NewFake()
	return s.current, nil
}

// outage ends the watch, calls a function while nothing answers, and restores the server to a backup from before
// it. The server has gone on to version 50 since the backup.
func (s *restoredServer) outage(meanwhile func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse, s.version = 1, "50"
	s.current.Error(&apierrors.NewResourceExpired("compacted").ErrStatus)
	meanwhile()
}

// restore ends the watch.
func (s *restoredServer) restore() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.restored, s.refuse = true, 1
	changed := localMap("later", nil)
	changed.ResourceVersion = "41"
	s.current.Modify(changed)
	s.current.Stop()
}

func (s *restoredServer) versions() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.watched...)
}

// watchInto keeps a store up to date until the test ends. It returns once the store is watched.
func (s *restoredServer) watchInto(t *testing.T, changed func(client.Object)) *store {
	t.Helper()
	c := interceptor.NewClient(fakeclient.Builder().Build(), interceptor.Funcs{List: s.list, Watch: s.watch})
	into := newStore(Kind{}, changed)
	kind := Kind{New: func() client.Object { return &corev1.ConfigMap{} }, NewList: func() client.ObjectList { return &corev1.ConfigMapList{} }}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		watchSelected(ctx, &selection{client: c, kind: kind}, into, func(error) {})
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	require.Eventually(t, func() bool { return len(s.versions()) == 1 }, soon, tick)
	return into
}

func TestAWatchDoesNotContinueOnAServerThatRefusesTheList(t *testing.T) {
	server := &restoredServer{}
	into := server.watchInto(t, func(client.Object) {})
	server.restore()
	require.Eventually(t, func() bool { return len(server.versions()) > 1 }, soon, tick)
	assert.Equal(t, []string{"40", "30"}, server.versions())
	assert.NotNil(t, into.Get("shop", "earlier"))
	assert.Nil(t, into.Get("shop", "later"))
}

// What the engine wrote before the first list after an outage is not in the store by a watch. When the server is
// restored before that list, the list is newer than the store and older than the write.
func TestAListAfterARestoreUndoesAWriteThatNoWatchBrought(t *testing.T) {
	server := &restoredServer{}
	changes := make(chan client.Object, 10)
	into := server.watchInto(t, func(object client.Object) { changes <- object })
	<-changes
	server.outage(func() {
		written := localMap("later", nil)
		written.ResourceVersion = "60"
		into.Assume(written)
	})
	require.Eventually(t, func() bool { return len(server.versions()) > 1 }, soon, tick)
	assert.Equal(t, "40", into.Get("shop", "later").GetResourceVersion())
	assert.Equal(t, "40", (<-changes).GetResourceVersion(), "it is written again")
}
