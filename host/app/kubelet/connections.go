package kubelet

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"

	"github.com/longshore-dev/longshore/host/consumer/link"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/kit/remotecluster"
)

// connections are the connections of a shared process to its provider. Sessions whose users have the
// same rights there share their informers. It is safe for concurrent use.
//
// Each ResourceSlice has a user of its own, and the provider gives rights in remote namespaces to their
// common group, the consumer's cluster ID (T70): users with certificates of the same organization for
// the same server share. The reads are sent as the user whose certificate expires last, so they go on
// when a virtual node leaves or its certificate is not renewed. All other requests are sent as the
// virtual node's own user, whose Quota they are counted in. The caches also hold the pods of virtual
// nodes of the provider that another process serves.
type connections struct {
	log logr.Logger

	mu   sync.Mutex
	open []*connection
}

// connection is used by the sessions whose kubeconfigs lead to the same server, as users with the
// same rights.
type connection struct {
	config *rest.Config
	// readers are the users of the sessions.
	readers *remotecluster.Readers
	// informers is nil in a process with one virtual node.
	informers *engine.Informers
	// answers are those of the provider to all sessions.
	answers *link.Answers
	users   int
	cancel  context.CancelFunc
}

// newConnection returns the connection of a process with one virtual node.
func newConnection() *connection {
	return &connection{answers: link.NewAnswers(time.Now)}
}

// readerConfig returns the configuration for what sessions read from the provider together.
func (c *connection) readerConfig(user *rest.Config) (*rest.Config, error) {
	if c.readers == nil {
		return user, nil
	}
	config, err := c.readers.Config(user)
	if err != nil {
		return nil, fmt.Errorf("connecting to the provider: %w", err)
	}
	return config, nil
}

// observed returns a configuration whose answers are recorded.
func (c *connection) observed(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(c.answers.Of)
	return config
}

// join returns the connection of a session. leave is called after the session has ended; the last
// one stops the informers.
func (c *connections) join(config *rest.Config) (joined *connection, leave func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.open, func(other *connection) bool { return remotecluster.SameRights(other.config, config) })
	if i >= 0 {
		joined = c.open[i]
	} else {
		joined = &connection{config: config, readers: &remotecluster.Readers{}, answers: link.NewAnswers(time.Now)}
	}
	remove, err := joined.readers.Add(config)
	if err != nil {
		return nil, nil, fmt.Errorf("connecting to the provider: %w", err)
	}
	if i < 0 {
		ctx, cancel := context.WithCancel(logr.NewContext(context.Background(), c.log))
		joined.informers, joined.cancel = engine.NewInformers(ctx), cancel
		c.open = append(c.open, joined)
	}
	joined.users++
	return joined, func() {
		c.leave(joined)
		remove()
	}, nil
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
