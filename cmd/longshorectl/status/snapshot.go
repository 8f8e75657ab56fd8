// Package status is longshorectl status and info: what is wrong and who must act, what is
// peered, granted and used.
package status

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	// claims are those whose data a provider has, or had.
	claims   corev1.PersistentVolumeClaimList
	policies policyv1alpha1.OffloadingPolicyList
	// realNodes are the Nodes of a cluster that grants resources.
	realNodes corev1.NodeList
	// pods are those on virtual nodes, and those that no node has taken yet.
	pods []corev1.Pod
	// warnings are events that say what a peer sends and what is not used of it.
	warnings []corev1.Event
	// now is when all this was read.
	now time.Time
	// unread are the resources that the user may not read. Nothing is wrong with them.
	unread []string
	// broken are the errors of the resources that cannot be read, although the user may, by their names.
	broken map[string]error
}

// isKnown reports whether a resource was read.
func (s *snapshot) isKnown(resource string) bool {
	return !slices.Contains(s.unread, resource) && s.broken[resource] == nil
}

// The names of the resources without which others say too little.
const (
	resourceNodes        = "nodes"
	resourceVirtualNodes = "virtualnodes"
	resourceOffloadings  = "namespaceoffloadings"
	resourceTenants      = "tenants"
)

// listing is a list that is part of a snapshot.
type listing struct {
	resource string
	list     client.ObjectList
	options  []client.ListOption
}

// read reads all of them. It fails if the API server does not answer.
func read(ctx context.Context, c *admin.Cluster, now time.Time) (*snapshot, error) {
	s := &snapshot{id: c.ID, host: c.Host, namespace: c.Namespace, now: now, broken: map[string]error{}}
	for _, l := range []listing{
		{"deployments", &s.deployments, []client.ListOption{client.InNamespace(c.Namespace)}},
		{"foreignclusters", &s.foreignClusters, nil}, {resourceTenants, &s.tenants, nil}, {"identities", &s.identities, nil}, {"resourceslices", &s.slices, nil},
		{resourceVirtualNodes, &s.virtualNodes, nil}, {resourceOffloadings, &s.offloadings, nil}, {"namespacemaps", &s.namespaceMaps, nil},
		{"shadowpods", &s.shadowPods, nil}, {"quotas", &s.quotas, nil}, {"resourcereflections", &s.reflections, nil}, {"offloadingpolicies", &s.policies, nil},
		{resourceNodes, &s.nodes, []client.ListOption{client.MatchingLabels{offloadingv1beta1.NodeTypeLabel: offloadingv1beta1.NodeTypeVirtual}}},
		{"persistentvolumeclaims", &s.claims, []client.ListOption{client.HasLabels{offloadingv1beta1.RemoteClaimLabel, offloadingv1beta1.StorageClusterLabel}}},
	} {
		if err := s.read(ctx, c, l); err != nil {
			return nil, err
		}
	}
	return s, errors.Join(s.readRealNodes(ctx, c), s.readPods(ctx, c), s.readWarnings(ctx, c))
}

// read reads a list. What the user may not read, what the cluster does not have, and what cannot be decoded is
// recorded.
func (s *snapshot) read(ctx context.Context, c *admin.Cluster, l listing) error {
	err := c.List(ctx, l.list, l.options...)
	_, isUnanswered := errors.AsType[*url.Error](err)
	switch {
	case err == nil, meta.IsNoMatchError(err):
	case apierrors.IsForbidden(err):
		if s.isKnown(l.resource) {
			s.unread = append(s.unread, l.resource)
		}
	case isUnanswered || ctx.Err() != nil:
		return fmt.Errorf("reading the %s of the cluster at %s: %w", l.resource, c.Host, err)
	default:
		s.broken[l.resource] = err
	}
	return nil
}

// readRealNodes reads the Nodes of a cluster that grants resources.
func (s *snapshot) readRealNodes(ctx context.Context, c *admin.Cluster) error {
	if !slices.ContainsFunc(s.slices.Items, func(slice authv1beta1.ResourceSlice) bool { return resourceslice.IsCopy(&slice) }) {
		return nil
	}
	isReal, err := labels.NewRequirement(offloadingv1beta1.NodeTypeLabel, selection.NotEquals, []string{offloadingv1beta1.NodeTypeVirtual})
	if err != nil {
		return fmt.Errorf("selecting the Nodes of the cluster: %w", err)
	}
	return s.read(ctx, c, listing{resourceNodes, &s.realNodes, []client.ListOption{client.MatchingLabelsSelector{Selector: labels.NewSelector().Add(*isReal)}}})
}

// readPods reads the pods on virtual nodes, and those that no node has taken.
func (s *snapshot) readPods(ctx context.Context, c *admin.Cluster) error {
	selectors := []client.MatchingFields{}
	if len(s.offloadings.Items) > 0 {
		selectors = append(selectors, client.MatchingFields{"spec.nodeName": "", "status.phase": string(corev1.PodPending)})
	}
	for i := range s.virtualNodes.Items {
		selectors = append(selectors, client.MatchingFields{"spec.nodeName": s.virtualNodes.Items[i].Name})
	}
	for _, selector := range selectors {
		pods := &corev1.PodList{}
		if err := s.read(ctx, c, listing{"pods", pods, []client.ListOption{selector}}); err != nil {
			return err
		}
		s.pods = append(s.pods, pods.Items...)
	}
	return nil
}

// readWarnings reads the events about objects of peers that exist and that this program cannot decode either.
func (s *snapshot) readWarnings(ctx context.Context, c *admin.Cluster) error {
	for _, reason := range warningReasons {
		events := &corev1.EventList{}
		if err := s.read(ctx, c, listing{"events", events, []client.ListOption{client.MatchingFields{"reason": reason, "type": corev1.EventTypeWarning}, client.Limit(maxWarnings)}}); err != nil {
			return err
		}
		for i := range events.Items {
			if hasEnded(ctx, c, &events.Items[i], s.now) {
				continue
			}
			s.warnings = append(s.warnings, events.Items[i])
		}
	}
	return nil
}
