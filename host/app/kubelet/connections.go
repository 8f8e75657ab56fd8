package kubelet

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"

	"github.com/longshore-dev/longshore/host/consumer/feed"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/kit/remotecluster"
)

// connections are the connections of a shared process to its provider. Sessions with the same
// server and user share their informers. It is safe for concurrent use.
type connections struct {
	log logr.Logger

	mu   sync.Mutex
	open []*connection
}

// connection is used by the sessions whose kubeconfigs lead to the same server as the same user.
type connection struct {
	config *rest.Config
	// informers is nil in a process with one virtual node.
	informers *engine.Informers
	// streams are the watches of the provider's feed.
	streams *feed.Streams
	users   int
	cancel  context.CancelFunc
}

// join returns the connection of a session. leave is called after the session has ended; the last
// one stops the informers.
func (c *connections) join(config *rest.Config) (joined *connection, leave func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.open, func(other *connection) bool { return remotecluster.SameConnection(other.config, config) })
	if i < 0 {
		ctx, cancel := context.WithCancel(logr.NewContext(context.Background(), c.log))
		i = len(c.open)
		c.open = append(c.open, &connection{
			config: config, informers: engine.NewInformers(ctx), streams: feed.NewStreams(time.Now), cancel: cancel,
		})
	}
	joined = c.open[i]
	joined.users++
	return joined, func() { c.leave(joined) }
}

func (c *connections) leave(left *connection) {
	if c.release(left) {
		left.cancel()
		left.informers.Wait()
	}
}

// release reports whether a connection has no user any more.
func (c *connections) release(left *connection) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	left.users--
	if left.users > 0 {
		return false
	}
	c.open = slices.DeleteFunc(c.open, func(other *connection) bool { return other == left })
	return true
}
