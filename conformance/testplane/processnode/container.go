package processnode

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// containerRun runs a container and restarts it according to its restart policy.
type containerRun struct {
	worker *podWorker
	spec   *corev1.Container
	state  *containerState
	policy corev1.RestartPolicy
}

// loop returns the last exit code.
func (c *containerRun) loop(ctx context.Context) int {
	w := c.worker
	var pause time.Duration
	for {
		begun := w.clock.Now()
		ended, ok := c.once(ctx)
		if !ok {
			return exitKilled
		}
		exit := int(ended.ExitCode)
		if ctx.Err() != nil || !restartable(c.policy, exit) {
			w.update(func() { c.stopped(); c.state.ended = ended })
			return exit
		}
		pause = backoff(pause, w.clock.Since(begun))
		message := fmt.Sprintf("ended with exit code %d, starts again in %s", exit, pause)
		// One update: a pod whose containers have ended and do not wait reads as over.
		w.update(func() {
			c.stopped()
			c.state.last, c.state.ended = ended, nil
			c.state.waiting = &corev1.ContainerStateWaiting{Reason: reasonCrashLoop, Message: message}
		})
		w.events.Eventf(w.pod, corev1.EventTypeWarning, "BackOff", "Container %s %s", c.spec.Name, message)
		if !w.pause(ctx, nil, pause) {
			return exit
		}
		w.mu.Lock()
		c.state.restarts++
		w.mu.Unlock()
	}
}

func (c *containerRun) stopped() {
	c.state.running, c.state.ready, c.state.startedUp = false, false, false
}

// once starts the container and waits for its end; false means that the pod is to end
// and the container did not run.
func (c *containerRun) once(ctx context.Context) (*corev1.ContainerStateTerminated, bool) {
	w := c.worker
	p, ok := c.startPatiently(ctx)
	if !ok {
		return nil, false
	}
	started := metav1.NewTime(w.clock.Now())
	w.update(func() {
		c.state.running, c.state.started, c.state.id = true, started, processID(p.pid())
		c.state.startedUp = c.spec.StartupProbe == nil
		c.state.ready = c.spec.ReadinessProbe == nil
		c.state.waiting, c.state.ended = nil, nil
	})
	probing, stopProbing := context.WithCancel(ctx)
	var probes sync.WaitGroup
	dead := make(chan time.Duration, 1)
	probes.Go(func() { c.probe(probing, dead) })
	select {
	case <-p.done:
	case grace := <-dead:
		c.terminate(p, grace)
	case <-ctx.Done():
		c.terminate(p, 0)
	}
	stopProbing()
	probes.Wait()
	reason := reasonCompleted
	if p.exit != 0 {
		reason = reasonError
	}
	return &corev1.ContainerStateTerminated{
		ExitCode: p.exit, Signal: p.endedBy, Reason: reason, ContainerID: processID(p.pid()),
		StartedAt: started, FinishedAt: metav1.NewTime(w.clock.Now()),
	}, true
}

// startPatiently tries until the container starts; false means that the pod is to end.
func (c *containerRun) startPatiently(ctx context.Context) (*process, bool) {
	w := c.worker
	for {
		changed := w.changed.next()
		p, err := c.start(ctx)
		if err == nil {
			return p, true
		}
		if ctx.Err() != nil {
			return nil, false
		}
		w.setWaiting(c.state, reasonOf(err), err.Error())
		if !w.pause(ctx, changed, retryInputs) {
			return nil, false
		}
	}
}

func (c *containerRun) start(ctx context.Context) (*process, error) {
	w := c.worker
	program, err := w.options.program(c.spec)
	if err != nil {
		return nil, &holdUp{reasonUnknownImage, err}
	}
	mounts := w.inputs.mounts(c.spec)
	kubeconfig, err := w.inputs.kubeconfig(c.spec, mounts)
	if err != nil {
		return nil, &holdUp{reasonConfigError, err}
	}
	ctx, cancel := context.WithTimeout(ctx, inputsTimeout)
	defer cancel()
	variables, err := w.inputs.environment(ctx, c.spec, kubeconfig, mounts)
	if err != nil {
		return nil, &holdUp{reasonConfigError, err}
	}
	args := make([]string, 0, len(program.Args))
	for _, arg := range program.Args {
		args = append(args, remount(expand(arg, variables), mounts))
	}
	return w.spawn.start(Program{Path: program.Path, Args: args}, environ(variables), w.inputs.dir,
		w.options.logFile(w.pod.Namespace, w.pod.Name, c.spec.Name))
}

// terminate ends a process politely, and for certain when the grace period is over: the
// given one, and when the pod is to end, the pod's.
func (c *containerRun) terminate(p *process, grace time.Duration) {
	w := c.worker
	begun := w.clock.Now()
	p.signal(syscall.SIGTERM)
	for {
		hurried := w.hurried.next()
		w.mu.Lock()
		until := w.stopAt
		w.mu.Unlock()
		if own := begun.Add(grace); until.IsZero() || (grace > 0 && own.Before(until)) {
			until = own
		}
		timer := w.clock.NewTimer(until.Sub(w.clock.Now()))
		select {
		case <-p.done:
			timer.Stop()
			return
		case <-timer.C():
			p.signal(syscall.SIGKILL)
			<-p.done
			return
		case <-hurried:
			timer.Stop()
		}
	}
}

// probe asks the container's probes until the context ends: first the startup probe,
// then the others beside each other. When startup or liveness fails it sends the grace
// period of the process on dead.
func (c *containerRun) probe(ctx context.Context, dead chan<- time.Duration) {
	w := c.worker
	kill := func(probe *corev1.Probe, what string, err error) {
		grace := graceOf(&corev1.Pod{Spec: w.pod.Spec})
		if own := probe.TerminationGracePeriodSeconds; own != nil {
			grace = time.Duration(*own) * time.Second
		}
		w.events.Eventf(w.pod, corev1.EventTypeWarning, "Unhealthy", "Container %s failed its %s probe and is ended: %v", c.spec.Name, what, err)
		select {
		case dead <- grace:
		default:
		}
	}
	if startup := c.spec.StartupProbe; startup != nil {
		up := c.ask(ctx, startup, true, func(v verdict, err error) bool {
			if v == failed {
				kill(startup, "startup", err)
			}
			return v == undecided
		})
		if up != succeeded {
			return
		}
		w.update(func() { c.state.startedUp = true })
	}
	var probes sync.WaitGroup
	defer probes.Wait()
	if readiness := c.spec.ReadinessProbe; readiness != nil {
		probes.Go(func() { c.ask(ctx, readiness, true, c.setReady) })
	}
	if liveness := c.spec.LivenessProbe; liveness != nil {
		probes.Go(func() {
			c.ask(ctx, liveness, false, func(v verdict, err error) bool {
				if v == failed {
					kill(liveness, "liveness", err)
				}
				return v != failed
			})
		})
	}
}

func (c *containerRun) setReady(v verdict, err error) bool {
	w := c.worker
	w.mu.Lock()
	before := c.state.ready
	w.mu.Unlock()
	if ready := v == succeeded; v != undecided && ready != before {
		w.update(func() { c.state.ready = ready })
		if !ready {
			w.events.Eventf(w.pod, corev1.EventTypeWarning, "Unhealthy", "Container %s failed its readiness probe: %v", c.spec.Name, err)
		}
	}
	return true
}

// ask runs a probe periodically, more often until it first succeeds, until report returns
// false. It returns the last verdict.
func (c *containerRun) ask(ctx context.Context, probe *corev1.Probe, eager bool, report func(verdict, error) bool) verdict {
	w := c.worker
	counts := &tally{probe: probe}
	if delay := time.Duration(probe.InitialDelaySeconds) * time.Second; delay > 0 && !w.pause(ctx, nil, delay) {
		return undecided
	}
	for {
		err := probeOnce(ctx, probe, c.spec, w.inputs.ip)
		if ctx.Err() != nil {
			return undecided
		}
		v := counts.record(err == nil, w.clock.Now())
		if !report(v, err) {
			return v
		}
		eager = eager && v != succeeded
		interval := counts.period()
		if eager {
			interval = min(interval, eagerProbing)
		}
		if !w.pause(ctx, nil, interval) {
			return v
		}
	}
}
