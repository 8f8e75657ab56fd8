package handshake

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/cmd/longshorectl/admin"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
)

// Prepare makes a cluster ready for a peering with another one, which is not lost then, and returns
// the name of the tenant namespace.
func Prepare(ctx context.Context, c *admin.Cluster, peer liqocorev1beta1.ClusterID) (string, error) {
	if err := undoLost(ctx, c, peer); err != nil {
		return "", err
	}
	return c.EnsureTenantNamespace(ctx, peer)
}

// undoLost removes the mark of longshorectl force unpeer from the ForeignClusters of a peer: with it,
// each outage of the peer would count as its end. A peering user may not read ForeignClusters, and need
// not: the mark matters to a consumer, and such a user is one of the provider.
func undoLost(ctx context.Context, c *admin.Cluster, peer liqocorev1beta1.ClusterID) error {
	list := &liqocorev1beta1.ForeignClusterList{}
	if err := c.List(ctx, list); apierrors.IsForbidden(err) {
		return nil
	} else if err != nil {
		return fmt.Errorf("listing the ForeignClusters of the %s: %w", c.Role, err)
	}
	for i := range list.Items {
		fc := &list.Items[i]
		if _, isMarked := fc.Annotations[liqocorev1beta1.PermanentlyUnreachableAnnotation]; !isMarked || fc.Spec.ClusterID != peer {
			continue
		}
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
			"annotations": map[string]any{liqocorev1beta1.PermanentlyUnreachableAnnotation: nil},
		}})
		if err == nil {
			err = c.Patch(ctx, fc, client.RawPatch(types.MergePatchType, patch))
		}
		if err != nil {
			return fmt.Errorf("removing the annotation %s from ForeignCluster %s of the %s: %w", liqocorev1beta1.PermanentlyUnreachableAnnotation, fc.Name, c.Role, err)
		}
	}
	return nil
}
