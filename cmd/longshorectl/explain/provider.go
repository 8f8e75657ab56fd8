package explain

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/longshore-dev/longshore/cmd/longshorectl/cluster"
	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
)

// clusterID returns the ID of a cluster, or "" if the user may not read it or Longshore is not installed there.
func clusterID(ctx context.Context, c *cluster.Cluster) string {
	id := ""
	options := metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + liqocorev1beta1.ClusterIDConfigMapLabelValue}
	err := cluster.Select(ctx, c, core("configmaps"), "", options, func(found *corev1.ConfigMap) { id = found.Data[liqocorev1beta1.ClusterIDConfigMapKey] })
	if err != nil {
		return ""
	}
	return id
}

// checkProvider returns an error if a cluster is not the provider of an object. IDs that are not known are empty.
func checkProvider(home, there, provider string) error {
	switch {
	case there == "" || there == provider:
		return nil
	case provider != "":
		return output.Usagef("--remote-kubeconfig or --remote-context is of cluster %q, not of %q, in which the pod is", there, provider)
	case there == home:
		return output.Usagef("--remote-kubeconfig or --remote-context is of cluster %q itself, not of its provider", there)
	default:
		return nil
	}
}
