package processnode

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
)

const (
	retryInputs    = time.Second
	inputsTimeout  = 30 * time.Second
	defaultGrace   = 30 * time.Second
	defaultProbing = 10 * time.Second
	// readyProbing is how often a container that is not ready yet is asked: processes
	// start faster than containers.
	readyProbing = 200 * time.Millisecond
)

// podWorker runs one pod.
type podWorker struct {
	options *Options
	spawn   *spawner
	inputs  *inputs
	notify  func(*corev1.Pod)
	clock   clock.WithTicker
	release func()

	cancel  context.CancelFunc
	done    chan struct{}
	mu      sync.Mutex
	pod     *corev1.Pod
	states  []*containerState
	inits   []*containerState
	initial bool
}

func newPodWorker(pod *corev1.Pod, options *Options, spawn *spawner, in *inputs, release func(), notify func(*corev1.Pod)) *podWorker {
	w := &podWorker{
		options: options, spawn: spawn, inputs: in, notify: notify, clock: options.Clock, release: release,
		done: make(chan struct{}), pod: pod.DeepCopy(),
	}
	for i := range pod.Spec.Containers {
		w.states = append(w.states, &containerState{name: pod.Spec.Containers[i].Name, image: pod.Spec.Containers[i].Image})
	}
	for i := range pod.Spec.InitContainers {
		w.inits = append(w.inits, &containerState{name: pod.Spec.InitContainers[i].Name, image: pod.Spec.InitContainers[i].Image})
	}
	started := metav1.NewTime(options.Clock.Now())
	w.pod.Status.StartTime = &started
	return w
}

// run runs the pod until it ends or the context does, and then cleans up.
func (w *podWorker) run(ctx context.Context) {
	defer close(w.done)
	defer w.release()
	w.publish()
	w.containers(ctx)
	// Whatever is still running was ended with the context.
	if err := os.RemoveAll(w.inputs.dir); err != nil {
		w.setWaiting(w.states, "CleanUpFailed", err.Error())
	}
	w.publish()
}

func (w *podWorker) containers(ctx context.Context) {
	mounts, kubeconfig, ok := w.prepare(ctx)
	if !ok {
		w.finish(w.states)
		return
	}
	var running sync.WaitGroup
	defer running.Wait()
	renewing, stopRenewing := context.WithCancel(ctx)
	defer stopRenewing()
	running.Go(func() { w.renew(renewing) })
	for i := range w.pod.Spec.InitContainers {
		policy := corev1.RestartPolicyOnFailure
		if w.pod.Spec.RestartPolicy == corev1.RestartPolicyNever {
			policy = corev1.RestartPolicyNever
		}
		c := &containerRun{worker: w, spec: &w.pod.Spec.InitContainers[i], state: w.inits[i], policy: policy, mounts: mounts, kubeconfig: kubeconfig}
		if exit := c.loop(ctx); exit != 0 || ctx.Err() != nil {
			w.finish(w.states)
			return
		}
	}
	w.update(func() { w.initial = true })
	var containers sync.WaitGroup
	for i := range w.pod.Spec.Containers {
		c := &containerRun{
			worker: w, spec: &w.pod.Spec.Containers[i], state: w.states[i],
			policy: w.pod.Spec.RestartPolicy, mounts: mounts, kubeconfig: kubeconfig,
		}
		containers.Go(func() { c.loop(ctx) })
	}
	containers.Wait()
}

// prepare writes volumes and credentials, and tries again while something is missing, as
// the kubelet does.
func (w *podWorker) prepare(ctx context.Context) (mounts map[string]string, kubeconfig string, ok bool) {
	for {
		folders, kubeconfig, err := w.refresh(ctx)
		if err == nil {
			return folders, kubeconfig, true
		}
		if ctx.Err() != nil {
			return nil, "", false
		}
		w.setWaiting(append(w.inits, w.states...), "CreateContainerConfigError", err.Error())
		select {
		case <-ctx.Done():
			return nil, "", false
		case <-w.clock.After(retryInputs):
		}
	}
}

func (w *podWorker) refresh(ctx context.Context) (map[string]string, string, error) {
	ctx, cancel := context.WithTimeout(ctx, inputsTimeout)
	defer cancel()
	if err := os.MkdirAll(filepath.Join(w.inputs.dir, "tmp"), 0o700); err != nil {
		return nil, "", fmt.Errorf("making the pod's folder: %w", err)
	}
	folders, volumesErr := w.inputs.volumes(ctx)
	kubeconfig, tokenErr := w.inputs.kubeconfig(ctx)
	return folders, kubeconfig, errors.Join(volumesErr, tokenErr)
}

func (w *podWorker) renew(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.clock.After(renewEvery):
		}
		// What cannot be renewed now is tried again; what was written stays.
		if _, _, err := w.refresh(ctx); err != nil && !apierrors.IsNotFound(err) {
			continue
		}
	}
}

// stop ends the pod's processes and waits for them.
func (w *podWorker) stop() {
	w.cancel()
	<-w.done
}

func (w *podWorker) grace() time.Duration {
	if seconds := w.pod.DeletionGracePeriodSeconds; seconds != nil {
		return time.Duration(*seconds) * time.Second
	}
	if seconds := w.pod.Spec.TerminationGracePeriodSeconds; seconds != nil {
		return time.Duration(*seconds) * time.Second
	}
	return defaultGrace
}

func (w *podWorker) update(change func()) {
	w.mu.Lock()
	change()
	w.mu.Unlock()
	w.publish()
}

func (w *podWorker) setWaiting(states []*containerState, reason, message string) {
	w.update(func() {
		for _, state := range states {
			state.waiting = &corev1.ContainerStateWaiting{Reason: reason, Message: message}
		}
	})
}

// finish marks containers that will never start as ended.
func (w *podWorker) finish(states []*containerState) {
	now := metav1.NewTime(w.clock.Now())
	w.update(func() {
		for _, state := range states {
			if state.ended == nil {
				state.ended = &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "ContainerStatusUnknown", FinishedAt: now}
			}
		}
	})
}

// publish tells the pod controller the pod's status.
func (w *podWorker) publish() {
	if pod := w.snapshot(); pod != nil {
		w.notify(pod)
	}
}

func (w *podWorker) snapshot() *corev1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pod.Status = forgeStatus(podFacts{
		ip: w.inputs.ip, hostIP: w.inputs.hostIP, started: *w.pod.Status.StartTime, initialized: w.initial,
		containers: w.states, inits: w.inits, qos: w.pod.Status.QOSClass,
		previous: w.pod.Status.Conditions, now: metav1.NewTime(w.clock.Now()),
	})
	return w.pod.DeepCopy()
}

// containerRun runs one container again and again, as its restart policy says.
type containerRun struct {
	worker     *podWorker
	spec       *corev1.Container
	state      *containerState
	policy     corev1.RestartPolicy
	mounts     map[string]string
	kubeconfig string
}

// loop returns the last exit code.
func (c *containerRun) loop(ctx context.Context) int {
	w := c.worker
	var pause time.Duration
	for {
		begun := w.clock.Now()
		exit := c.once(ctx)
		if ctx.Err() != nil || !restartable(c.policy, exit) {
			return exit
		}
		pause = backoff(pause, w.clock.Since(begun))
		w.update(func() {
			c.state.last, c.state.ended = c.state.ended, nil
			c.state.waiting = &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: fmt.Sprintf("exit code %d, starting again in %s", exit, pause)}
		})
		select {
		case <-ctx.Done():
			w.finish([]*containerState{c.state})
			return exit
		case <-w.clock.After(pause):
		}
		w.update(func() { c.state.restarts++ })
	}
}

// once starts the container and waits for its end.
func (c *containerRun) once(ctx context.Context) int {
	w := c.worker
	p, err := c.start(ctx)
	for err != nil {
		w.setWaiting([]*containerState{c.state}, "CreateContainerError", err.Error())
		select {
		case <-ctx.Done():
			w.finish([]*containerState{c.state})
			return 137
		case <-w.clock.After(retryInputs):
		}
		p, err = c.start(ctx)
	}
	started := metav1.NewTime(w.clock.Now())
	w.update(func() {
		c.state.running, c.state.ready, c.state.started = true, c.spec.ReadinessProbe == nil, started
		c.state.waiting, c.state.ended, c.state.id = nil, nil, fmt.Sprintf("process://%d", p.cmd.Process.Pid)
	})
	probing, stopProbing := context.WithCancel(ctx)
	var probes sync.WaitGroup
	probes.Go(func() { c.probe(probing, p) })
	select {
	case <-p.done:
	case <-ctx.Done():
		c.terminate(p)
	}
	stopProbing()
	probes.Wait()
	reason := "Completed"
	if p.exit != 0 {
		reason = "Error"
	}
	w.update(func() {
		c.state.running, c.state.ready = false, false
		c.state.ended = &corev1.ContainerStateTerminated{
			ExitCode: int32(p.exit), Reason: reason, StartedAt: started, FinishedAt: metav1.NewTime(w.clock.Now()), ContainerID: c.state.id, //nolint:gosec // An exit code.
		}
	})
	return p.exit
}

func (c *containerRun) start(ctx context.Context) (*process, error) {
	w := c.worker
	program, err := w.options.program(c.spec)
	if err != nil {
		return nil, err
	}
	mounts := map[string]string{}
	for _, mount := range c.spec.VolumeMounts {
		mounts[mount.MountPath] = filepath.Join(c.mounts[mount.Name], mount.SubPath)
	}
	variables, err := w.inputs.environment(ctx, c.spec, c.kubeconfig, mounts)
	if err != nil {
		return nil, err
	}
	args := make([]string, 0, len(program.Args))
	for _, arg := range program.Args {
		args = append(args, remount(expand(arg, variables), mounts))
	}
	logFile := filepath.Join(w.options.LogDir, fmt.Sprintf("%s_%s_%s.log", w.pod.Namespace, w.pod.Name, c.spec.Name))
	return w.spawn.start(Program{Path: program.Path, Args: args}, environ(variables), w.inputs.dir, logFile)
}

// terminate ends a process politely and, after the grace period, for certain.
func (c *containerRun) terminate(p *process) {
	p.signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-c.worker.clock.After(c.worker.grace()):
		p.signal(syscall.SIGKILL)
		<-p.done
	}
}

// probe keeps the container's readiness, and ends it when it is no longer alive.
func (c *containerRun) probe(ctx context.Context, p *process) {
	w := c.worker
	failures := int32(0)
	for {
		interval := defaultProbing
		if c.spec.ReadinessProbe != nil {
			ready := probeOnce(ctx, c.spec.ReadinessProbe, c.spec, w.inputs.ip) == nil
			w.mu.Lock()
			changed := ready != c.state.ready
			w.mu.Unlock()
			if changed && ctx.Err() == nil {
				w.update(func() { c.state.ready = ready })
			}
			interval = period(c.spec.ReadinessProbe)
			if !ready {
				interval = readyProbing
			}
		}
		if live := c.spec.LivenessProbe; live != nil && c.state.ready {
			failures++
			if probeOnce(ctx, live, c.spec, w.inputs.ip) == nil {
				failures = 0
			}
			if failures >= max(live.FailureThreshold, 1) && ctx.Err() == nil {
				p.signal(syscall.SIGTERM)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-w.clock.After(interval):
		}
	}
}

func period(probe *corev1.Probe) time.Duration {
	return time.Duration(ptr.Deref(&probe.PeriodSeconds, 0)) * time.Second
}
