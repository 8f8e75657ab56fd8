package namespacemap

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kitevents "github.com/longshore-dev/longshore/host/kit/events"
)

// holds are the conditions of a namespace whose deletion does not go on without an administrator.
var holds = []corev1.NamespaceConditionType{
	corev1.NamespaceFinalizersRemaining, corev1.NamespaceDeletionDiscoveryFailure, corev1.NamespaceDeletionContentFailure, corev1.NamespaceDeletionGVParsingFailure,
}

// longGrace is the grace period, in seconds, from which on an administrator may want to end a pod.
const longGrace = 600

// heldBy returns what keeps a namespace from being deleted, for the administrators of both clusters; empty if it
// is gone, or nothing keeps it.
func (p *pass) heldBy(ctx context.Context, remote string) (string, error) {
	namespace, pods := &corev1.Namespace{}, &corev1.PodList{}
	err := p.r.Client.Get(ctx, client.ObjectKey{Name: remote}, namespace)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return "", fmt.Errorf("reading namespace %q: %w", remote, err)
	case err != nil || namespace.DeletionTimestamp.IsZero():
		return "", nil
	}
	if err := p.r.Client.List(ctx, pods, client.InNamespace(remote)); err != nil {
		return "", fmt.Errorf("listing the pods of namespace %q: %w", remote, err)
	}
	return kitevents.Cut(heldBy(namespace, pods.Items), maxMessage), nil
}

// heldBy is heldBy for what was read. Kubernetes' conditions name no pods.
func heldBy(namespace *corev1.Namespace, pods []corev1.Pod) string {
	var held []string
	if len(namespace.Finalizers) > 0 {
		held = append(held, "The namespace has the finalizers "+strings.Join(namespace.Finalizers, ", "))
	}
	for _, c := range namespace.Status.Conditions {
		if c.Status == corev1.ConditionTrue && slices.Contains(holds, c.Type) {
			held = append(held, c.Message)
		}
	}
	for i := range pods {
		pod := &pods[i]
		switch {
		case pod.DeletionTimestamp.IsZero():
		case len(pod.Finalizers) > 0:
			held = append(held, fmt.Sprintf("Pod %s has the finalizers %s", pod.Name, strings.Join(pod.Finalizers, ", ")))
		case ptr.Deref(pod.DeletionGracePeriodSeconds, 0) > longGrace:
			held = append(held, fmt.Sprintf("Pod %s may end as late as %s", pod.Name, pod.DeletionTimestamp.UTC().Format(time.RFC3339)))
		}
	}
	return strings.Join(held, ". ")
}
