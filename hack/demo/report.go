package main

import (
	"context"
	"path/filepath"
	"slices"
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
	var policies []string
	for _, row := range rows {
		cells = append(cells, []string{row.Pod, row.RemoteNamespace, row.RemoteNode, row.Phase})
		policies = append(policies, row.Policies...)
	}
	if err := u.out.Table([]string{"POD", "REMOTE NAMESPACE", "REMOTE NODE", "PHASE"}, cells); err != nil {
		return err
	}
	slices.Sort(policies)
	u.out.Line("Decided by %s.", strings.Join(slices.Compact(policies), ", "))
	if err := u.reportNeeds(ctx, r); err != nil {
		return err
	}
	dir := u.session.Dir()
	if _, err := rig.LinkKubectl(ctx, filepath.Join(dir, "bin")); err != nil {
		return err
	}
	u.out.Heading("Look further, with the kubectl that comes along:")
	for _, line := range []string{
		"export PATH=" + filepath.Join(dir, "bin") + ":$PATH",
		"kubectl --kubeconfig " + dir + "/rome.kubeconfig get nodes,pods -A",
		"kubectl --kubeconfig " + dir + "/milan.kubeconfig get shadowpods,pods -n shop-rome",
		"kubectl --kubeconfig " + dir + "/rome.kubeconfig get offloadingpolicies",
		"ls " + u.session.LogDir() + "        # one log per process",
		"docs/tutorials/first-policy.md        # load a policy of your own",
		"make demo-down           # stop everything",
	} {
		u.out.Line("  %s", line)
	}
	return nil
}

// reportNeeds prints what follows the pods, in both clusters.
func (u *upCommand) reportNeeds(ctx context.Context, r *rig.Rig) error {
	needs, err := r.Needs(ctx, application.Namespace)
	if err != nil {
		return err
	}
	u.out.Heading("What follows them:")
	cells := make([][]string, 0, len(needs))
	for _, need := range needs {
		cells = append(cells, []string{need.Kind, need.Name, need.Local, need.Remote})
	}
	return u.out.Table([]string{"KIND", "NAME", "IN ROME", "IN MILAN"}, cells)
}
