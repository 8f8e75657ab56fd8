package webhook

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
)

// drain shuts a replica down without failed requests. The replica serves for a delay after the
// signal, while the Service's endpoints still have its address. The contexts of requests do not
// end with the server's context, which is their parent.
type drain struct {
	delay      time.Duration
	clock      clock.Clock
	isDraining atomic.Bool
}

// extend returns a context that ends the delay after ctx, or when end is called.
func (d *drain) extend(ctx context.Context) (longer context.Context, end func()) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		// Set before the server's context ends, which finish must not take for the end of a client.
		d.isDraining.Store(true)
		defer cancel()
		if d.delay == 0 {
			return
		}
		ctrl.LoggerFrom(ctx).Info("Serving until the endpoints are updated", "delay", d.delay.String())
		timer := d.clock.NewTimer(d.delay)
		defer timer.Stop()
		select {
		case <-timer.C():
		case <-longer.Done():
		}
	})
	return longer, func() {
		stop()
		cancel()
	}
}

// finish completes requests even if the server is stopped. A request ends when its client
// disconnects. A draining replica closes each connection with its response: a connection that is
// kept alive would be closed during the client's next request.
func (d *drain) finish(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
		defer cancel()
		if d.isDraining.Load() {
			w.Header().Set("Connection", "close")
		}
		defer context.AfterFunc(r.Context(), func() {
			if !d.isDraining.Load() {
				cancel()
			}
		})()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}
