package rig

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// Progress is called with what a step is waiting for.
type Progress func(string)

// WaitForDeployments waits until every replica of the namespace's Deployments is available.
func (c *Cluster) WaitForDeployments(ctx context.Context, namespace string, progress Progress) error {
	var waiting []string
	err := c.eventually(ctx, func(ctx context.Context) (bool, error) {
		list := &appsv1.DeploymentList{}
		if err := c.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return false, err
		}
		waiting = waiting[:0]
		for i := range list.Items {
			d := &list.Items[i]
			want := int32(1)
			if d.Spec.Replicas != nil {
				want = *d.Spec.Replicas
			}
			if d.Status.ObservedGeneration < d.Generation || d.Status.AvailableReplicas < want || d.Status.UpdatedReplicas < want {
				waiting = append(waiting, d.Name)
			}
		}
		slices.Sort(waiting)
		progress("waiting for " + strings.Join(waiting, ", "))
		return len(list.Items) > 0 && len(waiting) == 0, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for Deployments %v in namespace %q of cluster %q: %w", waiting, namespace, c.Name, err)
	}
	return nil
}

// WaitForNode waits until the node is ready.
func (c *Cluster) WaitForNode(ctx context.Context, name string, progress Progress) error {
	reason := "it does not exist"
	err := c.eventually(ctx, func(ctx context.Context) (bool, error) {
		node := &corev1.Node{}
		if err := c.Get(ctx, client.ObjectKey{Name: name}, node); client.IgnoreNotFound(err) != nil {
			return false, err
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady {
				reason = condition.Reason
				progress("node " + name + ": " + reason)
				return condition.Status == corev1.ConditionTrue, nil
			}
		}
		return false, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for node %q of cluster %q (%s): %w", name, c.Name, reason, err)
	}
	return nil
}

// Offload makes the namespace and its NamespaceOffloading, and waits until every
// selected provider has made the remote namespace.
func (c *Cluster) Offload(ctx context.Context, namespace string, strategy offloadingv1beta1.PodOffloadingStrategyType, progress Progress) error {
	nso := &offloadingv1beta1.NamespaceOffloading{}
	nso.APIVersion, nso.Kind = offloadingv1beta1.GroupVersion.String(), "NamespaceOffloading"
	nso.Name, nso.Namespace = offloadingv1beta1.NamespaceOffloadingName, namespace
	nso.Spec.NamespaceMappingStrategy = offloadingv1beta1.DefaultNameMappingStrategyType
	nso.Spec.PodOffloadingStrategy = strategy
	nso.Spec.ClusterSelector.NodeSelectorTerms = []corev1.NodeSelectorTerm{}
	ns := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": namespace}}}
	if err := c.Apply(ctx, ns, nso); err != nil {
		return err
	}
	phase := "no phase yet"
	err := c.eventually(ctx, func(ctx context.Context) (bool, error) {
		current := &offloadingv1beta1.NamespaceOffloading{}
		if err := c.Get(ctx, client.ObjectKeyFromObject(nso), current); err != nil {
			return false, err
		}
		phase = string(current.Status.OffloadingPhase)
		progress("offloading phase: " + phase)
		return current.Status.OffloadingPhase == offloadingv1beta1.ReadyOffloadingPhaseType &&
			current.Status.ObservedGeneration == current.Generation, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for namespace %q to be offloaded (phase %q): %w", namespace, phase, err)
	}
	return nil
}

// WaitForPods waits until the namespace has at least want pods and all of them are
// ready, terminating ones excepted. The error describes each pod that is not ready, with its
// status and its last event.
func (c *Cluster) WaitForPods(ctx context.Context, namespace string, want int, progress Progress) error {
	total := 0
	var unready []*corev1.Pod
	summary := func() string { return fmt.Sprintf("%d of %d pods ready", total-len(unready), max(total, want)) }
	err := c.eventually(ctx, func(ctx context.Context) (bool, error) {
		list := &corev1.PodList{}
		if err := c.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return false, err
		}
		total, unready = 0, nil
		for i := range list.Items {
			if !list.Items[i].DeletionTimestamp.IsZero() {
				continue
			}
			total++
			if !podReady(&list.Items[i]) {
				unready = append(unready, &list.Items[i])
			}
		}
		detail := summary()
		for _, pod := range unready {
			detail += "; " + trouble(pod)
		}
		progress(detail)
		return total >= want && len(unready) == 0, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the pods of namespace %q in cluster %q: %s:%s\n%w",
			namespace, c.Name, summary(), c.explain(ctx, namespace, unready, want-total), err)
	}
	return nil
}

func podReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}
