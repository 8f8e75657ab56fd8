package admin

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apitypes "k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// ClaimsLost says which claims lose their data when virtual nodes are deleted: with its last
// virtual node, a provider deletes the remote namespaces. It is empty if no claim does.
func (c *Cluster) ClaimsLost(ctx context.Context, provider liqocorev1beta1.ClusterID, leaving []*offloadingv1beta1.VirtualNode) (string, error) {
	if len(leaving) == 0 {
		return "", nil
	}
	nodes := &offloadingv1beta1.VirtualNodeList{}
	if err := c.List(ctx, nodes); err != nil {
		return "", fmt.Errorf("listing VirtualNodes: %w", err)
	}
	if stays(nodes.Items, provider, leaving) {
		return "", nil
	}
	claims := &corev1.PersistentVolumeClaimList{}
	if err := c.List(ctx, claims, client.MatchingLabels{offloadingv1beta1.StorageClusterLabel: string(provider)}); err != nil {
		return "", fmt.Errorf("listing the claims whose data cluster %q has: %w", provider, err)
	}
	return lossOfClaims(provider, claims.Items), nil
}

// stays reports whether a provider has another virtual node than those that are deleted.
func stays(all []offloadingv1beta1.VirtualNode, provider liqocorev1beta1.ClusterID, leaving []*offloadingv1beta1.VirtualNode) bool {
	gone := map[apitypes.UID]bool{}
	for _, vn := range leaving {
		gone[vn.UID] = true
	}
	return slices.ContainsFunc(all, func(vn offloadingv1beta1.VirtualNode) bool {
		return vn.Spec.ClusterID == provider && !gone[vn.UID] && vn.DeletionTimestamp.IsZero()
	})
}

// lossOfClaims names the claims whose data a provider has.
func lossOfClaims(provider liqocorev1beta1.ClusterID, claims []corev1.PersistentVolumeClaim) string {
	const named = 5
	var names []string
	for i := range claims {
		if claims[i].Labels[offloadingv1beta1.RemoteClaimLabel] == offloadingv1beta1.RemoteClaimCreated {
			names = append(names, claims[i].Namespace+"/"+claims[i].Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	more := ""
	if count := len(names); count > named {
		names, more = names[:named], fmt.Sprintf(" and %d more", count-named)
	}
	return fmt.Sprintf("With its last virtual node, cluster %q deletes the remote namespaces. These claims lose their data, unless its volumes are retained: %s%s.",
		provider, strings.Join(names, ", "), more)
}
