package peer

import (
	"context"

	"github.com/longshore-dev/longshore/cmd/longshorectl/admin"
	"github.com/longshore-dev/longshore/cmd/longshorectl/resourceslice"
	"github.com/longshore-dev/longshore/cmd/longshorectl/virtualnode"
)

// SliceSteps ask for resources, and wait for the virtual node.
func (p *Pair) SliceSteps(request resourceslice.Request) []admin.Step {
	steps := []admin.Step{{Title: "Resources of the provider", Run: func(ctx context.Context, waiting admin.Waiting) (err error) {
		p.granted, err = resourceslice.Apply(ctx, p.Consumer, p.inConsumer, p.Provider.ID, request, waiting)
		return err
	}}}
	if request.VirtualNode {
		steps = append(steps, admin.Step{Title: "Virtual node " + request.Name, Run: func(ctx context.Context, waiting admin.Waiting) error {
			return virtualnode.WaitOf(ctx, p.Consumer, p.granted.Slice, waiting)
		}})
	}
	return steps
}
