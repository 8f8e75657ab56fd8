package shadowpod

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/address"
)

// apiServerHost is the name under which pods of consumers reach their API server.
const apiServerHost = "kubernetes.default"

// translateHostAliases translates the addresses of the consumer's API server in a pod that is not
// created yet. Other aliases are the user's own.
func (r *Reconciler) translateHostAliases(ctx context.Context, shadow *offloadingv1beta1.ShadowPod, pod *corev1.Pod) error {
	aliases := pod.Spec.HostAliases
	isAPIServer := func(alias corev1.HostAlias) bool { return slices.Contains(alias.Hostnames, apiServerHost) }
	if !slices.ContainsFunc(aliases, isAPIServer) {
		return nil
	}
	addresses, err := address.Load(ctx, r.Client, liqocorev1beta1.ClusterID(shadow.Labels[offloadingv1beta1.OriginLabel]))
	if err != nil {
		return fmt.Errorf("translating the address of the consumer's API server: %w", err)
	}
	for i := range aliases {
		if !isAPIServer(aliases[i]) {
			continue
		}
		if aliases[i].IP, err = addresses.Translate(aliases[i].IP); err != nil {
			return fmt.Errorf("translating the address of the consumer's API server: %w", err)
		}
	}
	return nil
}
