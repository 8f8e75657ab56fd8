package shadowpod

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/host/forge/provider"
	"github.com/longshore-dev/longshore/host/kit/quantity"
)

// forbiddenError is the error for a pod that the provider's security level forbids.
type forbiddenError struct{ reason string }

// Error implements error.
func (e *forbiddenError) Error() string { return e.reason }

// checkSecurity returns a [forbiddenError] when the security level of the namespace forbids the
// pod, and for amounts that are out of bounds. A namespace that is not in the cache has the default level.
func (r *Reconciler) checkSecurity(ctx context.Context, pod *corev1.Pod) error {
	// The webhook refuses such a ShadowPod, but may not have been there when it was created.
	if err := quantity.CheckAll(&pod.Spec); err != nil {
		return &forbiddenError{reason: "spec." + err.Error()}
	}
	namespace := &corev1.Namespace{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: pod.Namespace}, namespace); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the Pod Security level of namespace %q: %w", pod.Namespace, err)
	}
	reason, err := provider.SecurityViolation(r.SecurityLevel, namespace.Labels, pod)
	if err != nil {
		return err
	}
	if reason != "" {
		return &forbiddenError{reason: reason}
	}
	return nil
}
