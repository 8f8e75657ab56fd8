package main

import (
	"context"
	"path/filepath"
	"strings"
	"time"

	"github.com/longshore-dev/longshore/hack/demo/application"
	"github.com/longshore-dev/longshore/hack/demo/rig"
)

// report prints what happened and where to look further.
func (u *upCommand) report(ctx context.Context, r *rig.Rig, took time.Duration) error {
	rows, err := r.Rows(ctx, application.Namespace)
	if err != nil {
		return err
	}
	u.out.Heading("Pods of rome that run in milan, after %.0f seconds:", took.Seconds())
	cells := make([][]string, 0, len(rows))
	for _, row := range rows {
		cells = append(cells, []string{
			row.Pod, row.VirtualNode, row.RemoteNamespace, row.RemoteNode, row.Phase, strings.Join(row.Policies, ","),
		})
	}
	header := []string{"POD", "VIRTUAL NODE", "REMOTE NAMESPACE", "REMOTE NODE", "PHASE", "DECIDED BY"}
	if err := u.out.Table(header, cells); err != nil {
		return err
	}
	dir := u.session.Dir()
	kubectl, err := rig.LinkKubectl(ctx, filepath.Join(dir, "bin"))
	if err != nil {
		return err
	}
	u.out.Heading("Look further, with the kubectl that comes along:")
	for _, line := range []string{
		kubectl + " --kubeconfig " + dir + "/rome.kubeconfig get nodes,pods -A -o wide",
		kubectl + " --kubeconfig " + dir + "/milan.kubeconfig get shadowpods,pods -n shop-rome -o wide",
		kubectl + " --kubeconfig " + dir + "/rome.kubeconfig get offloadingpolicies",
		"ls " + u.session.LogDir() + "        # one log per process",
		"docs/tutorials/first-policy.md        # load a policy of your own",
		"make demo-down           # stop everything",
	} {
		u.out.Line("  %s", line)
	}
	return nil
}
