// Package status is longshorectl status and info: what is wrong and who must act, what is
// peered, granted and used.
package status

import (
	"context"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/cmd/longshorectl/admin"
	"github.com/longshore-dev/longshore/cmd/longshorectl/resourceslice"
	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
)

// snapshot are the objects of a cluster from which a report is made.
type snapshot struct {
	id              liqocorev1beta1.ClusterID
	host, namespace string

	deployments     appsv1.DeploymentList
	foreignClusters liqocorev1beta1.ForeignClusterList
	tenants         authv1beta1.TenantList
	identities      authv1beta1.IdentityList
	slices          authv1beta1.ResourceSliceList
	virtualNodes    offloadingv1beta1.VirtualNodeList
	offloadings     offloadingv1beta1.NamespaceOffloadingList
	namespaceMaps   offloadingv1beta1.NamespaceMapList
	shadowPods      offloadingv1beta1.ShadowPodList
	quotas          offloadingv1beta1.QuotaList
	nodes           corev1.NodeList
	// reflections are empty in a cluster without that kind.
	reflections policyv1alpha1.ResourceReflectionList
	// lostClaims are those whose volume a provider does not have any more.
	lostClaims corev1.PersistentVolumeClaimList
	// realNodes are the Nodes of a cluster that grants resources.
	realNodes corev1.NodeList
	// pods are those on virtual nodes.
	pods []corev1.Pod
}

// read reads all of them.
func read(ctx context.Context, c *admin.Cluster) (*snapshot, error) {
	s := &snapshot{id: c.ID, host: c.Host, namespace: c.Namespace}
	err := errors.Join(
		c.List(ctx, &s.deployments, client.InNamespace(c.Namespace)),
		c.List(ctx, &s.foreignClusters), c.List(ctx, &s.tenants), c.List(ctx, &s.identities), c.List(ctx, &s.slices),
		c.List(ctx, &s.virtualNodes), c.List(ctx, &s.offloadings), c.List(ctx, &s.namespaceMaps), c.List(ctx, &s.shadowPods), c.List(ctx, &s.quotas),
		c.List(ctx, &s.nodes, client.MatchingLabels{offloadingv1beta1.NodeTypeLabel: offloadingv1beta1.NodeTypeVirtual}),
		c.List(ctx, &s.lostClaims, client.MatchingLabels{offloadingv1beta1.RemoteClaimLabel: offloadingv1beta1.RemoteClaimLost}),
	)
	if listErr := c.List(ctx, &s.reflections); !meta.IsNoMatchError(listErr) {
		err = errors.Join(err, listErr)
	}
	if slices.ContainsFunc(s.slices.Items, func(slice authv1beta1.ResourceSlice) bool { return resourceslice.IsCopy(&slice) }) {
		isReal, selectorErr := labels.NewRequirement(offloadingv1beta1.NodeTypeLabel, selection.NotEquals, []string{offloadingv1beta1.NodeTypeVirtual})
		if selectorErr != nil {
			return nil, fmt.Errorf("selecting the Nodes of the cluster: %w", selectorErr)
		}
		err = errors.Join(err, c.List(ctx, &s.realNodes, client.MatchingLabelsSelector{Selector: labels.NewSelector().Add(*isReal)}))
	}
	for i := range s.virtualNodes.Items {
		pods := &corev1.PodList{}
		err = errors.Join(err, c.List(ctx, pods, client.MatchingFields{"spec.nodeName": s.virtualNodes.Items[i].Name}))
		s.pods = append(s.pods, pods.Items...)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the state of the cluster at %s: %w", c.Host, err)
	}
	return s, nil
}
