package peer

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/longshore-dev/longshore/cmd/longshorectl/admin"
	"github.com/longshore-dev/longshore/cmd/longshorectl/resourceslice"
	"github.com/longshore-dev/longshore/cmd/longshorectl/virtualnode"
)

// SliceSteps ask for resources, and wait for the virtual node (wire P4.2).
func (p *Pair) SliceSteps(request resourceslice.Request) []admin.Step {
	var capacity corev1.ResourceList
	steps := []admin.Step{{Title: "Resources of the provider", Run: func(ctx context.Context, waiting admin.Waiting) error {
		slice, err := resourceslice.Apply(ctx, p.Consumer, p.inConsumer, p.Provider.ID, request, waiting)
		if err == nil {
			capacity = resourceslice.ExpectedGrant(slice)
		}
		return err
	}}}
	if request.VirtualNode {
		steps = append(steps, admin.Step{Title: "Virtual node " + request.Name, Run: func(ctx context.Context, waiting admin.Waiting) error {
			return virtualnode.WaitReady(ctx, p.Consumer, p.inConsumer, request.Name, capacity, waiting)
		}})
	}
	return steps
}
