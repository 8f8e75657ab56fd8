package processnode

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
)

const (
	// retryInputs is how soon something that failed is tried again when nothing wakes us
	// before; a change of a ConfigMap or a Secret does.
	retryInputs   = 2 * time.Second
	inputsTimeout = 30 * time.Second
	defaultGrace  = 30 * time.Second
)

// podWorker runs one pod.
type podWorker struct {
	options *Options
	spawn   *spawner
	inputs  *inputs
	events  record.EventRecorder
	notify  func(*corev1.Pod)
	clock   clock.WithTicker
	sources map[object]bool
	// release gives the pod's address back; after is done when the address's and the
	// logs' user before this one is gone.
	release func()
	after   <-chan struct{}

	cancel context.CancelFunc
	done   chan struct{}
	// changed fires when a source or the pod's metadata changed, hurried when stopAt did.
	changed, hurried *wake

	// publishing keeps snapshots in order on their way out.
	publishing sync.Mutex
	mu         sync.Mutex
	pod        *corev1.Pod
	states     []*containerState
	inits      []*containerState
	initial    bool
	over       bool
	failure    error
	stopAt     time.Time
}

func newPodWorker(p *provider, pod *corev1.Pod, in *inputs, release func(), after <-chan struct{}) *podWorker {
	w := &podWorker{
		options: p.options, spawn: p.spawn, events: p.events, notify: p.publish, clock: p.options.Clock,
		inputs: in, sources: sources(&pod.Spec), release: release, after: after,
		done: make(chan struct{}), changed: newWake(), hurried: newWake(), pod: pod.DeepCopy(),
	}
	for i := range pod.Spec.Containers {
		w.states = append(w.states, newState(&pod.Spec.Containers[i], pod.Status.ContainerStatuses))
	}
	for i := range pod.Spec.InitContainers {
		w.inits = append(w.inits, newState(&pod.Spec.InitContainers[i], pod.Status.InitContainerStatuses))
	}
	if w.pod.Status.StartTime == nil {
		w.pod.Status.StartTime = &metav1.Time{Time: w.clock.Now()}
	}
	return w
}

// start runs the pod beside the caller; stop ends it.
func (w *podWorker) start(ctx context.Context) {
	ctx, w.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go w.run(ctx)
}

// run runs the pod until it ends or the context does, and then cleans up.
func (w *podWorker) run(ctx context.Context) {
	defer close(w.done)
	defer w.cancel()
	defer w.release()
	if w.after != nil {
		<-w.after
	}
	if err := unsupported(&w.pod.Spec); err != nil {
		w.events.Event(w.pod, corev1.EventTypeWarning, reasonPodUnsupported, err.Error())
		w.update(func() { w.failure = err })
		return
	}
	w.publish()
	w.containers(ctx)
	if err := os.RemoveAll(w.inputs.dir); err != nil {
		w.events.Event(w.pod, corev1.EventTypeWarning, "CleanUpFailed", err.Error())
	}
	w.update(func() { w.over = true })
}

// containers returns when no process of the pod is left.
func (w *podWorker) containers(ctx context.Context) {
	changed := w.changed.next()
	if !w.prepare(ctx) {
		return
	}
	following, stopFollowing := context.WithCancel(ctx)
	var follower sync.WaitGroup
	defer follower.Wait()
	defer stopFollowing()
	follower.Go(func() { w.follow(following, changed) })
	for i := range w.pod.Spec.InitContainers {
		policy := corev1.RestartPolicyOnFailure
		if w.pod.Spec.RestartPolicy == corev1.RestartPolicyNever {
			policy = corev1.RestartPolicyNever
		}
		c := &containerRun{worker: w, spec: &w.pod.Spec.InitContainers[i], state: w.inits[i], policy: policy}
		if exit := c.loop(ctx); exit != 0 || ctx.Err() != nil {
			return
		}
	}
	w.update(func() { w.initial = true })
	var running sync.WaitGroup
	for i := range w.pod.Spec.Containers {
		c := &containerRun{worker: w, spec: &w.pod.Spec.Containers[i], state: w.states[i], policy: w.pod.Spec.RestartPolicy}
		running.Go(func() { c.loop(ctx) })
	}
	running.Wait()
}

// prepare writes the volumes, and tries again while something is missing, as the kubelet
// does. It returns false when the pod is to end first.
func (w *podWorker) prepare(ctx context.Context) bool {
	for {
		changed := w.changed.next()
		err := w.refresh(ctx)
		if ctx.Err() != nil {
			return false
		}
		if err == nil {
			w.setWaiting(nil, "", "")
			return true
		}
		w.setWaiting(nil, reasonConfigError, err.Error())
		if !w.pause(ctx, changed, retryInputs) {
			return false
		}
	}
}

// follow keeps the volumes up to date and the tokens valid; changed has fired when
// something changed since they were written.
func (w *podWorker) follow(ctx context.Context, changed <-chan struct{}) {
	wait := w.inputs.untilRenewal()
	for {
		if !w.pause(ctx, changed, wait) {
			return
		}
		changed, wait = w.changed.next(), retryInputs
		if err := w.refresh(ctx); err == nil {
			wait = w.inputs.untilRenewal()
		} else if ctx.Err() == nil {
			// What was written stays; a person may wonder why it is old.
			w.events.Event(w.pod, corev1.EventTypeWarning, "FailedMount", err.Error())
		}
	}
}

func (w *podWorker) refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, inputsTimeout)
	defer cancel()
	return w.inputs.writeVolumes(ctx)
}

// pause waits for a time, or less when woken; false means that the pod is to end.
func (w *podWorker) pause(ctx context.Context, woken <-chan struct{}, atMost time.Duration) bool {
	timer := w.clock.NewTimer(atMost)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-woken:
	case <-timer.C():
	}
	return ctx.Err() == nil
}

// stop ends the pod's processes: politely, and after the grace period for certain. It
// may be called again; the shorter time counts. It waits for the end.
func (w *podWorker) stop(grace time.Duration) {
	at := w.clock.Now().Add(grace)
	w.mu.Lock()
	if w.stopAt.IsZero() || at.Before(w.stopAt) {
		w.stopAt = at
	}
	w.mu.Unlock()
	w.cancel()
	w.hurried.all()
	<-w.done
}

// graceOf is how long a pod's processes may take to end.
func graceOf(pod *corev1.Pod) time.Duration {
	if seconds := pod.DeletionGracePeriodSeconds; seconds != nil {
		return time.Duration(*seconds) * time.Second
	}
	if seconds := pod.Spec.TerminationGracePeriodSeconds; seconds != nil {
		return time.Duration(*seconds) * time.Second
	}
	return defaultGrace
}

// setMetadata takes over labels and annotations of a running pod.
func (w *podWorker) setMetadata(pod *corev1.Pod) {
	w.mu.Lock()
	w.pod.Labels, w.pod.Annotations, w.pod.Generation = pod.DeepCopy().Labels, pod.DeepCopy().Annotations, pod.Generation
	w.mu.Unlock()
	w.inputs.setMetadata(pod)
	w.changed.all()
	w.publish()
}

func (w *podWorker) update(change func()) {
	w.mu.Lock()
	change()
	w.mu.Unlock()
	w.publish()
}

// setWaiting sets the reason why a container, or each one if it is nil, does not run; an
// empty reason clears it.
func (w *podWorker) setWaiting(one *containerState, reason, message string) {
	w.update(func() {
		states := []*containerState{one}
		if one == nil {
			states = append(append(states[:0], w.inits...), w.states...)
		}
		for _, state := range states {
			state.waiting = nil
			if reason != "" {
				state.waiting = &corev1.ContainerStateWaiting{Reason: reason, Message: message}
			}
		}
	})
}

// publish sends the pod's status to the pod controller.
func (w *podWorker) publish() {
	w.publishing.Lock()
	defer w.publishing.Unlock()
	w.notify(w.snapshot())
}

func (w *podWorker) snapshot() *corev1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pod.Status = forgeStatus(podFacts{
		ip: w.inputs.ip, hostIP: w.inputs.hostIP, started: *w.pod.Status.StartTime, initialized: w.initial,
		containers: w.states, inits: w.inits, failure: w.failure, over: w.over,
		previous: w.pod.Status, generation: w.pod.Generation, now: metav1.NewTime(w.clock.Now()),
	})
	return w.pod.DeepCopy()
}

// holdUp is why a container cannot be started now, with the reason for its status.
type holdUp struct {
	reason string
	err    error
}

func (h *holdUp) Error() string { return h.err.Error() }
func (h *holdUp) Unwrap() error { return h.err }

func reasonOf(err error) string {
	var h *holdUp
	if errors.As(err, &h) {
		return h.reason
	}
	return reasonStartError
}

func processID(pid int) string { return fmt.Sprintf("process://%d", pid) }
