package rig_test

import (
	"bytes"
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/hack/demo/rig"
	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

const longshorectl = "../../../bin/longshorectl"

// shell runs longshorectl as its users do, in a pipe.
type shell struct {
	rig         *rig.Rig
	kubeconfigs map[string]string
}

// run runs a command line in which @rome and @milan are the kubeconfigs of the clusters.
func (s *shell) run(t *testing.T, line string, input string) (stdout, stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	args := strings.Fields(line)
	for i := range args {
		if path, ok := s.kubeconfigs[strings.TrimPrefix(args[i], "@")]; ok && strings.HasPrefix(args[i], "@") {
			args[i] = path
		}
	}
	var out, errs bytes.Buffer
	command := exec.CommandContext(ctx, longshorectl, args...)
	command.Stdin, command.Stdout, command.Stderr = strings.NewReader(input), &out, &errs
	err := command.Run()
	t.Logf("$ longshorectl %s\n%s%s", line, out.String(), errs.String())
	if err != nil {
		exit := &exec.ExitError{}
		require.ErrorAs(t, err, &exit)
		require.NoError(t, ctx.Err(), line)
	}
	assert.NotContains(t, out.String()+errs.String(), "\033", "a pipe gets no escape sequence")
	return out.String(), errs.String(), command.ProcessState.ExitCode()
}

// ok runs a command line that succeeds, and returns what it prints.
func (s *shell) ok(t *testing.T, line string) string {
	t.Helper()
	out, errs, code := s.run(t, line, "")
	require.Zero(t, code, "%s: %s", line, errs)
	return out
}

// fails runs a command line that fails.
func (s *shell) fails(t *testing.T, line string, code int, message string) {
	t.Helper()
	out, errs, got := s.run(t, line, "")
	assert.Equal(t, code, got, line)
	assert.Contains(t, errs, message, line)
	assert.Empty(t, out, line)
}

// TestTheCommandLine runs the commands of longshorectl on two clusters. Its parts build on each
// other: one installation is used for all of them.
func TestTheCommandLine(t *testing.T) {
	r := start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	require.NoError(t, r.Install(ctx, nil))
	require.NoError(t, r.Rome.WaitForDeployments(ctx, rig.Namespace, quiet))
	require.NoError(t, r.Milan.WaitForDeployments(ctx, rig.Namespace, quiet))
	dir := t.TempDir()
	kubeconfigs, err := r.WriteKubeconfigs(dir)
	require.NoError(t, err)
	for name, path := range kubeconfigs {
		kubeconfigs[name], err = filepath.Abs(path)
		require.NoError(t, err)
	}
	s := &shell{rig: r, kubeconfigs: kubeconfigs}
	for _, step := range []struct {
		name string
		run  func(*testing.T, *shell)
	}{
		{"peer, and peer again with another request", peerLines},
		{"slices and virtual nodes are created, listed and deleted", capacityLines},
	} {
		if !t.Run(step.name, func(t *testing.T) { step.run(t, s) }) {
			return
		}
	}
}

func peerLines(t *testing.T, s *shell) {
	const peer = "peer --kubeconfig @rome --remote-kubeconfig @milan --networking-disabled"
	out := s.ok(t, peer)
	assert.Equal(t, "CONSUMER  PROVIDER  STATE   VIRTUAL NODE\nrome      milan     Peered  milan\n", out)
	// Without a wait, the grant and the virtual node are those of the first request here.
	s.ok(t, peer+" --cpu 9 --pods 50")
	slice, vn := &authv1beta1.ResourceSlice{}, &offloadingv1beta1.VirtualNode{}
	key := client.ObjectKey{Namespace: tenantInRome, Name: "milan"}
	require.NoError(t, s.rig.Rome.Get(t.Context(), key, slice))
	require.NoError(t, s.rig.Rome.Get(t.Context(), key, vn))
	for _, granted := range []corev1.ResourceList{slice.Status.Resources, vn.Spec.ResourceQuota.Hard} {
		assert.Equal(t, "9", granted.Cpu().String())
		assert.Equal(t, "50", granted.Pods().String())
		assert.Equal(t, "8Gi", granted.Memory().String(), "the default")
	}
	s.fails(t, peer+"=false", 2, "no networking module")
}

func capacityLines(t *testing.T, s *shell) {
	const slice = "create resourceslice mypool --remote-cluster-id milan --kubeconfig @rome"
	assert.Contains(t, s.ok(t, slice+" --cpu 1 -o yaml"), "spec:\n  class: default\n  providerClusterID: milan\n  resources:\n    cpu: \"1\"\n")
	s.fails(t, "get resourceslice mypool --kubeconfig @rome", 1, `ResourceSlice "mypool" does not exist`)
	for range 2 {
		out := s.ok(t, slice+" --cpu 1 --memory 2Gi --pods 10 --class default --no-virtual-node")
		assert.Regexp(t, `^NAME +PEER +ACTION .*\nmypool +milan +Consuming +Accepted +Accepted +1 +2Gi +10 +\d+s\n$`, out)
	}
	assert.Regexp(t, `\nmypool +rome +Providing +Accepted +Accepted +1 +2Gi +10 `, s.ok(t, "get rs --kubeconfig @milan"))
	s.fails(t, "create resourceslice mypool --remote-cluster-id oslo --kubeconfig @rome", 1, `no tenant namespace for cluster "oslo"`)

	const node = "create virtualnode mynode --remote-cluster-id milan --resource-slice-name mypool --kubeconfig @rome --labels zone=a --node-selector pool=x"
	for _, line := range []string{node, node, node + " --cpu 500m"} {
		assert.Regexp(t, `\nmynode +milan +\w+ +\w+ +(1|500m) +2Gi +10 +\d+s\n$`, s.ok(t, line))
	}
	created := &corev1.Node{}
	require.NoError(t, s.rig.Rome.Get(t.Context(), client.ObjectKey{Name: "mynode"}, created))
	assert.Equal(t, "a", created.Labels["zone"])
	s.ok(t, "create vn secretnode --remote-cluster-id milan --kubeconfig-secret-name kubeconfig-resourceslice-mypool --kubeconfig @rome --cpu 1 --memory 1Gi --pods 5 --storage-classes fast,slow --disable-network-check")
	s.fails(t, "create virtualnode mynode --remote-cluster-id milan --kubeconfig-secret-name other --kubeconfig @rome", 1, "Secret liqo-tenant-milan/other with the kubeconfig of milan does not exist")
	s.fails(t, "create virtualnode milan --remote-cluster-id milan --resource-slice-name milan --kubeconfig @rome", 1, "follows its ResourceSlice")
	assert.Contains(t, s.ok(t, "get virtualnode secretnode --kubeconfig @rome -o yaml"), "storageClassName: fast")

	s.fails(t, "delete resourceslice mypool --kubeconfig @rome", 1, `VirtualNode "mynode" uses the slice`)
	s.fails(t, "delete virtualnode milan --kubeconfig @rome", 1, "run longshorectl delete resourceslice milan")
	for _, want := range []string{"deleted", "does not exist"} {
		for _, what := range []string{"virtualnode/mynode", "virtualnode/secretnode", "resourceslice/mypool"} {
			kind, name, _ := strings.Cut(what, "/")
			assert.Equal(t, what+" "+want+"\n", s.ok(t, "delete "+kind+" "+name+" --kubeconfig @rome"))
		}
	}
	assert.NotContains(t, s.ok(t, "get resourceslice --kubeconfig @milan"), "mypool")
}
