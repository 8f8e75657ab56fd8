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
	// slice is how much fuel a guest gets at once, in parts of ticks. When it is used up, the
	// guest calls the host, which looks at the clock; and as that is a call of a Go function,
	// Go's scheduler and garbage collector come in, which cannot interrupt compiled code. A
	// slice is some microseconds of ordinary code and less than 2 ms of any.
	slice = 256 * FuelParts
	// clockLooks is how many looks there are for one at the clock, which takes longer.
	clockLooks = 8
	// stackBudget bounds how deep calls may be nested: a call takes 64 and more of it.
	stackBudget = 1_000_000
)

// meter is how far a call has come.
type meter struct {
	// left is the fuel that was not yet handed out, in parts of ticks.
	left int64
	// looks is how often the guest has asked for more.
	looks int
	// limit is how long the call may run.
	limit time.Duration
	// began is the processor's time of the thread when it was first asked for, locked that it
	// was: until the end of the call its goroutine stays on the thread.
	began  time.Duration
	locked bool
	// late says that the limit was reached.
	late bool
}

// errNoFuel ends a call in the middle. The guest's state says why.
var errNoFuel = errors.New("the call was ended")

// instantiateLook defines the function that guests call without fuel.
func instantiateLook(ctx context.Context, runtime wazero.Runtime) error {
	_, err := runtime.NewHostModuleBuilder(LookModule).NewFunctionBuilder().
		WithGoFunction(api.GoFunc(func(ctx context.Context, _ []uint64) { instanceOf(ctx).look() }), nil, nil).
		Export(LookFunction).Instantiate(ctx)
	if err != nil {
		return fmt.Errorf("defining the fuel's import: %w", err)
	}
	return nil
}

// begin gives the guest its first slice.
func (i *instance) begin(ticks uint64, limit time.Duration) {
	all := int64(min(ticks, math.MaxInt64/FuelParts)) * FuelParts
	first := min(all, slice)
	i.meter = meter{left: all - first, limit: limit}
	i.fuel.Set(uint64(first))
	i.stackLeft.Set(stackBudget)
}

// end is called when the guest's code no longer runs.
func (i *instance) end() {
	if i.meter.locked {
		runtime.UnlockOSThread()
		i.meter.locked = false
	}
}

// fuelLeft is what is left of the call's fuel, in parts of ticks, negative when it was not
// enough.
func (i *instance) fuelLeft() int64 { return i.meter.left + int64(i.fuel.Get()) }

// spend takes parts of ticks for work that the host does for the guest. It answers false
// when there are too few: then the work must not be done, and the guest is stopped soon.
func (i *instance) spend(parts int64) bool {
	i.fuel.Set(uint64(int64(i.fuel.Get()) - parts))
	return i.fuelLeft() >= 0
}

// look hands out the next slice, or ends the call.
//
// Time is the processor's time of the thread, so a machine that has more to do than it
// can, or a container that is throttled, ends no call. It begins with the first look at the
// clock, before which most calls end.
func (i *instance) look() {
	left := i.fuelLeft()
	if left < 0 {
		panic(errNoFuel)
	}
	next := min(left, slice)
	i.meter.left = left - next
	i.fuel.Set(uint64(next))
	if i.meter.looks++; i.meter.looks%clockLooks != 0 {
		return
	}
	if !i.meter.locked {
		runtime.LockOSThread()
		i.meter.locked, i.meter.began = true, threadTime()
		return
	}
	if threadTime()-i.meter.began >= i.meter.limit {
		i.meter.late = true
		panic(errNoFuel)
	}
}
