package webhook

import (
	"context"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"

	wire "github.com/longshore-dev/longshore/host/kit/feed"
	"github.com/longshore-dev/longshore/host/provider/feed"
)

// addFeed adds the feed to the webhook server. Its watches end when the process stops, and are not
// drained: virtual kubelets continue them at another replica.
func addFeed(ctx context.Context, mgr ctrl.Manager) error {
	rights := feed.NewRights()
	if err := rights.Watch(ctx, mgr.GetCache()); err != nil {
		return err
	}
	handler, err := feed.New(mgr.GetConfig(), rights)
	if err != nil {
		return err
	}
	if err := mgr.Add(handler); err != nil {
		return fmt.Errorf("adding the feed: %w", err)
	}
	mgr.GetWebhookServer().Register(wire.Path, handler)
	mgr.GetWebhookServer().Register(wire.Path+"/", handler)
	return nil
}

// apiServices returns the names of the APIServices with the serving certificate.
func (o *Options) apiServices() []string {
	if !o.Feed {
		return nil
	}
	return []string{wire.Version + "." + wire.Group}
}
