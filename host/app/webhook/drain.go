package webhook

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
)

// drain lets a replica that is told to stop do so without failing anybody's request. Two
// things would: connections that are made while the Service's endpoints still name it, so
// it serves on for a while; and the end of the server's context, which is the parent of
// every request's, so requests are kept out of that.
type drain struct {
	delay   time.Duration
	clock   clock.Clock
	leaving atomic.Bool
}

// outlive returns a context that ends the delay after ctx does, or when end is called.
func (d *drain) outlive(ctx context.Context) (longer context.Context, end func()) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		// Before the server's context ends, or a request would take that for its client's end.
		d.leaving.Store(true)
		defer cancel()
		if d.delay == 0 {
			return
		}
		ctrl.LoggerFrom(ctx).Info("Serving on until the endpoints no longer name this replica", "delay", d.delay.String())
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

// finish answers requests to their end, also when the server stops meanwhile. A request
// whose client goes ends before. A replica that leaves gives up each connection with its
// answer: one that is kept would end with the server, under the client's next request.
func (d *drain) finish(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
		defer cancel()
		if d.leaving.Load() {
			w.Header().Set("Connection", "close")
		}
		defer context.AfterFunc(r.Context(), func() {
			if !d.leaving.Load() {
				cancel()
			}
		})()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}
