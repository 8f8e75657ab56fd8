package feed

import (
	"context"
	"fmt"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// New returns a Handler for the cluster of a configuration, which has the rights of the feed.
func New(config *rest.Config, bindings *Bindings) (*Handler, error) {
	config = rest.CopyConfig(config)
	// The API server limits the requests. A limit here would hold up watches behind the checks of rights.
	config.QPS = -1
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	callers, err := newFrontProxy(clients)
	if err != nil {
		return nil, err
	}
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("reading the URL of the API server: %w", err)
	}
	watches, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	// A watch has no end.
	watches.Timeout = 0
	return &Handler{
		callers: callers, bindings: bindings, access: clients.AuthorizationV1().SubjectAccessReviews(), server: server, http: watches,
		ended: make(chan struct{}),
	}, nil
}

// Start implements manager.Runnable. It identifies callers until the context ends, and then ends all
// watches: the server would wait for them.
func (h *Handler) Start(ctx context.Context) error {
	h.callers.run(ctx)
	close(h.ended)
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: every replica serves.
func (h *Handler) NeedLeaderElection() bool { return false }
