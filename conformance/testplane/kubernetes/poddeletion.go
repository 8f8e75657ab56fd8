package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// podDeletion ends the deletion of pods on simulated nodes, as a kubelet does: a pod that
// is being deleted goes. kwok's own stage for that is not used: it deletes by name, without
// the UID, and a moment too late it deletes the next pod of that name, alive.
type podDeletion struct {
	client kubernetes.Interface
	nodes  cache.Store
	queue  workqueue.TypedRateLimitingInterface[deletedPod]
}

// deletedPod identifies a pod that is being deleted.
type deletedPod struct{ namespace, name, uid string }

const (
	deletionRetry    = 50 * time.Millisecond
	deletionRetryMax = 5 * time.Second
	deletionWorkers  = 4
)

// startPodDeletion runs until the context ends, for the nodes that selector selects.
func startPodDeletion(ctx context.Context, client kubernetes.Interface, selector string) error {
	nodes := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.LabelSelector = selector
	}))
	pods := informers.NewSharedInformerFactory(client, 0)
	nodeInformer, podInformer := nodes.Core().V1().Nodes().Informer(), pods.Core().V1().Pods().Informer()
	d := &podDeletion{
		client: client,
		nodes:  nodeInformer.GetStore(),
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[deletedPod](deletionRetry, deletionRetryMax)),
	}
	_, podErr := podInformer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    d.enqueue,
		UpdateFunc: func(_, pod any) { d.enqueue(pod) },
	})
	// A pod may be seen before its node.
	_, nodeErr := nodeInformer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(any) {
		for _, pod := range podInformer.GetStore().List() {
			d.enqueue(pod)
		}
	}})
	if err := errors.Join(podErr, nodeErr); err != nil {
		return fmt.Errorf("watching pods and nodes: %w", err)
	}
	nodes.Start(ctx.Done())
	pods.Start(ctx.Done())
	go func() {
		<-ctx.Done()
		d.queue.ShutDown()
	}()
	for range deletionWorkers {
		go func() {
			for d.work(ctx) {
				continue
			}
		}()
	}
	return nil
}

// enqueue adds a pod that is being deleted on a simulated node. One whose grace period is 0
// is deleted by the API server itself.
func (d *podDeletion) enqueue(object any) {
	pod, ok := object.(*corev1.Pod)
	if !ok || pod.DeletionTimestamp == nil || pod.DeletionGracePeriodSeconds != nil && *pod.DeletionGracePeriodSeconds == 0 {
		return
	}
	if _, simulated, err := d.nodes.GetByKey(pod.Spec.NodeName); err == nil && simulated {
		d.queue.Add(deletedPod{namespace: pod.Namespace, name: pod.Name, uid: string(pod.UID)})
	}
}

// work ends the deletion of one pod; false means that the queue is shut down.
func (d *podDeletion) work(ctx context.Context) bool {
	pod, shutdown := d.queue.Get()
	if shutdown {
		return false
	}
	defer d.queue.Done(pod)
	options := metav1.NewDeleteOptions(0)
	options.Preconditions = metav1.NewUIDPreconditions(pod.uid)
	err := d.client.CoreV1().Pods(pod.namespace).Delete(ctx, pod.name, *options)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		d.queue.AddRateLimited(pod)
		return true
	}
	d.queue.Forget(pod)
	return true
}
