package processnode

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"

	"github.com/virtual-kubelet/virtual-kubelet/errdefs"
	"github.com/virtual-kubelet/virtual-kubelet/log"
	"github.com/virtual-kubelet/virtual-kubelet/node"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
)

// provider runs pods for virtual-kubelet's pod controller.
type provider struct {
	options *Options
	client  kubernetes.Interface
	config  *rest.Config
	spawn   *spawner
	events  record.EventRecorder
	lister  corev1listers.PodLister
	hostIP  string

	mu      sync.Mutex
	pods    map[string]*podWorker
	notify  func(*corev1.Pod)
	closing bool
}

var (
	_ node.PodLifecycleHandler = (*provider)(nil)
	_ node.PodNotifier         = (*provider)(nil)
)

func key(namespace, name string) string { return namespace + "/" + name }

// NotifyPods implements node.PodNotifier.
func (p *provider) NotifyPods(_ context.Context, notify func(*corev1.Pod)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.notify = notify
}

// publish passes a pod's status on. A node that stops is silent: like those of a kubelet
// that stops, its pods are not over, and no controller shall replace them.
func (p *provider) publish(pod *corev1.Pod) {
	p.mu.Lock()
	notify := p.notify
	if p.closing {
		notify = nil
	}
	p.mu.Unlock()
	if notify != nil {
		notify(pod)
	}
}

// CreatePod implements node.PodLifecycleHandler.
func (p *provider) CreatePod(ctx context.Context, pod *corev1.Pod) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closing {
		// The next node of this name finds the pod.
		return nil
	}
	var after <-chan struct{}
	if old, ok := p.pods[key(pod.Namespace, pod.Name)]; ok {
		if old.pod.UID == pod.UID {
			return nil
		}
		// The one before of the same name was removed by force.
		after = old.done
		go old.stop(graceOf(old.pod))
	}
	ip, release, err := p.options.Address()
	if err != nil {
		return fmt.Errorf("finding an address for pod %s: %w", key(pod.Namespace, pod.Name), err)
	}
	in := newInputs(p, pod, filepath.Join(p.options.Dir, string(pod.UID)), ip)
	w := newPodWorker(p, pod, in, release, after)
	p.pods[key(pod.Namespace, pod.Name)] = w
	w.start(ctx)
	return nil
}

// UpdatePod implements node.PodLifecycleHandler. Of a running pod its labels and
// annotations can change, which the downward API shows; of its processes nothing.
func (p *provider) UpdatePod(_ context.Context, pod *corev1.Pod) error {
	if w := p.find(pod.Namespace, pod.Name); w != nil {
		w.setMetadata(pod)
	}
	return nil
}

// DeletePod implements node.PodLifecycleHandler. It may be called again with a shorter
// grace period.
func (p *provider) DeletePod(ctx context.Context, pod *corev1.Pod) error {
	name := key(pod.Namespace, pod.Name)
	w := p.find(pod.Namespace, pod.Name)
	if w == nil {
		return errdefs.NotFoundf("pod %s does not run here", name)
	}
	go p.withdraw(context.WithoutCancel(ctx), w, pod)
	return nil
}

// withdraw ends a pod's processes and then the pod itself, as a kubelet does: the library
// would only delete it when the whole grace period is over.
func (p *provider) withdraw(ctx context.Context, w *podWorker, pod *corev1.Pod) {
	w.stop(graceOf(pod))
	name := key(pod.Namespace, pod.Name)
	p.mu.Lock()
	if p.pods[name] == w {
		delete(p.pods, name)
	}
	p.mu.Unlock()
	now := int64(0)
	err := p.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &pod.UID},
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		// The library tries again at the end of the grace period.
		log.G(ctx).WithError(err).Warnf("deleting pod %s", name)
	}
}

func (p *provider) find(namespace, name string) *podWorker {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pods[key(namespace, name)]
}

// GetPod implements node.PodLifecycleHandler. A pod that was replaced by another of the
// same name is not found, so that the other one is created.
func (p *provider) GetPod(_ context.Context, namespace, name string) (*corev1.Pod, error) {
	w := p.find(namespace, name)
	if w != nil {
		current, err := p.lister.Pods(namespace).Get(name)
		if err != nil || current.UID == w.pod.UID {
			return w.snapshot(), nil
		}
	}
	return nil, errdefs.NotFoundf("pod %s does not run here", key(namespace, name))
}

// GetPodStatus implements node.PodLifecycleHandler.
func (p *provider) GetPodStatus(ctx context.Context, namespace, name string) (*corev1.PodStatus, error) {
	pod, err := p.GetPod(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	return &pod.Status, nil
}

// GetPods implements node.PodLifecycleHandler.
func (p *provider) GetPods(context.Context) ([]*corev1.Pod, error) {
	workers := p.workers()
	pods := make([]*corev1.Pod, 0, len(workers))
	for _, w := range workers {
		pods = append(pods, w.snapshot())
	}
	return pods, nil
}

func (p *provider) workers() []*podWorker {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Values(p.pods))
}

// sourceChanged wakes the pods that read a ConfigMap or a Secret.
func (p *provider) sourceChanged(kind string) cache.ResourceEventHandler {
	wake := func(obj any) {
		namespace, name, err := cache.SplitMetaNamespaceKey(keyOfObject(obj))
		if err != nil {
			return
		}
		for _, w := range p.workers() {
			if w.pod.Namespace == namespace && w.sources[object{kind, name}] {
				w.changed.all()
			}
		}
	}
	return cache.ResourceEventHandlerFuncs{AddFunc: wake, UpdateFunc: func(_, obj any) { wake(obj) }, DeleteFunc: wake}
}

func keyOfObject(obj any) string {
	name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		// Informers give objects, or tombstones with a key.
		return ""
	}
	return name
}

// stopAll ends every process, all at once, and waits.
func (p *provider) stopAll() {
	p.mu.Lock()
	p.closing = true
	p.mu.Unlock()
	var stopping sync.WaitGroup
	for _, w := range p.workers() {
		stopping.Go(func() { w.stop(min(graceOf(w.pod), stopGrace)) })
	}
	stopping.Wait()
}
