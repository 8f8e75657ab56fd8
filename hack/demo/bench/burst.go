package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
)

// What the reference system needs per offloaded pod in a burst of 1,000 (same source as the stream's).
const (
	referenceBurst    = 1000
	referenceRequests = 22.1
	referenceCPU      = 0.036
	referenceRigCPU   = 0.18

	burstCreatedGoal = 1.5
	burstRunningGoal = 2.0
	removedGoal      = 0.8
	requestsGoal     = 9
	cpuGoal          = 0.5

	cpuUnit, requestUnit = "CPU-s/pod", "requests/pod"
)

// burstTimes are seconds since the load began.
type burstTimes struct{ bound, shadows, running float64 }

// burstCost is what a burst took, and its removal.
type burstCost struct {
	burstTimes
	seconds float64
	removal window
}

// burst runs Longshore, the plain client and the floor one after the other; the order
// rotates from run to run.
func (b *bench) burst(ctx context.Context, run int) error {
	ctx, cancel := withPatience(ctx, 2*stepPatience)
	defer cancel()
	var through, plainly, floor burstCost
	steps := []func() error{
		func() (err error) { through, err = b.longshoreBurst(ctx, run); return err },
		func() (err error) { plainly, err = b.plainBurst(ctx); return err },
		func() (err error) { floor, err = b.floorBurst(ctx); return err },
	}
	for i := range steps {
		if err := steps[(run+i)%len(steps)](); err != nil {
			return err
		}
	}
	b.reportBurst(through, plainly, floor)
	return nil
}

// reportBurst records the time, and the cost of the removal, of a burst through Longshore beside those of the
// plain client and of the floor.
func (b *bench) reportBurst(through, plainly, floor burstCost) {
	note := fmt.Sprintf("%d pods from the first Deployment's creation; baseline: the plain client in the same run, ShadowPods created with 10 requests under way, then their pods run", b.pods)
	removed := fmt.Sprintf("from the deletion of %d pods' Deployments until nothing is left on either side; baseline: ", b.pods)
	asked := func(c burstCost) float64 { return c.removal.requests(request.ofLongshore) / float64(b.pods) }
	b.record.add(
		compare("burst/shadowpods-exist", "s", through.shadows, plainly.shadows, ratioGoal(burstCreatedGoal), note),
		compare("burst/local-pods-running", "s", through.running, plainly.running, ratioGoal(burstRunningGoal), note),
		compare("burst/local-pods-running-beside-floor", "s", through.running, floor.running, goal{}, "baseline: "+floorNote),
		figure("burst/local-pods-bound", "s", through.bound, "all local pods bound to the virtual node: Longshore cannot be faster"),
		compare("burst/removed", "s", through.seconds, plainly.seconds, goal{}, removed+"the plain client in the same run, which deletes its ShadowPods with 10 requests under way"),
		compare("burst/removed-beside-floor", "s", through.seconds, floor.seconds, ratioGoal(removedGoal), removed+floorRemovedNote),
		compare("requests/per-removed-pod", requestUnit, asked(through), asked(plainly), goal{},
			"all requests of Longshore in both clusters while the pods were taken away, events included, leases not; baseline: Longshore's while the plain client's ShadowPods were"),
	)
}

// longshoreBurst runs the load through Longshore, with all that is measured while it
// runs and while it is there.
func (b *bench) longshoreBurst(ctx context.Context, run int) (cost burstCost, err error) {
	b.logf("burst %d: %d pods through Longshore", run+1, b.pods)
	w, err := b.during(ctx, settleAfterLoad, func(ctx context.Context) (err error) {
		cost.burstTimes, err = b.testbed.offload(ctx, deployments(b.pods), offloaded, b.testbed.remote)
		return err
	})
	if err != nil {
		return burstCost{}, err
	}
	b.logf("burst %d: bound %.1fs, ShadowPods %.1fs, running %.1fs", run+1, cost.bound, cost.shadows, cost.running)
	b.logRequests("burst", w.asked)
	b.reportCost(w)
	if err := b.memoryLoaded(); err != nil {
		return burstCost{}, err
	}
	// Once is enough: it is a minute that is counted, not timed.
	if run == 0 && b.wants("quiet") {
		if err := b.quiet(ctx); err != nil {
			return burstCost{}, err
		}
	}
	err = b.remove(ctx, &cost, b.testbed.removeLoad)
	return cost, err
}

// reportCost records requests and CPU time of a burst through Longshore, per pod.
func (b *bench) reportCost(w window) {
	pods := float64(b.pods)
	note := fmt.Sprintf("while %d pods were offloaded; baseline: the reference system", b.pods)
	b.record.add(
		compare("requests/per-pod", requestUnit, w.requests(request.ofLongshore)/pods, referenceRequests, valueGoal(requestsGoal),
			"all requests of Longshore in both clusters, events included, leases not, "+note),
		compare("cpu/longshore-per-pod", cpuUnit, w.cpu(ours)/pods, referenceCPU, ratioGoal(cpuGoal), "user and system time "+note),
		compare("cpu/rig-per-pod", cpuUnit, w.cpu(func(string) bool { return true })/pods, referenceRigCPU, ratioGoal(cpuGoal),
			"user and system time of all processes, the control planes, kwok and this client included, "+note),
	)
	for _, process := range slices.Sorted(maps.Keys(w.after)) {
		if ours(process) {
			b.record.add(figure("cpu/per-pod/"+process, cpuUnit, w.cpu(func(name string) bool { return name == process })/pods, ""))
		}
	}
}

// remove takes a burst away, and notes what that took.
func (b *bench) remove(ctx context.Context, cost *burstCost, remove func(context.Context) error) (err error) {
	cost.removal, err = b.during(ctx, settleAfterLoad, func(ctx context.Context) error {
		began := time.Now()
		err := remove(ctx)
		cost.seconds = time.Since(began).Seconds()
		return err
	})
	b.logf("burst: taken away in %.1fs", cost.seconds)
	return err
}

// offload creates Deployments in the consumer and waits until all their pods run.
func (w *testbed) offload(ctx context.Context, load []*appsv1.Deployment, namespace, remote string) (burstTimes, error) {
	watching, stopWatching := context.WithCancel(ctx)
	defer stopWatching()
	local, err := w.rome.watchPods(watching, namespace)
	if err != nil {
		return burstTimes{}, err
	}
	shadows, err := w.milan.watchShadowPods(watching, remote)
	if err != nil {
		return burstTimes{}, err
	}
	pods := 0
	for _, deployment := range load {
		pods += int(*deployment.Spec.Replicas)
	}
	begin := time.Now()
	if err := w.createDeployments(ctx, load); err != nil {
		return burstTimes{}, err
	}
	times, err := waitBurst(ctx, begin, pods, local.bound, shadows, local.running)
	if err != nil {
		return burstTimes{}, fmt.Errorf("burst through Longshore: %w", err)
	}
	return times, nil
}

// plainBurst runs the plain client.
func (b *bench) plainBurst(ctx context.Context) (cost burstCost, err error) {
	b.logf("burst: %d ShadowPods by the plain client", b.pods)
	if cost.burstTimes, err = b.testbed.plainLoad(ctx, b.pods); err != nil {
		return burstCost{}, err
	}
	b.logf("burst: plain client: ShadowPods %.1fs, running %.1fs", cost.shadows, cost.running)
	err = b.remove(ctx, &cost, func(ctx context.Context) error { return b.testbed.removePlain(ctx, b.pods) })
	return cost, err
}

// plainLoad creates ShadowPods as the plain client and waits until their pods run.
func (w *testbed) plainLoad(ctx context.Context, pods int) (burstTimes, error) {
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
	begin := time.Now()
	if err := w.createPlain(ctx, pods); err != nil {
		return burstTimes{}, err
	}
	times, err := waitBurst(ctx, begin, pods, remote.bound, shadows, remote.running)
	if err != nil {
		return burstTimes{}, fmt.Errorf("burst of the plain client: %w", err)
	}
	return times, nil
}

func waitBurst(ctx context.Context, begin time.Time, pods int, bound, shadows, running *sightings) (times burstTimes, err error) {
	for _, wait := range []struct {
		what    string
		seen    *sightings
		seconds *float64
	}{{"ShadowPods exist", shadows, &times.shadows}, {"pods bound", bound, &times.bound}, {"pods running", running, &times.running}} {
		at, err := wait.seen.wait(ctx, pods)
		if err != nil {
			return burstTimes{}, fmt.Errorf("waiting for %s: %w", wait.what, err)
		}
		*wait.seconds = at.Sub(begin).Seconds()
	}
	return times, nil
}
