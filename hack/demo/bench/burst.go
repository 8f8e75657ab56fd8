package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// What the reference system needs for a burst of 1,000 pods, in seconds, and the plain
// client beside it (same source as the stream's).
const (
	referenceBurst           = 1000
	referenceShadowsExist    = 44.5
	referencePodsRunning     = 85.9
	referencePlainCreated    = 9.4
	referencePlainRunning    = 17.6
	burstCreatedGoal         = 1.5
	burstRunningGoal         = 2.0
	settleAfterLoad          = 3 * time.Second
	plainNote                = "the plain client: ShadowPods created with 10 requests under way, then their pods run"
	burstNote                = "from the first Deployment's creation; baseline: the plain client in the same run"
	boundNote                = "all local pods bound to the virtual node: Longshore cannot be faster"
	burstShadows, burstReady = "burst/shadowpods-exist", "burst/local-pods-running"
)

// burstTimes are seconds since the load began, and what its end took.
type burstTimes struct {
	bound, shadows, running float64
	removal                 removal
}

// burst runs Longshore, the plain client and the floor one after the other; the order
// rotates from run to run.
func (b *bench) burst(ctx context.Context, run int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 2*stepPatience, fmt.Errorf("not done after %s", 2*stepPatience))
	defer cancel()
	var ours, theirs, floor burstTimes
	steps := []func() error{
		func() (err error) { ours, err = b.longshoreBurst(ctx, run); return err },
		func() (err error) { theirs, err = b.plainBurst(ctx); return err },
		func() (err error) { floor, err = b.floorBurst(ctx); return err },
	}
	for i := range steps {
		if err := steps[(run+i)%len(steps)](); err != nil {
			return err
		}
	}
	note := fmt.Sprintf("%d pods %s", b.sizes.burst, burstNote)
	if b.sizes.burst == referenceBurst {
		note += fmt.Sprintf("; the reference system: ShadowPods %gs, running %gs, beside a plain client's %gs and %gs",
			referenceShadowsExist, referencePodsRunning, referencePlainCreated, referencePlainRunning)
	}
	b.record.add(
		compare(burstShadows, "s", ours.shadows, theirs.shadows, ratioGoal(burstCreatedGoal), note),
		compare(burstReady, "s", ours.running, theirs.running, ratioGoal(burstRunningGoal), note),
		figure("burst/local-pods-bound", "s", ours.bound, boundNote),
		figure("burst/plain-shadowpods-exist", "s", theirs.shadows, plainNote),
		figure("burst/plain-pods-running", "s", theirs.running, plainNote),
	)
	b.reportFloor(ours, floor)
	b.reportRemoval(ours.removal, theirs.removal)
	return nil
}

// longshoreBurst runs the load through Longshore, with all that is measured while it
// runs and while it is there.
func (b *bench) longshoreBurst(ctx context.Context, run int) (burstTimes, error) {
	w, pods := b.testbed, b.sizes.burst
	window, err := b.open()
	if err != nil {
		return burstTimes{}, err
	}
	asking, err := w.readAsked(ctx)
	if err != nil {
		return burstTimes{}, err
	}
	b.logf("burst %d: %d pods through Longshore", run+1, pods)
	profiled := make(chan error, 1)
	go func() { profiled <- b.profile(ctx, "profile", "cpu-burst") }()
	times, err := w.offloadBurst(ctx, pods)
	if err != nil {
		return burstTimes{}, err
	}
	b.logf("burst %d: bound %.1fs, ShadowPods %.1fs, running %.1fs", run+1, times.bound, times.shadows, times.running)
	if err := b.reportWindow(ctx, window, "", pods, true); err != nil {
		return burstTimes{}, err
	}
	if err := b.reportShare(ctx, window, asking); err != nil {
		return burstTimes{}, err
	}
	if err := <-profiled; err != nil {
		return burstTimes{}, err
	}
	if err := b.loaded(ctx, run); err != nil {
		return burstTimes{}, err
	}
	times.removal, err = b.remove(ctx, w.removeLoad)
	return times, err
}

// offloadBurst creates the Deployments and waits until all their pods run.
func (w *testbed) offloadBurst(ctx context.Context, pods int) (burstTimes, error) {
	watching, stopWatching := context.WithCancel(ctx)
	defer stopWatching()
	local, err := w.rome.watchPods(watching, offloaded)
	if err != nil {
		return burstTimes{}, err
	}
	shadows, err := w.milan.watchShadowPods(watching, w.remote)
	if err != nil {
		return burstTimes{}, err
	}
	begin := time.Now()
	if err := w.createDeployments(ctx, deployments(pods)); err != nil {
		return burstTimes{}, err
	}
	times, err := waitBurst(ctx, begin, pods, local.bound, shadows, local.running)
	if err != nil {
		return burstTimes{}, fmt.Errorf("burst through Longshore: %w", err)
	}
	return times, nil
}

// loaded measures what is measured with all pods there.
func (b *bench) loaded(ctx context.Context, run int) error {
	if err := errors.Join(b.memoryLoaded(), b.profile(ctx, "heap", "memory-loaded")); err != nil {
		return err
	}
	// Once is enough: it is a minute that is counted, not timed.
	if run == 0 && b.needs("quiet/") {
		return b.quiet(ctx)
	}
	return nil
}

func (b *bench) plainBurst(ctx context.Context) (burstTimes, error) {
	w, pods := b.testbed, b.sizes.burst
	watching, stopWatching := context.WithCancel(ctx)
	defer stopWatching()
	remote, err := w.milan.watchPods(watching, plain)
	if err != nil {
		return burstTimes{}, err
	}
	shadows, err := w.milan.watchShadowPods(watching, plain)
	if err != nil {
		return burstTimes{}, err
	}
	b.logf("burst: %d ShadowPods by the plain client", pods)
	begin := time.Now()
	if err := w.createPlain(ctx, pods); err != nil {
		return burstTimes{}, err
	}
	times, err := waitBurst(ctx, begin, pods, remote.bound, shadows, remote.running)
	if err != nil {
		return burstTimes{}, fmt.Errorf("burst of the plain client: %w", err)
	}
	stopWatching()
	b.logf("burst: plain client: ShadowPods %.1fs, running %.1fs", times.shadows, times.running)
	times.removal, err = b.remove(ctx, func(ctx context.Context) error { return w.removePlain(ctx, pods) })
	return times, err
}

func waitBurst(ctx context.Context, begin time.Time, pods int, bound, shadows, running *sightings) (burstTimes, error) {
	seconds := map[string]float64{}
	for _, wait := range []struct {
		what string
		seen *sightings
	}{{"ShadowPods exist", shadows}, {"pods bound", bound}, {"pods running", running}} {
		at, err := wait.seen.wait(ctx, pods)
		if err != nil {
			return burstTimes{}, fmt.Errorf("waiting for %s: %w", wait.what, err)
		}
		seconds[wait.what] = at.Sub(begin).Seconds()
	}
	return burstTimes{bound: seconds["pods bound"], shadows: seconds["ShadowPods exist"], running: seconds["pods running"]}, nil
}
