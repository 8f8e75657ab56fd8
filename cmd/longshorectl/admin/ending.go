package admin

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apitypes "k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/plaintext"
	"github.com/longshore-dev/longshore/host/kit/podend"
)

// Ending says what ends when virtual nodes are deleted: pods that no controller creates again and, with the
// last virtual node of a provider, the remote namespaces and the data of claims. It is empty if nothing does.
func (c *Cluster) Ending(ctx context.Context, provider liqocorev1beta1.ClusterID, leaving []*offloadingv1beta1.VirtualNode) (string, error) {
	if len(leaving) == 0 {
		return "", nil
	}
	nodes := &offloadingv1beta1.VirtualNodeList{}
	if err := c.List(ctx, nodes); err != nil {
		return "", fmt.Errorf("listing VirtualNodes: %w", err)
	}
	pods, err := c.podsWithoutController(ctx, leaving)
	if err != nil {
		return "", err
	}
	if stays(nodes.Items, provider, leaving) {
		return sentences(pods), nil
	}
	mappings := &offloadingv1beta1.NamespaceMapList{}
	if err := c.List(ctx, mappings, client.MatchingLabels{liqocorev1beta1.RemoteIDLabel: string(provider), liqocorev1beta1.ReplicationLabel: "true"}); err != nil {
		return "", fmt.Errorf("listing the NamespaceMaps of cluster %q: %w", provider, err)
	}
	claims := &corev1.PersistentVolumeClaimList{}
	if err := c.List(ctx, claims, client.MatchingLabels{offloadingv1beta1.StorageClusterLabel: string(provider)}); err != nil {
		return "", fmt.Errorf("listing the claims whose data cluster %q has: %w", provider, err)
	}
	var namespaces []string
	for i := range mappings.Items {
		namespaces = slices.AppendSeq(namespaces, maps.Keys(mappings.Items[i].Status.CurrentMapping))
	}
	return sentences(
		listed(fmt.Sprintf("With its last virtual node, cluster %q deletes the remote namespaces of", provider), namespaces), pods,
		listed("These claims lose their data, unless the volumes are retained", withData(claims.Items)),
	), nil
}

// podsWithoutController names the pods of virtual nodes that no controller creates again.
func (c *Cluster) podsWithoutController(ctx context.Context, leaving []*offloadingv1beta1.VirtualNode) (string, error) {
	var names []string
	for _, vn := range leaving {
		pods := &corev1.PodList{}
		if err := c.List(ctx, pods, client.MatchingFields{"spec.nodeName": vn.Name}); err != nil {
			return "", fmt.Errorf("listing the pods of virtual node %q: %w", vn.Name, err)
		}
		for i := range pods.Items {
			if pod := &pods.Items[i]; metav1.GetControllerOf(pod) == nil && !podend.IsTerminal(pod.Status.Phase) {
				names = append(names, pod.Namespace+"/"+pod.Name)
			}
		}
	}
	return listed("These pods have no controller, which would create them again", names), nil
}

// EndingWithTenant says what a provider deletes with the offloaded namespaces of a consumer.
func (c *Cluster) EndingWithTenant(ctx context.Context, consumer liqocorev1beta1.ClusterID) (string, error) {
	copies := client.MatchingLabels{liqocorev1beta1.ReplicatedLabel: "true", liqocorev1beta1.OriginIDLabel: string(consumer)}
	mappings := &offloadingv1beta1.NamespaceMapList{}
	if err := c.List(ctx, mappings, copies); err != nil {
		return "", fmt.Errorf("listing the NamespaceMaps of cluster %q: %w", consumer, err)
	}
	shadows := &offloadingv1beta1.ShadowPodList{}
	if err := c.List(ctx, shadows, client.MatchingLabels{offloadingv1beta1.OriginLabel: string(consumer)}); err != nil {
		return "", fmt.Errorf("listing the ShadowPods of cluster %q: %w", consumer, err)
	}
	var namespaces, pods, claims []string
	for i := range mappings.Items {
		for _, mapping := range mappings.Items[i].Status.CurrentMapping {
			namespaces = append(namespaces, mapping.RemoteNamespace)
		}
	}
	for i := range shadows.Items {
		pods = append(pods, shadows.Items[i].Namespace+"/"+shadows.Items[i].Name)
	}
	for _, namespace := range namespaces {
		list := &corev1.PersistentVolumeClaimList{}
		if err := c.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return "", fmt.Errorf("listing the claims of namespace %q: %w", namespace, err)
		}
		for i := range list.Items {
			claims = append(claims, namespace+"/"+list.Items[i].Name)
		}
	}
	return sentences(
		fmt.Sprintf("This deletes the offloaded namespaces of cluster %s, with all that is in them.", consumer),
		listed("Namespaces", namespaces), listed("Pods", pods), listed("Claims, which lose their data unless the volumes are retained", claims),
	), nil
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

// withData names the claims whose data a provider has.
func withData(claims []corev1.PersistentVolumeClaim) []string {
	var names []string
	for i := range claims {
		if claims[i].Labels[offloadingv1beta1.RemoteClaimLabel] == offloadingv1beta1.RemoteClaimCreated {
			names = append(names, claims[i].Namespace+"/"+claims[i].Name)
		}
	}
	return names
}

// listed returns a sentence with the first names and the number of the others; empty without names.
func listed(what string, names []string) string {
	const named = 5
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return what + ": " + plaintext.Names(names, named) + "."
}

// sentences joins those that are not empty, each in a line.
func sentences(all ...string) string {
	return strings.Join(slices.DeleteFunc(all, func(s string) bool { return s == "" }), "\n")
}
