package reported_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/longshore-dev/longshore/host/kit/reported"
	"github.com/longshore-dev/longshore/host/kit/retry"
)

func TestReportedErrorsAreRetriedWithBackoffAndNotReturned(t *testing.T) {
	var result reconcile.Result
	var err error
	r := reported.Reconciler(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) { return result, err }))
	reconcileOnce := func() (reconcile.Result, error) { return r.Reconcile(t.Context(), reconcile.Request{}) }

	cause := errors.New("exceeded quota")
	err = fmt.Errorf("creating the pod: %w", reported.Error(cause))
	require.ErrorIs(t, err, cause)
	for _, want := range []time.Duration{retry.Base, 2 * retry.Base, 4 * retry.Base} {
		got, failure := reconcileOnce()
		require.NoError(t, failure)
		assert.Equal(t, want, got.RequeueAfter)
	}
	for range 20 {
		_, failure := reconcileOnce()
		require.NoError(t, failure)
	}
	got, failure := reconcileOnce()
	require.NoError(t, failure)
	assert.Equal(t, retry.Max, got.RequeueAfter)

	result, err = reconcile.Result{RequeueAfter: time.Hour}, nil
	got, failure = reconcileOnce()
	require.NoError(t, failure)
	assert.Equal(t, result, got, "another result stays as it is")

	err = reported.Error(cause)
	got, _ = reconcileOnce()
	assert.Equal(t, retry.Base, got.RequeueAfter, "the backoff begins anew after a success")

	err = cause
	_, failure = reconcileOnce()
	require.ErrorIs(t, failure, cause, "an error that was not reported is logged")
}
