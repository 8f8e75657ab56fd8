package fair

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
	"github.com/longshore-dev/longshore/host/kit/retry"
)

func key(namespace, name string) reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKey{Namespace: namespace, Name: name}}
}

func namespace(name, peer string) *corev1.Namespace {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if peer != "" {
		ns.Labels = map[string]string{liqocorev1beta1.RemoteClusterIDLabel: peer}
	}
	return ns
}

// firsts takes n keys and returns the names of their objects.
func firsts(t *testing.T, q priorityqueue.PriorityQueue[reconcile.Request], n int) []string {
	t.Helper()
	var names []string
	for range n {
		require.Positive(t, q.Len())
		next, _, _ := q.GetWithPriority()
		names = append(names, next.Name)
		q.Done(next)
	}
	return names
}

func queueOf(t *testing.T, namespaces ...client.Object) priorityqueue.PriorityQueue[reconcile.Request] {
	t.Helper()
	options := Options(fakeclient.Builder(namespaces...).Build(), 3)
	assert.Equal(t, 3, options.MaxConcurrentReconciles)
	q, ok := options.NewQueue("", options.RateLimiter).(priorityqueue.PriorityQueue[reconcile.Request])
	require.True(t, ok, "controller-runtime passes priorities to queues of this interface only")
	t.Cleanup(q.ShutDown)
	return q
}

func TestPeersTakeTurns(t *testing.T) {
	q := queueOf(t, namespace("shop-rome", "rome"), namespace("blog-rome", "rome"), namespace("shop-paris", "paris"))
	for range 1000 {
		q.Add(key("shop-rome", "rome"+time.Duration(q.Len()).String()))
	}
	for range 1000 {
		q.Add(key("blog-rome", "rome"+time.Duration(q.Len()).String()))
	}
	q.Add(key("shop-paris", "paris1"))
	q.Add(key("shop-paris", "paris2"))
	q.Add(key("unlabelled", "other"))
	q.Add(key("", "cluster-scoped"))
	assert.Equal(t, []string{"rome0s", "paris1", "other", "cluster-scoped", "rome1ns", "paris2", "rome2ns"}, firsts(t, q, 7))
	q.Add(key("shop-paris", "paris3"))
	assert.Equal(t, []string{"rome3ns", "paris3"}, firsts(t, q, 2), "a peer waits for one key of each other peer")
	assert.Len(t, firsts(t, q, q.Len()), 1996)
}

func TestWhatChangedComesBeforeTheRestOfItsPeer(t *testing.T) {
	low := priorityqueue.AddOpts{Priority: ptr.To(handler.LowPriority)}
	q := queueOf(t, namespace("rome", "rome"), namespace("paris", "paris"))
	for _, name := range []string{"r1", "r2", "r3", "r4"} {
		q.AddWithOpts(low, key("rome", name))
	}
	q.AddWithOpts(low, key("paris", "p1"))
	for range 3 {
		q.Add(key("rome", "r3")) // was queued by the start and changes meanwhile
	}
	q.Add(key("rome", "r5"))
	q.AddWithOpts(low, key("rome", "r5")) // stays urgent
	assert.Equal(t, []string{"r3", "p1", "r5", "r1", "r2", "r4"}, firsts(t, q, 6))
	assert.Zero(t, q.Len())

	q.AddWithOpts(low, key("rome", "r1"))
	_, priority, _ := q.GetWithPriority()
	assert.Equal(t, handler.LowPriority, priority, "a retry of what a start has queued waits again")
	q.Done(key("rome", "r1"))
	q.Add(key("rome", "r1"))
	_, priority, _ = q.GetWithPriority()
	assert.Zero(t, priority)
}

// TestAPeerThatChanges holds that an item whose peer becomes known, or another, is served once.
func TestAPeerThatChanges(t *testing.T) {
	peer := "unknown"
	order := newTurns(func(string) string { return peer })
	order.mark("web", false)
	order.Push("web")
	order.mark("web", true)
	order.Touch("web") // two entries
	order.Push("db")
	assert.Equal(t, "web", order.Pop())
	peer = "rome"
	order.Push("web")
	assert.Equal(t, 2, order.Len())
	assert.Equal(t, "db", order.Pop())
	assert.Equal(t, "web", order.Pop())
	assert.Zero(t, order.Len())
	assert.Empty(t, order.lines)
	assert.Empty(t, order.marks)
}

func TestDelaysAndBackoffAreThoseOfClientGo(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(0, 0))
	q := newQueue("", retry.Limiter[string](), func(item string) string { return item }, clock)
	defer q.ShutDown()
	next := func() string {
		t.Helper()
		assert.Zero(t, q.Len())
		require.Eventually(t, func() bool { clock.Step(time.Minute); return q.Len() > 0 }, 10*time.Second, time.Millisecond)
		item, _ := q.Get()
		q.Done(item)
		return item
	}
	q.AddRateLimited("web")
	assert.Equal(t, 1, q.NumRequeues("web"))
	assert.Equal(t, "web", next())
	q.AddAfter("db", time.Minute)
	assert.Equal(t, "db", next())
	q.Forget("web")
	assert.Zero(t, q.NumRequeues("web"))
}

// TestEveryControllerThatPeersShareIsFair finds controllers whose keys a peer determines and whose
// queue does not serve peers in turns.
func TestEveryControllerThatPeersShareIsFair(t *testing.T) {
	host := filepath.Join("..", "..")
	notShared := map[string]string{
		"provider/nodefailure":    "a key is a Node of this cluster",
		"peering/foreigncluster":  "each peer has one key",
		"peering/replication":     "each peer has one key, and a worker of its own",
		"peering/tenantnamespace": "each peer has one key",
		"peering/network":         "keys are this cluster's own Networks, IPs and pods",
	}
	found := map[string]bool{}
	for _, side := range []string{"provider", "peering"} {
		require.NoError(t, filepath.WalkDir(filepath.Join(host, side), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				return err
			}
			directory, err := filepath.Rel(host, filepath.Dir(path))
			if err != nil {
				return err
			}
			for _, declaration := range file.Decls {
				selectors := map[string]bool{}
				ast.Inspect(declaration, func(node ast.Node) bool {
					if selector, ok := node.(*ast.SelectorExpr); ok {
						if of, ok := selector.X.(*ast.Ident); ok {
							selectors[of.Name+"."+selector.Sel.Name] = true
						}
					}
					return true
				})
				if selectors["ctrl.NewControllerManagedBy"] {
					found[directory] = true
					assert.True(t, selectors["fair.Options"] || notShared[directory] != "", "%s: WithOptions(fair.Options(mgr.GetClient(), workers)), or a reason in this test", path)
				}
			}
			return nil
		}))
	}
	for directory := range notShared {
		assert.True(t, found[directory], directory)
	}
}
