package kubelet

import (
	"context"
	"fmt"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/host/consumer/feed"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
)

// newReader returns a client that lists and watches the provider's objects of some definitions. Its
// watches are streams of the provider's feed, if there is one.
func (v *virtualNode) newReader(ctx context.Context, config *rest.Config, streams *feed.Streams, definitions ...engine.Definition) (client.WithWatch, error) {
	direct, err := engine.NewClient(config, v.scheme, definitions...)
	if err != nil {
		return nil, fmt.Errorf("connecting to the provider: %w", err)
	}
	if !feed.IsServed(ctx, config) {
		ctrl.LoggerFrom(ctx).Info("The provider has no feed, watching each namespace")
		return direct, nil
	}
	reader, err := feed.NewReader(config, v.scheme)
	if err != nil {
		return nil, fmt.Errorf("connecting to the provider: %w", err)
	}
	ctrl.LoggerFrom(ctx).Info("Watching the namespaces of the provider through its feed")
	return feed.New(direct, reader, streams), nil
}
