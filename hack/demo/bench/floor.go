package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane"
	"github.com/longshore-dev/longshore/hack/demo/rig"
)

const (
	// floorNamespace of the consumer is not offloaded: its pods run on floorNode, which kwok
	// simulates and nothing else tolerates.
	floorNamespace = "bench-floor"
	floorNode      = "bench-floor"
	floorTaint     = "longshore.dev/bench-floor"

	floorNote = "the least that two clusters need: the same Deployments on a node that kwok simulates in the consumer and, at the same time, " +
		"the plain client's ShadowPods in the provider, 10 requests under way"
	floorRemovedNote = "the plain client's ShadowPods, and after them the Deployments on the consumer's simulated node"
)

// prepareFloor makes the consumer's node and namespace of the floor.
func (w *testbed) prepareFloor(ctx context.Context) error {
	node := testplane.FakeNode(floorNode, rig.Capacity("500", "1000Gi", podsPerNode))
	node.Spec.Taints = []corev1.Taint{{Key: floorTaint, Effect: corev1.TaintEffectNoSchedule}}
	if err := client.IgnoreAlreadyExists(w.rome.Create(ctx, node)); err != nil {
		return fmt.Errorf("creating node %q: %w", floorNode, err)
	}
	if err := w.rig.Rome.Plane.StartKwok(ctx, testplane.KwokOptions{}); err != nil {
		return fmt.Errorf("simulating node %q: %w", floorNode, err)
	}
	return w.rome.Apply(ctx, namespaceObject(floorNamespace))
}

// floorDeployments are the load's Deployments, on the consumer's simulated node.
func floorDeployments(pods int) []*appsv1.Deployment {
	all := deployments(pods)
	for _, deployment := range all {
		deployment.Namespace = floorNamespace
		spec := &deployment.Spec.Template.Spec
		spec.NodeSelector = map[string]string{corev1.LabelHostname: floorNode}
		spec.Tolerations = []corev1.Toleration{{Key: floorTaint, Operator: corev1.TolerationOpExists}}
	}
	return all
}

// floorBurst runs the Deployments in the consumer and the plain client in the provider at
// the same time.
func (b *bench) floorBurst(ctx context.Context) (cost burstCost, err error) {
	w := b.testbed
	watching, stopWatching := context.WithCancel(ctx)
	defer stopWatching()
	local, err := w.rome.watchPods(watching, floorNamespace)
	if err != nil {
		return burstCost{}, err
	}
	b.logf("burst: %d pods without Longshore in both clusters", b.pods)
	var last time.Time
	begin := time.Now()
	group, running := errgroup.WithContext(ctx)
	group.Go(func() (err error) { cost.burstTimes, err = w.plainLoad(running, b.pods); return err })
	group.Go(func() (err error) {
		if err = w.createDeployments(running, floorDeployments(b.pods)); err == nil {
			last, err = local.running.wait(running, b.pods)
		}
		return err
	})
	if err := group.Wait(); err != nil {
		return burstCost{}, fmt.Errorf("burst without Longshore: %w", err)
	}
	cost.running = max(cost.running, last.Sub(begin).Seconds())
	stopWatching()
	b.logf("burst: without Longshore: running in both clusters %.1fs", cost.running)
	err = b.remove(ctx, &cost, func(ctx context.Context) error {
		if err := w.removePlain(ctx, b.pods); err != nil {
			return err
		}
		return w.removeFloor(ctx)
	})
	return cost, err
}

// removeFloor deletes the floor's Deployments and waits until their pods are gone.
func (w *testbed) removeFloor(ctx context.Context) error {
	background := metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}
	if err := w.rome.client.AppsV1().Deployments(floorNamespace).DeleteCollection(ctx, background, metav1.ListOptions{}); err != nil {
		return fmt.Errorf("deleting the Deployments in %q: %w", floorNamespace, err)
	}
	return w.rome.waitEmpty(ctx, floorNamespace)
}
