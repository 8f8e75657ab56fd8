package feed

import (
	"context"
	"fmt"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// New returns a Handler for the cluster of a configuration, which has the rights of the feed.
func New(config *rest.Config, rights *Rights) (*Handler, error) {
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
		callers: callers, rights: rights, server: server, http: watches, ended: make(chan struct{}), open: map[string]int{},
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
