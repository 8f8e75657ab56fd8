package rig

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// Healthy waits until both API servers answer and all nodes except virtual ones are ready:
// those of kwok, and those on which processes run. Longshore's own Deployments are not
// checked: installing again repairs them.
func (r *Rig) Healthy(ctx context.Context, progress Progress) error {
	for _, c := range []*Cluster{r.Rome, r.Milan} {
		if err := c.waitForOwnNodes(ctx, progress); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) waitForOwnNodes(ctx context.Context, progress Progress) error {
	var unready []string
	err := c.eventually(ctx, func(ctx context.Context) (bool, error) {
		list := &corev1.NodeList{}
		if err := c.List(ctx, list); err != nil {
			return false, fmt.Errorf("cluster %q does not answer: %w", c.Name, err)
		}
		unready = unreadyNodes(list.Items)
		progress("waiting for " + strings.Join(unready, ", "))
		return len(unready) == 0, nil
	})
	if err != nil && len(unready) > 0 {
		return fmt.Errorf("cluster %q does not work any more (%s): %w", c.Name, strings.Join(unready, ", "), err)
	}
	return err
}

// unreadyNodes describes the nodes that are not ready, virtual ones excepted.
func unreadyNodes(nodes []corev1.Node) []string {
	unready := []string{}
	for i := range nodes {
		node := &nodes[i]
		if node.Labels[offloadingv1beta1.NodeTypeLabel] == offloadingv1beta1.NodeTypeVirtual {
			continue
		}
		reason := "it has no Ready condition"
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady {
				reason = strings.TrimSuffix(condition.Reason+": "+condition.Message, ": ")
				if condition.Status == corev1.ConditionTrue {
					reason = ""
				}
			}
		}
		if reason != "" {
			unready = append(unready, fmt.Sprintf("node %s is not ready: %s", node.Name, reason))
		}
	}
	if len(nodes) == 0 {
		unready = append(unready, "it has no nodes")
	}
	slices.Sort(unready)
	return unready
}
