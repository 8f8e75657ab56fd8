package feed

import (
	"fmt"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// New returns a Handler for the cluster of a configuration, and the FrontProxy that identifies its
// callers, which must run. The configuration has the rights of the feed.
func New(config *rest.Config, bindings *Bindings) (*Handler, *FrontProxy, error) {
	config = rest.CopyConfig(config)
	// The API server limits the requests. A limit here would hold up watches behind the checks of rights.
	config.QPS = -1
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	callers, err := NewFrontProxy(clients)
	if err != nil {
		return nil, nil, err
	}
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the URL of the API server: %w", err)
	}
	watches, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	// A watch has no end.
	watches.Timeout = 0
	return &Handler{
		Authenticate: callers, Bindings: bindings, Access: clients.AuthorizationV1().SubjectAccessReviews(), APIServer: server, HTTP: watches,
	}, callers, nil
}
