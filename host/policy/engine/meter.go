package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

const (
	// sliceParts is the fuel that a guest gets at once, in parts of ticks. A guest without
	// fuel calls the host. That call is also the only point at which Go's scheduler and
	// garbage collector can interrupt compiled code, so a slice must not take more than 2 ms:
	// some microseconds of ordinary code are the rule.
	sliceParts = 192 * FuelParts
	// sliceTime is the most that a slice takes; a test holds it for each class of instructions.
	sliceTime = 2 * time.Millisecond
	// refuelsPerClock is the number of slices between two looks at the clock, which takes longer
	// than a slice, in the first half of a call's time. In the second half, each slice is
	// followed by a look.
	refuelsPerClock = 8
	// stackBudget bounds the depth of nested calls: a call takes 64 and more of it.
	stackBudget = 1_000_000
)

// meter is the fuel and time that a call has used.
type meter struct {
	// left is the fuel that was not yet handed out, in parts of ticks.
	left int64
	// untilLook is the number of slices until the next look at the clock.
	untilLook int
	// limit is the CPU time after which the call ends at the next look: at most two slices later,
	// the one before the first look and the one before the last.
	limit time.Duration
	// startedAt is the CPU time of the thread at the first look at the clock. From then on
	// isLocked is set, and the goroutine stays on its thread until the call ends.
	startedAt time.Duration
	isLocked  bool
	// isLate is set when the limit was reached.
	isLate bool
}

// errNoFuel ends a call. The instance's meter has the reason.
var errNoFuel = errors.New("the call was ended")

// instantiateRefuel defines the function that guests without fuel call.
func instantiateRefuel(ctx context.Context, runtime wazero.Runtime) error {
	_, err := runtime.NewHostModuleBuilder(RefuelModule).NewFunctionBuilder().
		WithGoFunction(api.GoFunc(func(ctx context.Context, _ []uint64) { instanceOf(ctx).refuel() }), nil, nil).
		Export(RefuelFunction).Instantiate(ctx)
	if err != nil {
		return fmt.Errorf("defining the fuel's import: %w", err)
	}
	return nil
}

// startMeter gives the guest its first slice.
func (i *instance) startMeter(ticks uint64, limit time.Duration) {
	all := int64(min(ticks, math.MaxInt64/FuelParts)) * FuelParts
	first := min(all, sliceParts)
	i.meter = meter{left: all - first, limit: limit}
	i.fuel.Set(uint64(first))
	i.stackLeft.Set(stackBudget)
}

// stopMeter must be called after the guest's code has returned.
func (i *instance) stopMeter() {
	if i.meter.isLocked {
		runtime.UnlockOSThread()
		i.meter.isLocked = false
	}
}

// fuelLeft returns the rest of the call's fuel, in parts of ticks. It is negative after the
// guest needed more.
func (i *instance) fuelLeft() int64 { return i.meter.left + int64(i.fuel.Get()) }

// spend takes parts of ticks for work that the host does for the guest. It returns false
// when the fuel is used up. The caller must not do the work then, and the guest is ended soon.
func (i *instance) spend(parts int64) bool {
	i.fuel.Set(uint64(int64(i.fuel.Get()) - parts))
	return i.fuelLeft() >= 0
}

// refuel hands out the next slice, or ends the call.
//
// The clock is the CPU time of the thread, so that a busy machine or a throttled container
// ends no call. It starts with the first look at it, after the first slice.
func (i *instance) refuel() {
	left := i.fuelLeft()
	if left < 0 {
		panic(errNoFuel)
	}
	next := min(left, sliceParts)
	i.meter.left = left - next
	i.fuel.Set(uint64(next))
	if i.meter.untilLook--; i.meter.untilLook > 0 {
		return
	}
	if !i.meter.isLocked {
		runtime.LockOSThread()
		i.meter.isLocked, i.meter.startedAt = true, threadTime()
	}
	used := threadTime() - i.meter.startedAt
	if used >= i.meter.limit {
		i.meter.isLate = true
		panic(errNoFuel)
	}
	if used < i.meter.limit/2 {
		i.meter.untilLook = refuelsPerClock
	}
}
