package namespacemap

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kitevents "github.com/longshore-dev/longshore/host/kit/events"
)

// holds are the conditions of a namespace whose deletion does not go on without an administrator.
var holds = []corev1.NamespaceConditionType{
	corev1.NamespaceFinalizersRemaining, corev1.NamespaceDeletionDiscoveryFailure, corev1.NamespaceDeletionContentFailure, corev1.NamespaceDeletionGVParsingFailure,
}

// heldBy reads a namespace and returns what keeps it from being deleted; empty if it is gone.
func (p *pass) heldBy(ctx context.Context, remote string) (string, error) {
	namespace := &corev1.Namespace{}
	if err := p.r.Client.Get(ctx, client.ObjectKey{Name: remote}, namespace); client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("reading namespace %q: %w", remote, err)
	}
	return kitevents.Cut(heldBy(namespace), maxMessage), nil
}

// heldBy returns what keeps a namespace that is being deleted, for the administrators of both clusters; empty
// if nothing does.
func heldBy(namespace *corev1.Namespace) string {
	if namespace.DeletionTimestamp.IsZero() {
		return ""
	}
	var held []string
	if len(namespace.Finalizers) > 0 {
		held = append(held, "The namespace has the finalizers "+strings.Join(namespace.Finalizers, ", "))
	}
	for _, c := range namespace.Status.Conditions {
		if c.Status == corev1.ConditionTrue && slices.Contains(holds, c.Type) {
			held = append(held, c.Message)
		}
	}
	return strings.Join(held, ". ")
}
