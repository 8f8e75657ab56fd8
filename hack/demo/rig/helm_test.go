package rig_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	helmcmd "helm.sh/helm/v4/pkg/cmd"
	"sigs.k8s.io/yaml"

	"github.com/longshore-dev/longshore/hack/demo/rig"
)

// TestMain is Helm when this binary is called by that name, as the link in a reader's folder does. Else it runs the tests.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "helm" {
		os.Exit(runHelm(os.Args[1:]))
	}
	code := m.Run()
	if err := stopIdle(); err != nil {
		fmt.Fprintln(os.Stderr, "stopping the clusters of the tests:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// runHelm is Helm's command line.
func runHelm(args []string) int {
	if slices.Contains(args, "install") {
		args = append(args, nodeValues(args)...)
	}
	command, err := helmcmd.NewRootCmd(os.Stdout, args, helmcmd.SetupLogging)
	if err == nil {
		command.SetArgs(args)
		err = command.Execute()
	}
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, err)
	if is := (helmcmd.CommandError{}); errors.As(err, &is) {
		return is.ExitCode
	}
	return 1
}

// nodeValues returns the flag with what an installation on the clusters here needs beside what a
// document says: nodes that run processes instead of containers.
func nodeValues(args []string) []string {
	for _, arg := range args {
		if cluster, ok := strings.CutPrefix(arg, "clusterID="); ok {
			// A list of files: one with a comma in its name stands in quotes.
			return []string{"--values", strconv.Quote(valuesFile(os.Getenv("DEMO"), cluster))}
		}
	}
	return nil
}

func valuesFile(demo, cluster string) string { return filepath.Join(demo, "values-"+cluster+".yaml") }

// noticeLoss changes the values of a cluster so that it notices after seconds, not after a minute, that a peer
// is lost.
func noticeLoss(_ string, values map[string]any) {
	manager := values["manager"].(map[string]any)
	manager["extraArgs"] = append(manager["extraArgs"].([]any), "--foreign-cluster-ping-interval=2s")
}

// linkHelm puts a helm into a folder of the demo, and writes the values for it.
func linkHelm(t *testing.T, r *rig.Rig, demo string) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	require.NoError(t, os.Symlink(self, filepath.Join(demo, "bin", "helm")))
	for cluster, values := range r.Values() {
		noticeLoss(cluster, values)
		content, err := yaml.Marshal(values)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(valuesFile(demo, cluster), content, 0o600))
	}
}
