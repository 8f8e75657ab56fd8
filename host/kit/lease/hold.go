package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// ErrLost is returned by [Hold] if another holder has the lease, or it could not be renewed.
var ErrLost = errors.New("the lease was lost")

// Hold waits for a lease and runs a function while it holds it. The context of the function ends with
// the lease, which is released after the function has returned. Hold returns the error of the function,
// [ErrLost] if the function returned nil because the lease was lost, and nil if the context ended first.
func Hold(ctx context.Context, lock resourcelock.Interface, now func() time.Time, run func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	holding, release := context.WithCancel(context.WithoutCancel(ctx))
	defer release()
	acquired, lost := make(chan struct{}), make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: Sparse(lock, RenewPeriod, now), Name: lock.Describe(),
		LeaseDuration: Duration, RenewDeadline: RenewDeadline, RetryPeriod: RetryPeriod, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) { close(acquired) }, OnStoppedLeading: func() {}},
	})
	if err != nil {
		return fmt.Errorf("preparing the lease %s: %w", lock.Describe(), err)
	}
	go func() {
		defer close(lost)
		elector.Run(holding)
	}()
	select {
	case <-acquired:
	case <-ctx.Done():
		release()
		<-lost
		return nil
	}
	go func() {
		<-lost
		cancel()
	}()
	err = run(ctx)
	isLost := ctx.Err() != nil && holding.Err() == nil
	release()
	<-lost
	if err == nil && isLost {
		return fmt.Errorf("holding %s: %w", lock.Describe(), ErrLost)
	}
	return err
}
