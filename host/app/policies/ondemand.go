package policies

import (
	"context"
	"encoding/json"
	"runtime/debug"
	"sync"
	"time"

	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/host/policy/module"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// loadedModule is a module in memory.
type loadedModule interface {
	chain.Policy
	ChecksSettings() bool
	ValidateSettings(ctx context.Context, settings json.RawMessage, points ...contract.Point) error
	Instances() (idle, all int)
	Close(ctx context.Context) error
}

var _ loadedModule = (*module.Module)(nil)

// onDemand is a module that is in memory only until a while after its last call. A call after a
// pause loads it again, from the cache of compiled modules. It may be called concurrently.
type onDemand struct {
	load  func(context.Context) (loadedModule, error)
	clock clock.WithDelayedExecution
	// idle is how long the module stays after its last call.
	idle     time.Duration
	name     string
	digest   string
	manifest *contract.Manifest
	checks   bool

	mu sync.Mutex
	// loaded is nil while the module is not in memory.
	loaded loadedModule
	// calls are under way.
	calls int
	// drop drops the module after the last call.
	drop clock.Timer
}

// newOnDemand takes over a module, as if it had just been called. load loads it again.
func newOnDemand(ctx context.Context, clock clock.WithDelayedExecution, idle time.Duration, first loadedModule, load func(context.Context) (loadedModule, error)) *onDemand {
	o := &onDemand{
		load: load, clock: clock, idle: idle, name: first.Name(), digest: first.Digest(), manifest: first.Manifest(), checks: first.ChecksSettings(),
		loaded: first, calls: 1,
	}
	o.release(ctx)
	return o
}

// Name implements chain.Policy.
func (o *onDemand) Name() string { return o.name }

// Digest implements chain.Policy.
func (o *onDemand) Digest() string { return o.digest }

// Manifest implements chain.Policy.
func (o *onDemand) Manifest() *contract.Manifest { return o.manifest }

// ChecksSettings implements the module's method of this name.
func (o *onDemand) ChecksSettings() bool { return o.checks }

// Call implements chain.Policy.
func (o *onDemand) Call(ctx context.Context, export string, request []byte) ([]byte, engine.Stats, error) {
	loaded, err := o.acquire(ctx)
	if err != nil {
		return nil, engine.Stats{}, err
	}
	defer o.release(ctx)
	return loaded.Call(ctx, export, request)
}

// ValidateSettings implements the module's method of this name.
func (o *onDemand) ValidateSettings(ctx context.Context, settings json.RawMessage, points ...contract.Point) error {
	loaded, err := o.acquire(ctx)
	if err != nil {
		return err
	}
	defer o.release(ctx)
	return loaded.ValidateSettings(ctx, settings, points...)
}

// Instances implements the module's method of this name.
func (o *onDemand) Instances() (idle, all int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.loaded == nil {
		return 0, 0
	}
	return o.loaded.Instances()
}

// acquire returns the module in memory. Other calls wait while it is loaded.
func (o *onDemand) acquire(ctx context.Context) (loadedModule, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.loaded == nil {
		loaded, err := o.load(ctx)
		if err != nil {
			return nil, err
		}
		o.loaded = loaded
	}
	o.calls++
	return o.loaded, nil
}

// release ends a call. The last one starts the timer that drops the module.
func (o *onDemand) release(ctx context.Context) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls--
	if o.calls > 0 {
		return
	}
	if o.drop != nil {
		o.drop.Stop()
	}
	ctx = context.WithoutCancel(ctx)
	o.drop = o.clock.AfterFunc(o.idle, func() { o.dropIdle(ctx) })
}

// dropIdle drops the module unless a call is under way, whose end starts the timer again.
func (o *onDemand) dropIdle(ctx context.Context) {
	o.mu.Lock()
	loaded := o.loaded
	if o.calls > 0 || loaded == nil {
		o.mu.Unlock()
		return
	}
	o.loaded = nil
	o.mu.Unlock()
	if err := loaded.Close(ctx); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Closing a policy module failed", "module", o.name)
	}
	// What the module held goes back to the system: it may not be needed for days.
	debug.FreeOSMemory()
}
