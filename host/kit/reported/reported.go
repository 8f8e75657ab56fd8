// Package reported retries what has failed for a reason that was reported where its reader looks: in an
// event, a status or a condition. The log has no error for it.
package reported

import (
	"context"
	"errors"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/longshore-dev/longshore/host/kit/retry"
)

// failure is an error that was reported.
type failure struct{ err error }

// Error implements error.
func (f *failure) Error() string { return f.err.Error() }

// Unwrap returns the cause.
func (f *failure) Unwrap() error { return f.err }

// Error marks an error as reported.
func Error(err error) error { return &failure{err} }

// Reconciler returns a reconciler that retries reported errors with the backoff of [retry.Limiter], and does not
// return them, because controllers log what they get.
func Reconciler(r reconcile.Reconciler) reconcile.Reconciler {
	return &reconciler{r, retry.Limiter[reconcile.Request]()}
}

type reconciler struct {
	reconcile.Reconciler
	limiter workqueue.TypedRateLimiter[reconcile.Request]
}

// Reconcile implements reconcile.Reconciler.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	result, err := r.Reconciler.Reconcile(ctx, request)
	if _, isReported := errors.AsType[*failure](err); !isReported {
		r.limiter.Forget(request)
		return result, err //nolint:wrapcheck // It is the reconciler's.
	}
	ctrl.LoggerFrom(ctx).V(1).Info("Retrying what has failed for a reported reason", "reason", err.Error())
	return reconcile.Result{RequeueAfter: r.limiter.When(request)}, nil
}
